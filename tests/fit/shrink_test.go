package fit

import (
	"context"
	"slices"
	"strings"
)

// optional are the attributes of a node without which it is still one.
var optional = []string{"MemSpecLimit", "CoreSpecCount", "Feature", "TmpDisk", "Weight", "State"}

// reductions each take one part from a case. Of several the last has to be done first: they count words.
func (c *Case) reductions() (all []func(*Case)) {
	add := func(change func(*Case)) { all = append(all, change) }
	if n := len(c.Nodes); n > 1 {
		add(func(s *Case) { s.Nodes = s.Nodes[:n-1] })
	}
	for _, key := range optional {
		add(func(s *Case) {
			for i, line := range s.Nodes {
				_, s.Nodes[i] = attribute(line, key)
			}
		})
	}
	add(func(s *Case) {
		for i, line := range s.Nodes {
			gres, rest := attribute(line, "Gres")
			gpus := slices.DeleteFunc(strings.Split(gres, ","), func(g string) bool { return !strings.HasPrefix(g, "gpu:") })
			s.Nodes[i] = rest + " Gres=" + strings.Join(gpus, ",")
		}
	})
	add(func(s *Case) { s.Gres = nil })
	add(func(s *Case) {
		s.QOS, s.Partition = "", strings.TrimSpace(strings.ReplaceAll(s.Partition, "QOS=@", ""))
	})
	add(func(s *Case) { s.Licences = "" })
	add(func(s *Case) { s.Select = "CR_Core_Memory" })
	for i := range strings.Fields(c.Partition) {
		add(func(s *Case) { s.Partition = without(s.Partition, i) })
	}
	for i := range c.Running {
		add(func(s *Case) { s.Running = slices.Delete(s.Running, i, i+1) })
		for k := range strings.Fields(c.Running[i].Asks) {
			add(func(s *Case) { s.Running[i].Asks = without(s.Running[i].Asks, k) })
		}
	}
	for i := range strings.Fields(c.Asks) {
		add(func(s *Case) { s.Asks = without(s.Asks, i) })
	}
	return all
}

// reduced is the case less some of its parts.
func (c *Case) reduced(by []func(*Case)) *Case {
	s := *c
	s.Nodes, s.Gres, s.Running = slices.Clone(c.Nodes), slices.Clone(c.Gres), slices.Clone(c.Running)
	for _, reduce := range slices.Backward(by) {
		reduce(&s)
	}
	return &s
}

// without is a text less one of its words, and what follows -w.
func without(text string, i int) string {
	words := strings.Fields(text)
	n := 1
	if words[i] == "-w" {
		n = 2
	} else if i > 0 && words[i-1] == "-w" {
		return text
	}
	return strings.Join(slices.Delete(words, i, i+n), " ")
}

// shrink takes from each case what its fault does not need: all parts are tried one by one, and those that
// can go then together.
func (s *site) shrink(ctx context.Context, faulty []*judged) ([]*judged, error) {
	left := make([][]func(*Case), len(faulty)) // reductions that may still be possible
	for i, j := range faulty {
		left[i] = j.reductions()
	}
	for {
		var singles []try
		for i, all := range left {
			for k := range all {
				singles = append(singles, try{of: i, by: all[k : k+1]})
			}
		}
		if err := s.try(ctx, faulty, singles); err != nil || len(singles) == 0 {
			return faulty, err
		}
		good := make([][]func(*Case), len(faulty))
		for _, t := range singles {
			if t.still != nil {
				good[t.of] = append(good[t.of], t.by...)
			}
		}
		var together []try
		for i, all := range good {
			if n := len(all); n > 1 {
				together = append(together, try{of: i, by: all}, try{of: i, by: all[:n/2]}, try{of: i, by: all[n/2:]})
			}
		}
		if err := s.try(ctx, faulty, together); err != nil {
			return faulty, err
		}
		for i := range left {
			left[i] = nil
		}
		for _, t := range append(together, singles...) {
			if t.still != nil && len(t.still.Case.String()) < len(faulty[t.of].Case.String()) {
				faulty[t.of], left[t.of] = t.still, t.still.reductions()
			}
		}
	}
}

// try is a case less some of its parts, and what became of it where its fault is still there.
type try struct {
	of    int
	by    []func(*Case)
	still *judged
}

// try decides reduced cases.
func (s *site) try(ctx context.Context, faulty []*judged, tries []try) error {
	var cases []*Case
	from := map[*Case]*try{}
	for i := range tries {
		t := &tries[i]
		if c := faulty[t.of].reduced(t.by); c.String() != faulty[t.of].Case.String() {
			cases, from[c] = append(cases, c), t
		}
	}
	for _, places := range batches(cases) {
		if err := s.configure(ctx, places); err != nil {
			return err
		}
		all, err := s.decide(ctx)
		if err != nil {
			return err
		}
		for _, j := range all {
			if t := from[j.Case]; j.fault() == faulty[t.of].fault() {
				t.still = j
			}
		}
	}
	return nil
}
