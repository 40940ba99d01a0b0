package sbatch

import (
	"errors"
	"maps"
	"strings"
)

// Source is where a setting comes from.
type Source uint8

// Sources in the order in which sbatch reads them; a later one wins.
const (
	FromScript   Source = iota // #SBATCH
	FromForeign                // #BSUB or #PBS, translated
	FromVariable               // SBATCH_... and the like
	FromArgs                   // command line
)

// Setting is what one option is set to, and by whom.
type Setting struct {
	Value    string
	HasValue bool
	Source   Source
	Line     int    // of the script, for FromScript and FromForeign
	Variable string // for FromVariable
}

// Requeue is what a job says about being requeued.
type Requeue uint8

// RequeueUnset leaves it to the site's JobRequeue.
const (
	RequeueUnset Requeue = iota
	RequeueYes
	RequeueNo
)

// Job is one component of a submission (the only one, for most jobs), as
// sbatch resolves it.
type Job struct {
	Set     map[string]Setting // by Option.Name, only options that are set
	Requeue Requeue
}

// Resolve says what counts in the end: command line over variables over
// #BSUB/#PBS over #SBATCH, for each het component. script is nil for --wrap. A
// value set for one component stays for the next, unless the option is
// PerComponent; and because of sbatch's first pass over the whole command line
// a later component's value also reaches an earlier one that has none.
//
// An error is a *ScriptError, for what sbatch would refuse as well, or
// ErrInstalled. With the former come the components before the one that is wrong:
// sbatch shows these to a cli_filter before it reads on.
func (g *Grammar) Resolve(cmd *Command, script []byte, env []string) ([]Job, error) {
	var all [][]Word
	var wrong error // with the last component of all
	if script != nil {
		if all, wrong = Directives(script, g.release); wrong != nil && !errors.As(wrong, new(*ScriptError)) {
			return nil, wrong
		}
	}
	vars := variables(env)
	s := state{job: Job{Set: map[string]Setting{}}}
	if v, ok := vars["SBATCH_IGNORE_PBS"]; ok {
		s.variable(g.byName["ignore-pbs"], "SBATCH_IGNORE_PBS", v)
	}
	for _, f := range cmd.First {
		s.set(f, Setting{Source: FromArgs})
	}

	var jobs []Job
	for i := range max(len(all), len(cmd.Components)) {
		s.nextComponent()
		if wrong != nil && i == len(all)-1 {
			return jobs, wrong
		}
		if i < len(all) {
			if err := s.directives(g, all[i]); err != nil {
				return jobs, err
			}
		}
		if _, ignore := s.job.Set["ignore-pbs"]; !ignore && script != nil {
			if err := s.foreign(script, g.release); err != nil {
				return nil, err
			}
		}
		for _, o := range g.options {
			for _, name := range o.Env {
				if v, ok := vars[name]; ok && o.Name != "ignore-pbs" && g.readsEnv(o) {
					s.variable(o, name, v)
				}
			}
		}
		// When the script has more components than the command line, sbatch
		// reads the last part of the command line again.
		for _, f := range cmd.Components[min(i, len(cmd.Components)-1)].Found {
			if !f.Option.Early {
				s.set(f, Setting{Source: FromArgs})
			}
		}
		jobs = append(jobs, s.copy())
	}
	return jobs, nil
}

func (g *Grammar) readsEnv(o *Option) bool { return g.release == 0 || g.release >= o.EnvSince }

func variables(env []string) map[string]string {
	vars := make(map[string]string, 8)
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && (strings.HasPrefix(name, "SBATCH_") || strings.HasPrefix(name, "SLURM_")) {
			if _, twice := vars[name]; !twice { // getenv finds the first
				vars[name] = value
			}
		}
	}
	return vars
}

// state is what sbatch remembers while it reads.
type state struct{ job Job }

func (s *state) copy() Job {
	return Job{maps.Clone(s.job.Set), s.job.Requeue}
}

func (s *state) nextComponent() {
	for i := range options {
		if options[i].PerComponent {
			delete(s.job.Set, options[i].Name)
		}
	}
}

func (s *state) set(f Found, how Setting) {
	how.Value, how.HasValue = f.Value, f.HasValue
	s.job.Set[f.Option.Name] = how
	switch f.Option.Name {
	case "requeue":
		s.job.Requeue = RequeueYes
	case "no-requeue":
		s.job.Requeue = RequeueNo
	}
}

// variable sets an option by a variable (slurm_process_option in
// src/common/slurm_opt.c): a flag takes "", "yes" or a number other than 0,
// and any other value takes the flag back.
func (s *state) variable(o *Option, name, value string) {
	f := Found{Option: o, Value: value, HasValue: o.Arg == Required || o.Arg == Optional && value != ""}
	if o.Arg == NoArg || o.Arg == optionalFlag {
		f.Value = ""
		if value != "" && !strings.EqualFold(value, "yes") && !nonzero(value) {
			delete(s.job.Set, o.Name)
			if o.Name == "requeue" || o.Name == "no-requeue" {
				s.job.Requeue = RequeueUnset
			}
			return
		}
	}
	s.set(f, Setting{Source: FromVariable, Variable: name})
}

// nonzero reports whether strtol reads all of s as a number other than 0.
func nonzero(s string) bool {
	s = strings.TrimLeft(s, blanks)
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return strings.Trim(s, "0123456789") == "" && strings.Trim(s, "0") != ""
}

func (s *state) directives(g *Grammar, words []Word) error {
	args := texts(words)
	found, _, rest, err := g.Getopt(args)
	if err != nil {
		if o, ok := err.(*OptionError); ok && o.Reason != Unresolved {
			return &ScriptError{words[o.At].Line, o.Error()}
		}
		return err
	}
	if rest < len(args) {
		return &ScriptError{words[rest].Line, "\"" + shown(args[rest]) + "\" is no option"}
	}
	for _, f := range found {
		if !f.Option.Early {
			s.set(f, Setting{Source: FromScript, Line: words[f.At].Line})
		}
	}
	return nil
}

func texts(words []Word) []string {
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = w.Text
	}
	return args
}
