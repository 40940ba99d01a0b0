package scale

import (
	"slices"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// weather changes the state of n nodes: one in service is drained, its jobs run on, or fails, its
// jobs end; one that is out of service returns. ended is told of each job that ends.
func (g *generated) weather(n int, ended func(*job, bool)) {
	down := map[string]bool{}
	for range n {
		node := &g.nodes[g.rnd.IntN(len(g.nodes))]
		switch {
		case !node.Usable:
			node.Usable, node.State = true, "MIXED"
			delete(down, node.Name)
		case g.rnd.IntN(2) == 0:
			node.Usable, node.State = false, "MIXED+DRAIN"
		default:
			node.Usable, node.State, down[node.Name] = false, "DOWN", true
		}
	}
	for i := range g.jobs {
		j := &g.jobs[i]
		if j.State != cluster.Running {
			continue
		}
		names, err := slurmplug.ExpandHosts(j.NodeList)
		if err != nil {
			panic(err)
		}
		if slices.ContainsFunc(names, func(name string) bool { return down[name] }) {
			g.end(j)
			ended(j, true)
			j.RawID = 0
		}
	}
	g.jobs = slices.DeleteFunc(g.jobs, func(j job) bool { return j.RawID == 0 })
}

// weather is the next poll after a turn of n jobs in which one node of a hundred changed its state.
func (s *site) weather(n int) {
	s.turn(n)
	s.slurm.generated.weather(max(1, len(s.slurm.nodes)/100), func(j *job, _ bool) {
		s.slurm.past[j.ID] = plan.JobStatus{Job: j.Job, Gone: true, Final: "NODE_FAIL", End: s.slurm.now}
	})
}

// After weather of some turns priod comes to rest as it does without.
func TestWeatherSettles(t *testing.T) {
	s := newSite(t, 1000)
	s.settle(benchSettle)
	out := 0
	for range 20 {
		s.weather(5)
		s.cycle()
		for i := range s.slurm.nodes {
			if !s.slurm.nodes[i].Usable {
				out++
			}
		}
	}
	if out == 0 {
		t.Fatal("no node was out of service")
	}
	if !s.settle(300) {
		t.Error("priod keeps writing although nothing changes")
	}
}
