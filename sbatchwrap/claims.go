package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/sbatch"
)

// claim is one thing that a user says about a job.
type claim struct {
	option *option
	value  string
	where  string // place and name, as an error shows them
}

// argumentClaims are those of the command line.
func argumentClaims(cmd *sbatch.Command) (claims []claim) {
	for _, f := range cmd.First {
		if o := findOption(f.Option.Name); o != nil {
			claims = append(claims, claim{o, f.Value, "command line: --" + o.name})
		}
	}
	return claims
}

// environmentClaims are those of SBATCHWRAP_* variables; an empty one says
// nothing. strange are variables that look like ours and are not.
func environmentClaims(env []string) (claims []claim, strange []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, "SBATCHWRAP_") {
			continue
		}
		name, value, _ := strings.Cut(e, "=")
		i := slices.IndexFunc(options, func(o option) bool { return o.variable() == name })
		switch {
		case i >= 0 && value != "":
			claims = append(claims, claim{&options[i], value, "variable " + name})
		case i < 0 && name != sbatchVariable && name != wakeVariable && name != guardVariable:
			strange = append(strange, name)
		}
	}
	return claims, strange
}

// scriptClaims are those of #PRIO lines. They stand where #SBATCH lines count,
// and their words are quoted as those are (as 24.05 and later do it).
func scriptClaims(s *script) (claims []claim, err error) {
	components, err := sbatch.Scan(s.text, 2405, func(line string) (string, bool) {
		tail, ok := strings.CutPrefix(line, "#PRIO")
		return tail, ok && (tail == "" || strings.ContainsAny(tail[:1], " \t\r\v\f"))
	})
	var bad *sbatch.ScriptError
	if errors.As(err, &bad) {
		return nil, usagef("%s, line %d: #PRIO: %s", s.title(), bad.Line, bad.Reason)
	}
	words := slices.Concat(components...)
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = w.Text
	}
	where := func(i int) string { return fmt.Sprintf("%s, line %d: ", s.title(), words[i].Line) }
	found, _, rest, err := sbatch.Only(exactOptions()...).Getopt(args)
	var wrong *sbatch.OptionError
	switch {
	case errors.As(err, &wrong) && wrong.Option != nil:
		return nil, usagef("%s%s", where(wrong.At), wrong.Error())
	case wrong != nil:
		return nil, usagef("%s#PRIO takes --prio-* options only, spelled in full, not %s", where(wrong.At), quote(args[wrong.At]))
	case rest < len(words):
		return nil, usagef("%s#PRIO takes --prio-* options only, not %s", where(rest), quote(args[rest]))
	}
	for _, f := range found {
		claims = append(claims, claim{findOption(f.Option.Name), f.Value, where(f.At) + "--" + f.Option.Name})
	}
	return claims, nil
}

// buildTag makes the tag of all claims. The last one on a matter counts; a bad
// one is an error even when it would not.
func buildTag(claims []claim) (jobtag.Tag, string, error) {
	var tag jobtag.Tag
	for _, c := range claims {
		if want := c.option.apply(&tag, c.value); want != "" {
			return tag, "", usagef("%s %s: %s", c.where, quote(c.value), want)
		}
	}
	text, err := jobtag.Encode(tag)
	if err != nil {
		return tag, "", usagef("the --prio-* options don't fit into a tag: %v", err)
	}
	return tag, text, nil
}
