package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// What urfave/cli lacks: options behind the arguments, and its errors in our words.

// interleave moves global flags before the verb and a verb's flags before its
// arguments, so that "explain 17 --json" works as users expect; the library
// stops at the first argument.
func interleave(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	if len(args) > 1 && args[1] == "help" { // the library knows only the first word after it
		args = append(slices.Concat(args[:1], args[2:]), "--help")
	}
	var global, verbs, options, operands []string
	commands, flags := app.Commands, []cli.Flag(nil)
	for rest := args[1:]; len(rest) > 0; {
		word, n := rest[0], 1
		if word == "--" {
			app.Metadata[dashes] = len(operands) == 0
			operands = append(operands, rest...)
			break
		}
		if (takesValue(flags, word) || takesValue(app.Flags, word)) && len(rest) > 1 {
			n = 2
		}
		sub := find(commands, word)
		switch {
		case !strings.HasPrefix(word, "-") && sub != nil && len(operands) == 0:
			verbs, commands, flags = append(verbs, word), sub.Subcommands, sub.Flags
			if sub.SkipFlagParsing { // it reads its words itself
				return slices.Concat(args[:1], global, options, verbs, rest[1:])
			}
		case !strings.HasPrefix(word, "-") || word == "-":
			operands = append(operands, word)
		case isFlag(app.Flags, word):
			global = append(global, rest[:n]...)
		default:
			options = append(options, rest[:n]...)
		}
		rest = rest[n:]
	}
	if slices.Contains(options, "--help") || slices.Contains(options, "-h") { // the library takes an operand for a topic
		if len(verbs) == 0 && len(operands) > 0 {
			options = nil
		} else {
			options, operands = []string{"--help"}, nil
		}
	}
	return slices.Concat(args[:1], global, verbs, options, operands)
}

// dashes is the metadata of an app whose verb was given "--" and what stands behind it, as afterDashes tells: the library drops the
// word.
const dashes = "--"

func afterDashes(c *cli.Context) bool {
	after, _ := c.App.Metadata[dashes].(bool)
	return after
}

// verb is the first word of a command line that is no global flag.
func verb(app *cli.App, args []string) string {
	for i := 1; i < len(args); i++ {
		switch word := args[i]; {
		case takesValue(app.Flags, word):
			i++
		case word == "help", isFlag(app.Flags, word):
		default:
			return word
		}
	}
	return ""
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// flagOf finds the flag that a word such as --json or --config=FILE names.
func flagOf(flags []cli.Flag, word string) cli.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, f := range flags {
		if strings.HasPrefix(word, "-") && slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func isFlag(flags []cli.Flag, word string) bool { return flagOf(flags, word) != nil }

// takesValue reports whether a flag is followed by its value in a word of its own.
func takesValue(flags []cli.Flag, word string) bool {
	f := flagOf(flags, word)
	_, isBool := f.(*cli.BoolFlag)
	return f != nil && !isBool && !strings.Contains(word, "=")
}

var (
	undefinedFlag = regexp.MustCompile(`^flag provided but not defined: -(.+)$`)
	valuelessFlag = regexp.MustCompile(`^flag needs an argument: -(.+)$`)
	badValue      = regexp.MustCompile(`(?s)^invalid (?:boolean )?value (".*") for (?:flag )?-([^ :]+): (.*)$`)
)

// wrongFlag says in our words what package flag found wrong.
func wrongFlag(verb *cli.Command, err error) error {
	see := "see " + cmp.Or(verb.HelpName, "priod") + " --help"
	if m := undefinedFlag.FindStringSubmatch(err.Error()); m != nil {
		if strings.Contains(verb.ArgsUsage, "-- SBATCH-OPTIONS") {
			see = "options of sbatch stand behind --; " + see
		}
		return fmt.Errorf("no option %s; %s", dashed(m[1]), see)
	}
	if m := valuelessFlag.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s: its value is missing; %s", dashed(m[1]), see)
	}
	m := badValue.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	want := m[3]
	switch flagOf(verb.Flags, dashed(m[2])).(type) {
	case *cli.BoolFlag:
		want = "want no value, or true or false"
	case *cli.IntFlag, *cli.Int64Flag:
		want = "want a whole number"
	case *cli.Uint64Flag, *cli.UintFlag:
		want = "want a whole number from 0"
	case *cli.Float64Flag:
		want = "want a number"
	case *cli.DurationFlag:
		want = "want a time such as 90s, 5m or 1h30m"
	}
	return fmt.Errorf("%s %s: %s", dashed(m[2]), m[1], want)
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
