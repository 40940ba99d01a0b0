package prio

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/sbatch"
)

// Given is one option as a user gave it, on the command line, in a variable or a script.
type Given struct {
	Option *Option
	Value  string
	where  string // place and name, as an error shows them
}

// FromArguments are the options of the command line.
func FromArguments(cmd *sbatch.Command) (given []Given) {
	for _, f := range cmd.First {
		if o := find(f.Option.Name); o != nil {
			given = append(given, Given{o, f.Value, "command line: --" + o.Name})
		}
	}
	return given
}

// Variables of sbatchwrap that are no options.
const (
	SbatchVariable = variables + "SBATCH" // path of the real sbatch
	WakeVariable   = variables + "WAKE"   // where priod hears of TE jobs
	HoldVariable   = variables + "HOLD"   // how long jobs that may be steered begin later
	GuardVariable  = variables + "GUARD"  // who ran a script as sbatch
)

// others are variables that say nothing about a job.
var others = []string{SbatchVariable, WakeVariable, HoldVariable, GuardVariable}

// FromEnvironment are those of SBATCHWRAP_* variables; an empty one says
// nothing. strange are variables that look like ours and are not.
func FromEnvironment(env []string) (given []Given, strange []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, variables) {
			continue
		}
		name, value, _ := strings.Cut(e, "=")
		o := ofVariable(name)
		switch {
		case o != nil && value != "":
			given = append(given, Given{o, value, "variable " + name})
		case o == nil && !slices.Contains(others, name):
			strange = append(strange, name)
		}
	}
	return given, strange
}

// ofVariable is the option that a variable sets; nil: none.
func ofVariable(name string) *Option {
	for _, all := range [][]Option{Options, gone} {
		for i := range all {
			if all[i].Variable() == name && all[i].Value != "" {
				return &all[i]
			}
		}
	}
	return nil
}

// FromScript are those of #PRIO lines. They stand where #SBATCH lines count,
// and their words are quoted as those are (as 24.05 and later do it). title is
// what an error calls the script. An option of ours on a directive of sbatch's
// own, where sbatch would refuse it, is an error as well.
func FromScript(title string, text []byte) (given []Given, err error) {
	if err := misplaced(title, text); err != nil {
		return nil, err
	}
	components, err := sbatch.Scan(text, 2405, func(line string) (string, bool) {
		tail, ok := strings.CutPrefix(line, "#PRIO")
		return tail, ok && (tail == "" || strings.ContainsAny(tail[:1], " \t\r\v\f"))
	})
	var bad *sbatch.ScriptError
	if errors.As(err, &bad) {
		return nil, Errorf("%s, line %d: #PRIO: %s", title, bad.Line, bad.Reason)
	}
	words := slices.Concat(components...)
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = w.Text
	}
	where := func(i int) string { return fmt.Sprintf("%s, line %d: ", title, words[i].Line) }
	found, _, rest, err := sbatch.Only(Exact()...).Getopt(args)
	var wrong *sbatch.OptionError
	switch {
	case errors.As(err, &wrong) && wrong.Option != nil:
		return nil, Errorf("%s%s", where(wrong.At), wrong.Error())
	case wrong != nil:
		return nil, Errorf("%s#PRIO takes --prio-* options only, spelled in full, not %s", where(wrong.At), Quote(args[wrong.At]))
	case rest < len(words):
		return nil, Errorf("%s#PRIO takes --prio-* options only, not %s", where(rest), Quote(args[rest]))
	}
	for _, f := range found {
		given = append(given, Given{find(f.Option.Name), f.Value, where(f.At) + "--" + f.Option.Name})
	}
	return given, nil
}

// Tag makes the tag of all that was given. The last one on a matter counts; a bad
// one is an error even when it would not.
func Tag(given []Given) (jobtag.Tag, string, error) {
	var tag jobtag.Tag
	if err := noneAlone(given); err != nil {
		return tag, "", err
	}
	for _, g := range given {
		if g.Option.isGone() {
			return tag, "", g.Option.goneFrom(g.where)
		}
		if want := g.Option.apply(&tag, g.Value); want != "" {
			return tag, "", Errorf("%s %s: %s", g.where, Quote(g.Value), want)
		}
	}
	text, err := jobtag.Encode(tag)
	if err != nil {
		return tag, "", Errorf("the --prio-* options don't fit into a tag: %v", err)
	}
	return tag, text, nil
}

// noneAlone refuses a type of job beside --prio-none on one command line: a variable or a script's line gives way to either.
func noneAlone(given []Given) error {
	none, kind := "", ""
	for _, g := range given {
		switch line, _, _ := strings.Cut(g.where, ":"); {
		case line != "command line":
		case g.Option.Name == "prio-none" && g.Value != "no":
			none = g.where
		case g.Option.Name == "prio-type" && g.Value != "none":
			kind = g.Value
		}
	}
	if none != "" && kind != "" {
		return Errorf("%s beside --prio-type %s: give one of them", none, kind)
	}
	return nil
}

// misplaced finds an option of ours on an #SBATCH line.
func misplaced(title string, text []byte) error {
	if !bytes.Contains(text, []byte("--prio-")) {
		return nil
	}
	components, _ := sbatch.Directives(text, 2405)
	for _, w := range slices.Concat(components...) {
		name, _, _ := strings.Cut(strings.TrimPrefix(w.Text, "--"), "=")
		switch o := find(name); {
		case o == nil:
		case o.isGone():
			return o.goneFrom(fmt.Sprintf("%s, line %d: --%s", title, w.Line, name))
		default:
			return Errorf("%s, line %d: --%s stands on an #SBATCH line, where sbatch refuses it: write #PRIO --%[3]s", title, w.Line, name)
		}
	}
	return nil
}
