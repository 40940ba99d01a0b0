package virtual

import (
	"cmp"
	"strconv"
	"strings"

	"slurmprio/priod/trace"
)

// slowdownsOf are how many times as long as elsewhere jobs take on each node, by workload; nil where all nodes are equal.
func slowdownsOf(c trace.Cluster) (of []map[string]float64) {
	some := false
	for _, g := range c.Nodes {
		some = some || len(g.Slowdown) > 0
		for range g.Count {
			of = append(of, g.Slowdown)
		}
	}
	if !some {
		return nil
	}
	return of
}

// slowdown is how many times as long a job takes where some part of its work is done under each of these.
func slowdown(j *job, of ...map[string]float64) float64 {
	most := 0.0
	for _, by := range of {
		most = max(most, cmp.Or(by[j.Workload], by[trace.AnyWorkload], 1))
	}
	return cmp.Or(most, 1)
}

// slowed is how many times as long a job takes on the nodes that it has: a gang waits for its slowest one.
func (e *engine) slowed(j *job) float64 {
	if e.slowdowns == nil {
		return 1
	}
	most := 0.0
	for _, s := range j.shares {
		most = max(most, slowdown(j, e.slowdowns[s.Node]))
	}
	return most
}

// mostSlowed is how many times as long it takes at most, wherever it lies.
func (e *engine) mostSlowed(j *job) float64 { return slowdown(j, e.slowdowns...) }

// ranOn names the nodes that a job has.
func (e *engine) ranOn(j *job) string {
	names := make([]string, len(j.shares))
	for i, s := range j.shares {
		names[i] = "n" + strconv.Itoa(int(s.Node))
	}
	return strings.Join(names, ",")
}
