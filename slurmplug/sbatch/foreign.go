package sbatch

import (
	"bytes"
	"strings"
)

// foreign applies #BSUB or, when there are none, #PBS lines
// (src/sbatch/xlate.c). They count in the whole script until more than a
// hundred lines that are no comment have gone by, for every het component.
func (s *state) foreign(script []byte, r Release) error {
	if words, err := foreignWords(script, "#BSUB", r); len(words) > 0 || err != nil {
		if err != nil {
			return err
		}
		return s.bsub(words)
	}
	words, err := foreignWords(script, "#PBS", r)
	if len(words) == 0 || err != nil {
		return err
	}
	return s.pbs(words, r)
}

func foreignWords(script []byte, magic string, r Release) (words []Word, err error) {
	// Nearly every script has none of them.
	if !bytes.Contains(script, []byte(magic)) {
		return nil, nil
	}
	others := 0
	for number := 1; len(script) > 0 && others <= 100; number++ {
		var line []byte
		line, script, _ = bytes.Cut(script, []byte("\n"))
		if nul := bytes.IndexByte(line, 0); nul >= 0 {
			line = line[:nul]
		}
		tail, ok := bytes.CutPrefix(line, []byte(magic))
		switch {
		case ok:
			if words, err = splitWords(words, string(tail), number, r); err != nil {
				return nil, err
			}
		case len(line) == 0 || line[0] != '#':
			others++
		}
	}
	return words, nil
}

// foreignGrammar builds a grammar from getopt's own notation: short options, a
// ":" after each that takes an argument, and "long=short" pairs.
func foreignGrammar(shorts, longs string) *Grammar {
	g := Only()
	for i := 0; i < len(shorts); i++ {
		o := &Option{Name: shorts[i : i+1], Short: shorts[i]}
		if strings.HasPrefix(shorts[i+1:], ":") {
			o.Arg = Required
			i++
		}
		g.byShort[o.Short] = o
	}
	for _, pair := range strings.Fields(longs) {
		long, short, _ := strings.Cut(pair, "=")
		o := *g.byShort[short[0]]
		if o.Name = long; long == "join" {
			o.Arg = Optional
		}
		g.options = append(g.options, &o)
		g.byName[long] = &o
	}
	return g
}

// parseForeign reads foreign words and calls set with the short letter of each option.
func (g *Grammar) parseForeign(words []Word, set func(letter byte, value string, line int)) error {
	args := texts(words)
	found, _, rest, err := g.Getopt(args)
	if e, ok := err.(*OptionError); ok {
		return &ScriptError{words[e.At].Line, e.Error()}
	}
	for _, f := range found {
		set(f.Option.Short, f.Value, words[f.At].Line)
	}
	if rest < len(args) {
		return &ScriptError{words[rest].Line, "\"" + shown(args[rest]) + "\" is no option"}
	}
	return nil
}

func (s *state) foreignSet(name, value string, arg Arg, line int) {
	s.set(Found{Option: &Option{Name: name}, Value: value, HasValue: arg != NoArg}, Setting{Source: FromForeign, Line: line})
}

func (s *state) bsub(words []Word) error {
	for i := range words {
		if i%2 == 0 && words[i].Text == "-cwd" {
			words[i].Text = "-c"
		}
	}
	names := map[byte]string{'c': "chdir", 'e': "error", 'J': "job-name", 'm': "nodelist", 'M': "mem-per-cpu",
		'n': "ntasks", 'o': "output", 'q': "partition", 'W': "time"}
	g := foreignGrammar("c:e:J:m:M:n:o:q:W:x", "cwd=c error_file=e job_name=J hostname=m memory_limit=M "+
		"output_file=o queue_name=q time=W exclusive=x")
	return g.parseForeign(words, func(letter byte, value string, line int) {
		switch letter {
		case 'x':
			s.foreignSet("exclusive", "", NoArg, line)
			return
		case 'm': // hosts stand between blanks
			value = strings.ReplaceAll(value, " ", ",")
		case 'M': // KB unless it says otherwise
			if n := len(value); n > 0 && value[n-1] >= '0' && value[n-1] <= '9' {
				value += "K"
			}
		case 'n': // "min,max": the larger one counts
			if _, most, ok := strings.Cut(value, ","); ok {
				value = most
			}
		}
		s.foreignSet(names[letter], value, Required, line)
	})
}

func (s *state) pbs(words []Word, r Release) error {
	names := map[byte]string{'a': "begin", 'A': "account", 'e': "error", 'J': "array", 't': "array", 'm': "mail-type",
		'M': "mail-user", 'N': "job-name", 'o': "output", 'p': "nice", 'q': "partition", 'v': "export"}
	shorts := "a:A:c:C:e:hIj:J:k:l:m:M:N:o:p:q:r:S:t:u:v:VW:z"
	if r == 0 || r >= 2302 {
		shorts += "d:w:"
		names['d'], names['w'] = "chdir", "chdir"
	}
	g := foreignGrammar(shorts, "start_time=a account=A checkpoint=c working_dir=C error=e hold=h interactive=I join=j "+
		"job_array=J keep=k resource_list=l mail_options=m mail_user_list=M job_name=N out=o priority=p destination=q "+
		"rerunable=r script_path=S array=t running_user=u variable_list=v all_env=V attributes=W no_std=z")
	return g.parseForeign(words, func(letter byte, value string, line int) {
		switch letter {
		case 'h':
			s.foreignSet("hold", "", NoArg, line)
			return
		case 'm':
			value = pbsMailType(value)
		case 'v': // adds to what is exported already
			if before, ok := s.job.Set["export"]; ok {
				value = before.Value + "," + value
			}
		case 'W':
			switch key, v, _ := strings.Cut(value, "="); strings.ToLower(key) {
			case "umask":
				s.foreignSet("umask", v, Required, line)
			case "depend":
				s.foreignSet("dependency", v, Required, line)
			}
			return
		}
		if name := names[letter]; name != "" {
			s.foreignSet(name, value, Required, line)
		}
	})
}

func pbsMailType(letters string) string {
	if strings.ContainsAny(letters, "nN") {
		return "NONE"
	}
	var types []string
	for _, t := range []struct{ letters, name string }{{"bB", "BEGIN"}, {"eE", "END"}, {"aA", "FAIL"}} {
		if strings.ContainsAny(letters, t.letters) {
			types = append(types, t.name)
		}
	}
	return strings.Join(types, ",")
}
