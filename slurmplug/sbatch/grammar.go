package sbatch

import (
	"maps"
	"slices"
	"strings"
)

// Grammar is the set of options that one sbatch takes.
type Grammar struct {
	release Release // 0: any release
	options []*Option
	byName  map[string]*Option
	byShort [128]*Option

	// ask learns what an option of a SPANK plugin takes; set by Installed.
	ask func(*Option) (Arg, error)
}

// For is the grammar of one release, without SPANK plugins.
func For(r Release) *Grammar {
	g := &Grammar{release: r, byName: make(map[string]*Option, len(options)+16)}
	for i := range options {
		o := &options[i]
		if !o.in(r) {
			continue
		}
		if o.ArgSince != 0 && r >= o.ArgSince {
			changed := *o
			changed.Arg = o.ArgThen
			o = &changed
		}
		g.add(o)
	}
	return g
}

// optionalFlag is a flag that newer releases give an optional argument: a word
// may hold one, a variable is still read as for a flag.
const optionalFlag Arg = 0xfe

// AnyRelease is what can be said of a command line without knowing the
// installed sbatch: options in full and short options mean the same word in
// every release (one that does not have the option refuses it). What an
// abbreviation or an unknown option means is ErrInstalled, but for an unknown option with "=", which takes no further word in any case.
func AnyRelease() *Grammar {
	g := &Grammar{byName: make(map[string]*Option, len(options)+16)}
	for i := range options {
		o := &options[i]
		if o.ArgThen == Optional {
			changed := *o
			changed.Arg = optionalFlag
			o = &changed
		}
		g.add(o)
	}
	return g
}

// Only is a grammar of these options and no others, for directives of our own.
func Only(options ...*Option) *Grammar {
	return (&Grammar{release: Releases[0], byName: map[string]*Option{}}).With(options...)
}

// With returns a grammar with more options: our own, or SPANK's. A name that is
// taken stays what it was, as in sbatch (src/common/plugstack.c).
func (g *Grammar) With(more ...*Option) *Grammar {
	h := *g
	h.options, h.byName = slices.Clone(g.options), maps.Clone(g.byName)
	for _, o := range more {
		if h.byName[o.Name] == nil {
			h.add(o)
		}
	}
	return &h
}

func (g *Grammar) add(o *Option) {
	g.options = append(g.options, o)
	g.byName[o.Name] = o
	if o.Alias != "" {
		g.byName[o.Alias] = o
	}
	if o.Short != 0 {
		g.byShort[o.Short] = o
	}
}

// long finds the option that a long name or an abbreviation means, by the
// rules of GNU getopt_long: an exact name wins, then a prefix that only one
// option has.
func (g *Grammar) long(name string) (*Option, Reason, []string) {
	if o := g.byName[name]; o != nil {
		return o, 0, nil
	}
	var found *Option
	var names []string
	same := true
	for _, o := range g.options {
		if o.Exact {
			continue
		}
		for _, n := range [2]string{o.Name, o.Alias} {
			if n != "" && strings.HasPrefix(n, name) {
				names = append(names, n)
				same = same && (found == nil || found == o)
				found = o
			}
		}
	}
	switch {
	case found == nil:
		return nil, Unknown, nil
	case g.release == 0:
		return nil, Unresolved, names
	case !same:
		return nil, Ambiguous, names
	}
	return found, 0, nil
}
