package nodemap

import (
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/slurmplug"
)

// spread finds what each job on several nodes takes of each of them. squeue tells only the sum, and with --gpus Slurm need not take as
// many GPUs of each node. A node's jobs together have what is in use there, so that a job's part is known where it is the only one that is
// not, and its last part where all others are. A job of which that does not tell all has equal parts, if these add up, else its parts are
// not known.
func (m *Map) spread(jobs []cluster.Job, used []placement.Amount) {
	m.spreads = map[cluster.JobID][]placement.Share{}
	var wide, told []*wideJob
	open := map[int32][]*wideJob{} // jobs whose part of a node is not known
	for i := range jobs {
		switch w := m.wide(&jobs[i]); {
		case w == nil:
		case w.unknown == 0:
			m.spreads[w.id] = w.parts
			told = append(told, w)
		default:
			wide = append(wide, w)
			for _, s := range w.parts {
				open[s.Node] = append(open[s.Node], w)
			}
		}
	}
	if len(wide) == 0 {
		return
	}
	for _, w := range told {
		for _, s := range w.parts {
			used[s.Node] = used[s.Node].Minus(s.Amount)
		}
	}
	for i := range jobs {
		j := &jobs[i]
		if at, alone := m.of(j, j.NodeList); alone && j.State != cluster.Pending && len(open[at]) > 0 {
			used[at] = used[at].Minus(placement.Amount{GPUs: int32(j.GPUs), CPUs: int32(j.CPUs), MemMB: j.MemMB})
		}
	}
	todo := make([]int32, 0, len(open))
	for at := range open {
		todo = append(todo, at)
	}
	slices.Sort(todo) // what does not add up ends in the same way each time
	settle := func(w *wideJob, at int32, part placement.Amount) {
		w.settle(at, part)
		used[at] = used[at].Minus(part)
		open[at] = slices.DeleteFunc(open[at], func(x *wideJob) bool { return x == w })
		todo = append(todo, at)
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if len(open[at]) != 1 {
			continue
		}
		w := open[at][0]
		settle(w, at, used[at])
		if last, left, is := w.last(); is {
			settle(w, last, left)
		}
	}
	for _, w := range wide {
		switch {
		case w.unknown == 0 && w.adds():
			m.spreads[w.id] = w.parts
		case w.unknown > 0 && !w.isEven(open, used):
			m.spreads[w.id] = []placement.Share{}
		}
	}
}

// isEven reports whether a job may have an equal part of each of its nodes: with equal parts of all
// jobs of which nothing else is known, each node's GPUs in use add up.
func (w *wideJob) isEven(open map[int32][]*wideJob, used []placement.Amount) bool {
	if int(w.all.GPUs)%len(w.parts) != 0 {
		return false
	}
	for i, s := range w.parts {
		if w.known[i] {
			if int(s.GPUs)*len(w.parts) != int(w.all.GPUs) {
				return false
			}
			continue
		}
		sum := int32(0)
		for _, x := range open[s.Node] {
			sum += x.all.GPUs / int32(len(x.parts))
		}
		if sum != used[s.Node].GPUs {
			return false
		}
	}
	return true
}

// wideJob is a job on several nodes.
type wideJob struct {
	id      cluster.JobID
	all     placement.Amount
	parts   []placement.Share
	known   []bool
	unknown int
}

// wide is a job that holds several known nodes; nil: it does not.
func (m *Map) wide(j *cluster.Job) *wideJob {
	if !strings.ContainsAny(j.NodeList, "[,") || j.State == cluster.Pending {
		return nil
	}
	hosts, err := slurmplug.ExpandHosts(j.NodeList)
	if err != nil || len(hosts) < 2 {
		return nil
	}
	w := &wideJob{id: j.ID, all: placement.Amount{GPUs: int32(j.GPUs), CPUs: int32(j.CPUs), MemMB: j.MemMB}, known: make([]bool, len(hosts)), unknown: len(hosts)}
	told := len(j.Parts) == len(hosts)
	for i, h := range hosts {
		at, known := m.of(j, h)
		if !known {
			return nil
		}
		w.parts = append(w.parts, placement.Share{Node: at})
		if told {
			p := j.Parts[i]
			w.settle(at, placement.Amount{GPUs: int32(p.GPUs), CPUs: int32(p.CPUs), MemMB: p.MemMB})
		}
	}
	return w
}

func (w *wideJob) settle(at int32, part placement.Amount) {
	for i := range w.parts {
		if w.parts[i].Node == at && !w.known[i] {
			w.parts[i].Amount, w.known[i] = part, true
			w.unknown--
			return
		}
	}
}

// last is the only node of which the job's part is not known, and that part.
func (w *wideJob) last() (at int32, left placement.Amount, is bool) {
	if w.unknown != 1 {
		return 0, left, false
	}
	left = w.all
	for i, s := range w.parts {
		if w.known[i] {
			left = left.Minus(s.Amount)
		} else {
			at = s.Node
		}
	}
	return at, left, true
}

// adds reports whether the parts are possible, and together what the job has.
func (w *wideJob) adds() bool {
	left := w.all
	for _, s := range w.parts {
		if s.GPUs < 0 || s.CPUs < 0 || s.MemMB < 0 || s.GPUs == 0 && w.all.GPUs > 0 {
			return false
		}
		left = left.Minus(s.Amount)
	}
	return left == placement.Amount{}
}
