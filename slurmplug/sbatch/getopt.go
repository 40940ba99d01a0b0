package sbatch

import (
	"errors"
	"strconv"
	"strings"
)

// Found is one option as it stands in a list of words.
type Found struct {
	Option   *Option
	Value    string
	HasValue bool // false for a flag and for an optional argument left out
	At       int  // index of its first word; short options in one word share it
	Words    int  // words that it takes: 1 or 2
}

// Word is the option as one word of its own: "--nodes=2", "--hold".
func (f Found) Word() string {
	if f.HasValue {
		return "--" + f.Option.Name + "=" + f.Value
	}
	return "--" + f.Option.Name
}

// Reason says what is wrong with a word that should be an option.
type Reason uint8

// What can be wrong with an option.
const (
	_          Reason = iota
	Unknown           // no option has this name
	Ambiguous         // an abbreviation of several
	Unresolved        // depends on the installed sbatch: see AnyRelease
	NeedsValue
	TakesNoValue
)

// OptionError is a word that is no valid option.
type OptionError struct {
	Name       string // as given, "--par" or "-z", without "=value"
	Option     *Option
	Reason     Reason
	Candidates []string // for Ambiguous and Unresolved
	At         int
}

func (e *OptionError) Error() string {
	name := shown(e.Name)
	switch e.Reason {
	case Ambiguous:
		return "option " + name + " is ambiguous: --" + strings.Join(e.Candidates, ", --")
	case Unresolved:
		return "option " + name + " " + ErrInstalled.Error()
	case NeedsValue:
		return "option " + name + " needs a value"
	case TakesNoValue:
		return "option " + name + " takes no value"
	}
	return "unknown option " + name
}

// shown is a word fit for a terminal: quoted when it has to be, and not long.
func shown(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	if q := strconv.QuoteToASCII(s); len(q) > len(s)+2 {
		return q
	}
	return s
}

// ErrInstalled is what errors wrap when only the grammar of the installed
// sbatch can tell: see AnyRelease and Installed.
var ErrInstalled = errors.New("depends on the installed sbatch")

// Is makes an Unresolved option an ErrInstalled.
func (e *OptionError) Is(target error) bool {
	return target == ErrInstalled && e.Reason == Unresolved
}

// Getopt reads options from words (without the program's name) until the first
// word that is none, as getopt_long does with "+" in front of its short
// options. It returns the options before the first error too. end is where
// one more option could stand, rest the first word that is no option: they
// differ by a "--" between them.
func (g *Grammar) Getopt(words []string) (found []Found, end, rest int, err error) {
	i := 0
	for i < len(words) {
		w := words[i]
		switch {
		case w == "--":
			return found, i, i + 1, nil
		case len(w) < 2 || w[0] != '-':
			return found, i, i, nil
		}
		var next int
		if w[1] == '-' {
			found, next, err = g.longOption(found, words, i)
		} else {
			found, next, err = g.shortOptions(found, words, i)
		}
		if err != nil {
			return found, i, i, err
		}
		i = next
	}
	return found, i, i, nil
}

func (g *Grammar) longOption(found []Found, words []string, i int) ([]Found, int, error) {
	name, value, hasValue := strings.Cut(words[i][2:], "=")
	o, reason, candidates := g.long(name)
	if g.release == 0 && reason == Unknown {
		if !hasValue {
			reason = Unresolved
		} else {
			o, reason = &Option{Name: name, Arg: Optional}, 0
		}
	}
	arg := NoArg
	if o != nil {
		arg = o.Arg
		if arg == askArg && !hasValue {
			var err error
			if arg, err = g.ask(o); err != nil {
				return found, i, err
			}
		}
	}
	f := Found{Option: o, Value: value, HasValue: hasValue, At: i, Words: 1}
	switch {
	case reason != 0:
	case arg == NoArg && hasValue:
		reason = TakesNoValue
	case arg == Required && !hasValue && i+1 == len(words):
		reason = NeedsValue
	case arg == Required && !hasValue:
		f.Value, f.HasValue, f.Words = words[i+1], true, 2
	}
	if reason != 0 {
		return found, i, &OptionError{Name: "--" + name, Option: o, Reason: reason, Candidates: candidates, At: i}
	}
	return append(found, f), i + f.Words, nil
}

func (g *Grammar) shortOptions(found []Found, words []string, i int) ([]Found, int, error) {
	w := words[i]
	for j := 1; j < len(w); j++ {
		var o *Option
		if w[j] < 128 {
			o = g.byShort[w[j]]
		}
		if o == nil {
			return found, i, &OptionError{Name: "-" + w[j:j+1], Reason: Unknown, At: i}
		}
		f := Found{Option: o, At: i, Words: 1}
		tail := w[j+1:]
		switch {
		case o.Arg == NoArg:
			found = append(found, f)
			continue
		case tail != "":
			f.Value, f.HasValue = tail, true
		case o.Arg == Optional:
		case i+1 == len(words):
			return found, i, &OptionError{Name: "-" + w[j:j+1], Option: o, Reason: NeedsValue, At: i}
		default:
			f.Value, f.HasValue, f.Words = words[i+1], true, 2
		}
		return append(found, f), i + f.Words, nil
	}
	return found, i + 1, nil
}
