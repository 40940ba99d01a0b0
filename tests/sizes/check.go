package sizes

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/size"
)

// Way is one way to pack.
type Way struct {
	Name    string
	New     func() func([]size.Job, []size.Node) []size.Grant // a packer, which may keep buffers from call to call
	Reserve bool                                              // as size.Rule has it
	Passes  bool                                              // over jobs whose demand does not fit, as Greedy does
}

// Rounding forgives what floating point does to sums.
const Rounding = 1e-6

// Check tests what holds of each way whatever comes in.
func Check(t *testing.T, ways []Way) {
	t.Run("unknown", func(t *testing.T) {
		for _, w := range ways {
			// It gets its share and is never resized.
			if got := Words(1, w.New()([]size.Job{Job(nil, 2)}, Servers(1))); !slices.Equal(got, []string{"6x1"}) {
				t.Errorf("%s: %v", w.Name, got)
			}
		}
	})
	t.Run("curves that no node can meet", func(t *testing.T) { checkUnmeetable(t, ways) })
	t.Run("any", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) { checkAny(r, ways) })
	})
	t.Run("others hold CPUs", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) { checkOthers(r, ways) })
	})
}

// checkUnmeetable: the job runs, with its share at least, and never with more than there is.
func checkUnmeetable(t *testing.T, ways []Way) {
	for name, c := range Unmeetable {
		jobs := []size.Job{Job(c, 1), Job(c, 1), Job(c, 2), Job(c, 4)}
		for _, w := range ways {
			grants := w.New()(jobs, Servers(1))
			if w.Passes {
				continue
			}
			if len(grants) != len(jobs) {
				t.Errorf("%s, %s: %v", name, w.Name, grants)
			}
			var cpus, mem float64
			for _, g := range grants {
				p := g.Parts[0]
				cpus, mem = cpus+p.CPUs, mem+p.MemMB
				if gpus := float64(p.GPUs); p.CPUs < gpus*min(3, c.DemandCPUs)-1e-9 || p.MemMB < gpus*min(64000, float64(c.DemandMemMB))-1e-6 {
					t.Errorf("%s, %s: job %d has %+v", name, w.Name, g.Job, p)
				}
			}
			if cpus > Server.CPUs+1e-9 || mem > Server.MemMB+1e-6 {
				t.Errorf("%s, %s: %v CPUs and %v MB are handed out", name, w.Name, cpus, mem)
			}
		}
	}
}

// checkAny: the same jobs run in every way, and the same input gives the same result, also from a packer that has packed other jobs.
func checkAny(r *rapid.T, ways []Way) {
	s := Draw(r, rapid.Bool().Draw(r, "busy"))
	var admitted []int
	for k, w := range ways {
		pack := w.New()
		grants := slices.Clone(pack(s.Jobs, s.Nodes))
		s.check(r, &w, grants)
		if again := w.New()(s.Jobs, s.Nodes); !reflect.DeepEqual(slices.Clone(again), grants) {
			r.Fatalf("%s: %v, then %v", w.Name, grants, again)
		}
		pack(s.Jobs[:len(s.Jobs)/2], s.Nodes)
		if again := pack(s.Jobs, s.Nodes); len(grants) > 0 && !reflect.DeepEqual(again, grants) {
			r.Fatalf("%s, asked again: %v, not %v", w.Name, again, grants)
		}
		var run []int
		for _, g := range grants {
			run = append(run, g.Job)
		}
		if k == 0 {
			admitted = run
		} else if !w.Passes && !slices.Equal(run, admitted) {
			r.Fatalf("%s runs %v, %s %v", w.Name, run, ways[0].Name, admitted)
		}
	}
}

// checkOthers: where others, such as CPU-only jobs, hold CPUs and memory that GPUs stand beside, a node still gives no more than
// it has left.
func checkOthers(r *rapid.T, ways []Way) {
	s := Draw(r, true)
	for i := range s.Nodes {
		s.Nodes[i].Free.CPUs *= rapid.Float64Range(0, 1).Draw(r, "cpus left")
		s.Nodes[i].Free.MemMB *= rapid.Float64Range(0, 1).Draw(r, "mem left")
	}
	for _, w := range ways {
		s.left(r, &w, w.New()(s.Jobs, s.Nodes))
	}
}

