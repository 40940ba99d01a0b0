package nodespeed

import (
	"cmp"
	"math"
	"slices"
)

// tell sums up what was found.
func tell(groups []*runs, nodes []*node) []Node {
	typical := make(map[*runs]float64, len(groups))
	for _, g := range groups {
		logs := g.logs
		if len(logs) == 0 {
			logs = logsOf(g.all, func(*run) bool { return true })
			slices.Sort(logs)
		}
		typical[g] = median(logs)
	}
	all := make([]Node, len(nodes))
	for i, n := range nodes {
		all[i] = n.tell(typical)
		all[i].Doubt = min(math.Exp(n.bound)*float64(len(nodes)), 1)
	}
	slices.SortStableFunc(all, func(a, b Node) int {
		switch {
		case a.Slow && b.Slow:
			return cmp.Compare(b.Where[0].Factor, a.Where[0].Factor)
		case a.Slow != b.Slow:
			return map[bool]int{true: -1, false: 1}[a.Slow]
		}
		return cmp.Or(cmp.Compare(a.Doubt, b.Doubt), -compareFactors(a.Factor, b.Factor))
	})
	return all
}

// tell sums up one node's runs, beside the logs of typical ones.
func (n *node) tell(typical map[*runs]float64) Node {
	told := Node{Name: n.name, GPUType: n.gpuType, Slow: n.slow, Where: []Program{}}
	var rest []float64
	most := 0.0
	for g, all := range n.byGroup {
		logs := logsOf(all, func(r *run) bool { return r.of == nil || n.slow && r.of == n })
		if len(logs) == 0 {
			continue
		}
		slices.Sort(logs)
		p := Program{g.Workload, g.User, g.Name, g.GPUs, len(logs), math.Exp(median(logs) - typical[g])}
		if n.slow {
			told.Where = append(told.Where, p)
		} else if against := bound([]part{compare(g.logs, logs, logs)}, nil); against < most {
			most, told.Where = against, []Program{p}
		}
		for _, y := range logs {
			rest = append(rest, y-typical[g])
		}
	}
	slices.Sort(rest)
	if told.Runs = len(rest); told.Runs > 0 {
		told.Factor = factor(median(rest))
		if k := within(told.Runs); k >= 0 {
			told.Low, told.High = factor(rest[k]), factor(rest[told.Runs-1-k])
		}
	}
	slices.SortStableFunc(told.Where, func(a, b Program) int { return cmp.Compare(b.Factor, a.Factor) })
	return told
}

func logsOf(all []*run, which func(*run) bool) (logs []float64) {
	for _, r := range all {
		if which(r) {
			logs = append(logs, r.log)
		}
	}
	return logs
}

func factor(log float64) *float64 {
	f := math.Exp(log)
	return &f
}

// compareFactors puts what is unknown first.
func compareFactors(a, b *float64) int {
	if a == nil || b == nil {
		return cmp.Compare(map[bool]int{true: 1}[a != nil], map[bool]int{true: 1}[b != nil])
	}
	return cmp.Compare(*a, *b)
}
