package sbatch

import (
	"errors"
	"slices"
)

// Command is sbatch's command line, taken apart.
type Command struct {
	Args       []string    // as given, without the program's name
	First      []Found     // every option, in order, as sbatch's first pass sees them
	Components []Component // at least one; more with ":" between the options of a heterogeneous job
	Script     []string    // the script and its arguments as sbatch passes them on; nil for standard input or --wrap

	// Tangled says that a ":" is not just a separator, but an option's value
	// or behind a "--": the passes of sbatch take the words differently, and
	// an option can't be added without changing what they mean.
	Tangled bool
}

// Component is the part of a command line that describes one het component.
type Component struct {
	Found []Found // At counts in Command.Args
	End   int     // where one more option could be inserted in Command.Args
}

// ParseArgs takes a command line (without the program's name) apart as sbatch
// does, in two passes: the first over all words but ":" finds the script, the
// second reads each component. An error is an *OptionError (or that of asking
// the Installed sbatch); the Command is then what stands before the bad word,
// as one component.
func (g *Grammar) ParseArgs(args []string) (*Command, error) {
	c := &Command{Args: args}
	without, at := make([]string, 0, len(args)), make([]int, 0, len(args))
	for i, w := range args {
		if w != ":" {
			without, at = append(without, w), append(at, i)
		}
	}
	first, end, rest, err := g.Getopt(without)
	for i := range first {
		first[i].At = at[first[i].At]
	}
	c.First = first
	if err != nil {
		c.Components = []Component{{Found: first, End: at[end]}}
		var bad *OptionError
		if errors.As(err, &bad) {
			bad.At = at[bad.At]
		}
		return c, err
	}
	if rest < len(without) {
		c.Script = without[rest:]
	}
	// Words after the script count as its arguments without ":", so that the
	// window can reach into them; the second pass stops at the script anyway.
	window := args[:len(args)-len(c.Script)]
	start, seen := 0, 0
	for {
		found, end, rest, err := g.Getopt(window[start:])
		if err != nil { // only when the passes disagree
			c.Tangled, c.Components = true, []Component{{End: start}}
			return c, err
		}
		for i := range found {
			found[i].At += start
			if seen >= len(c.First) || found[i].Option.Name != c.First[seen].Option.Name || found[i].Value != c.First[seen].Value {
				c.Tangled = true
			}
			seen++
		}
		c.Components = append(c.Components, Component{Found: found, End: start + end})
		if start+rest >= len(window) || window[start+rest] != ":" {
			break
		}
		c.Tangled = c.Tangled || rest != end
		start += rest + 1
	}
	c.Tangled = c.Tangled || seen != len(c.First)
	return c, nil
}

// Last returns what the option was last set to on the command line, in the
// order in which sbatch's first pass reads it.
func (c *Command) Last(name string) (value string, ok bool) {
	for _, f := range slices.Backward(c.First) {
		if f.Option.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// Rewrite returns the command line without our own (Exact) options, and with
// the words of add[i] as the last options of component i, where they count. sbatch reads
// the last part of a command line again for further components of the script;
// when add continues with other words for those, that part is written out for
// each of them. Nothing else changes. It must not be used with Tangled.
func (c *Command) Rewrite(add [][]string) []string {
	out := make([]string, 0, len(c.Args)+2*len(add))
	next := 0
	copyTo := func(end int) {
		out = append(out, c.Args[next:end]...)
		next = end
	}
	last := len(c.Components) - 1
	for i, part := range c.Components {
		for _, f := range part.Found {
			if f.Option.Exact {
				copyTo(f.At)
				next += f.Words
			}
		}
		copyTo(part.End)
		if i < len(add) {
			out = append(out, add[i]...)
		}
		if i < last || len(add) <= last || !slices.ContainsFunc(add[last:], func(w []string) bool { return !slices.Equal(w, add[last]) }) {
			continue
		}
		for _, words := range add[last+1:] {
			out = append(out, ":")
			for _, f := range part.Found {
				// Early options count once for the whole command line.
				if !f.Option.Early && !f.Option.Exact {
					out = append(out, f.Word())
				}
			}
			out = append(out, words...)
		}
	}
	copyTo(len(c.Args))
	return out
}