// left is what grants leave of the nodes: each job has its GPUs, and no node gives more than it has.
func (s *Situation) left(r *rapid.T, w *Way, grants []size.Grant) []size.Amount {
	left := make([]size.Amount, len(s.Nodes))
	for i := range left {
		left[i] = s.Nodes[i].Free
	}
	for _, g := range grants {
		gpus := 0
		for _, p := range g.Parts {
			l := &left[p.Node]
			gpus += p.GPUs
			l.GPUs, l.CPUs, l.MemMB = l.GPUs-p.GPUs, l.CPUs-p.CPUs, l.MemMB-p.MemMB
		}
		if gpus != s.Jobs[g.Job].GPUs {
			r.Fatalf("%s: job %d has %d GPUs", w.Name, g.Job, gpus)
		}
	}
	for i, l := range left {
		if n := &s.Nodes[i].Total; l.GPUs < 0 || l.CPUs < -Rounding*n.CPUs || l.MemMB < -Rounding*n.MemMB {
			r.Fatalf("%s: node %d is left with %v", w.Name, i, l)
		}
	}
	return left
}

// check: no job twice or below the smaller of its demand and share, nodes hold what is placed on them, no GPU idles beside a job
// that fits by GPUs.
func (s *Situation) check(r *rapid.T, w *Way, grants []size.Grant) {
	largest, free := map[int]size.Amount{}, map[int]int{}
	for _, n := range s.Nodes {
		l := largest[n.Type]
		largest[n.Type] = size.Amount{GPUs: max(l.GPUs, n.Total.GPUs), CPUs: max(l.CPUs, n.Total.CPUs), MemMB: max(l.MemMB, n.Total.MemMB)}
		free[n.Type] += n.Free.GPUs
	}
	runs := map[int]bool{}
	for _, g := range grants {
		if runs[g.Job] {
			r.Fatalf("%s: job %d twice", w.Name, g.Job)
		}
		runs[g.Job] = true
		on, gpus := s.Jobs[g.Job].On[g.Type], s.Jobs[g.Job].GPUs
		most := largest[g.Type]
		for _, p := range g.Parts {
			n := &s.Nodes[p.Node]
			if n.Type != g.Type || on.Speed == 0 || p.GPUs == 0 {
				r.Fatalf("%s: job %d on node %d: %v", w.Name, g.Job, p.Node, p)
			}
			free[g.Type] -= p.GPUs
			part := float64(p.GPUs) / float64(n.Total.GPUs)
			cpus, mem := part*n.Total.CPUs, part*n.Total.MemMB
			if on.Curve != nil {
				cpus, mem = min(cpus, on.Curve.DemandCPUs*float64(p.GPUs)), min(mem, float64(on.Curve.DemandMemMB)*float64(p.GPUs))
				// A node of another kind may be the largest; then its size caps the demand.
				cpus, mem = min(cpus, most.CPUs*float64(p.GPUs)/float64(gpus)), min(mem, most.MemMB*float64(p.GPUs)/float64(gpus))
			}
			if gpus <= most.GPUs && (p.CPUs < cpus*(1-Rounding) || p.MemMB < mem*(1-Rounding)) {
				r.Fatalf("%s: job %d has %v, less than %v CPUs and %v MB", w.Name, g.Job, p, cpus, mem)
			}
		}
	}
	for i, l := range s.left(r, w, grants) {
		n := &s.Nodes[i].Total
		part := float64(l.GPUs) / float64(n.GPUs)
		if w.Reserve && (l.CPUs < (part-Rounding)*n.CPUs || l.MemMB < (part-Rounding)*n.MemMB) {
			r.Fatalf("%s: node %d leaves %d GPUs without their share: %v", w.Name, i, l.GPUs, l)
		}
	}
	if w.Passes {
		return
	}
	for i, j := range s.Jobs {
		for t, on := range j.On {
			if !runs[i] && on.Speed > 0 && j.GPUs <= free[t] {
				r.Fatalf("%s: job %d waits for %d GPUs beside %d", w.Name, i, j.GPUs, free[t])
			}
		}
	}
}
