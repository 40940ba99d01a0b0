package virtual

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// Stuck is the error about jobs that can never run.
type Stuck struct {
	Jobs    []string // at most maxNamed
	Reasons []string // one for each
}

const maxNamed = 10

func (s *Stuck) Error() string {
	reason := s.Reasons[0]
	if !slices.ContainsFunc(s.Reasons, func(r string) bool { return r != reason }) {
		return fmt.Sprintf("stuck: these jobs can never run because %s: %s", reason, strings.Join(s.Jobs, ", "))
	}
	each := make([]string, len(s.Jobs))
	for i, id := range s.Jobs {
		each[i] = id + " (" + s.Reasons[i] + ")"
	}
	return "stuck: these jobs can never run because they ask for more than they can get: " + strings.Join(each, ", ")
}

func (s *Stuck) add(id, why string) {
	s.Jobs, s.Reasons = append(s.Jobs, id), append(s.Reasons, why)
}

// admit checks a job and makes it ready to arrive. why is not empty when it can never run.
func (e *engine) admit(t trace.Job) (j *job, why string, err error) {
	work := cmp.Or(t.Duration, t.Steps)
	switch {
	case t.GPUs < 0 || t.CPUs < 0 || t.MemMB < 0 || t.Nodes < 0:
		return nil, "", fmt.Errorf("job %s requests %d GPUs, %d CPUs, %d MB and %d nodes", t.ID, t.GPUs, t.CPUs, t.MemMB, t.Nodes)
	case t.GPUs == 0 && (t.Duration == 0 || t.GPUType != ""):
		return nil, "", fmt.Errorf("job %s requests no GPUs: it wants a duration_s, and no GPU type", t.ID)
	case !(work > 0) || math.IsInf(work, 1):
		return nil, "", fmt.Errorf("job %s has a run time of %v", t.ID, work)
	case slices.ContainsFunc(t.Trials, func(x trace.Trial) bool { return !(x.Work > 0) || math.IsInf(x.Work, 1) }):
		return nil, "", fmt.Errorf("job %s has a failed run of no length", t.ID)
	case !(t.Submit >= 0) || math.IsInf(t.Submit, 1):
		return nil, "", fmt.Errorf("job %s is submitted at %v", t.ID, t.Submit)
	case t.Submit < e.last:
		return nil, "", fmt.Errorf("job %s is submitted at %v, before the job that comes before it (%v): sort the trace by submit_s", t.ID, t.Submit, e.last)
	case t.Limit < 0:
		return nil, "", fmt.Errorf("job %s has a time limit of %v", t.ID, t.Limit)
	case t.Duration == 0 && e.opt.Speed == nil:
		return nil, "", fmt.Errorf("job %s is given by its steps, and no speeds are known", t.ID)
	}
	e.last = t.Submit
	if j, why = e.newJob(t); why == "" {
		why = e.never(j)
	}
	if why != "" {
		return nil, why, nil
	}
	e.jobs = append(e.jobs, metrics.JobOf(&t))
	e.outcomes = append(e.outcomes, metrics.Outcome{Start: -1, Type: -1})
	return j, "", nil
}

// newJob is a job that is about to arrive, with what it asks for in terms of the cluster.
func (e *engine) newJob(t trace.Job) (j *job, why string) {
	j = &job{Job: t, index: int32(len(e.jobs)), switchStart: -1, record: record{row: -1}}
	if j.id = number(j.index); e.opt.Number != nil {
		j.id = e.opt.Number(t.ID, len(e.jobs))
	}
	j.todo = j.work()
	j.height = scatter(j.index)
	if j.line, why = e.lineOf(&j.Job, j.Partition); why != "" {
		return nil, why
	}
	j.bill, j.holder = e.bill(j), e.holderOf(&j.Job)
	j.request = placement.Request{Amount: placement.Amount{GPUs: int32(t.GPUs), CPUs: int32(t.CPUs), MemMB: t.MemMB}, Nodes: int32(t.Nodes)}
	if t.GPUs == 0 {
		e.withoutGPUs(j)
	} else {
		for i, name := range e.types {
			if i >= e.kinds.others && (t.GPUType == "" || t.GPUType == name) && e.speed(j, int32(i)) > 0 {
				j.own |= 1 << uint(i)
			}
		}
		j.request.Types, j.request.Off = j.own&j.line.kinds, j.line.off
	}
	return j, ""
}

// Never says of a job why no part of the empty cluster can run it, "" where some can. Of opt the
// placement and the speeds count.
func Never(c trace.Cluster, opt Options) func(*trace.Job) string {
	e := newEngine(context.Background(), c, Options{Placement: opt.Placement, Speed: opt.Speed})
	return func(t *trace.Job) string {
		if t.Duration == 0 && opt.Speed == nil {
			return ""
		}
		j, why := e.newJob(*t)
		if why == "" {
			why = e.never(j)
		}
		return why
	}
}

// never says why a job could not even run on the empty cluster.
func (e *engine) never(j *job) string {
	where := "the cluster"
	if j.line.parts[0].Name != "" {
		where = "partition " + j.Partition
	}
	if j.request.Types == 0 && j.GPUType != "" {
		return fmt.Sprintf("%s has no GPUs of type %s on which it runs", where, j.GPUType)
	}
	if j.request.Types == 0 {
		return "it runs on no GPU type of " + where
	}
	if e.fitsEmpty(j) {
		return ""
	}
	most := 0
	for t := range int32(len(e.types)) {
		for _, p := range j.line.parts {
			most = max(most, e.gpusOf(p, t, j.request.Types))
		}
	}
	if j.GPUs == 0 {
		return fmt.Sprintf("no nodes of %s hold its %d CPUs and its memory, in %d equal parts on nodes with and without GPUs apart", where, j.request.CPUs, j.request.Nodes)
	}
	if j.GPUs > most {
		return fmt.Sprintf("%d GPUs of one type are more than %s has (%d)", j.GPUs, where, most)
	}
	return fmt.Sprintf("no nodes of %s hold its GPUs, CPUs and memory", where)
}

// withoutGPUs is what a job without GPUs asks for: where the trace does not say, a CPU on each
// of its nodes, and as few nodes as hold its CPUs.
func (e *engine) withoutGPUs(j *job) {
	r := &j.request
	r.Types, r.Off = j.line.kinds, j.line.off
	r.CPUs = int32(asksCPUs(&j.Job))
	if r.Nodes > 0 {
		return
	}
	for r.Nodes = 1; ; r.Nodes = max(r.Nodes+1, r.Nodes+r.Nodes/64) { // a node more, up to as many as it has CPUs
		if e.fitsEmpty(j) {
			return
		}
		if r.Nodes >= min(r.CPUs, int32(e.empty.Len())) {
			r.Nodes = 1
			return
		}
	}
}

// asksCPUs is how many CPUs a job asks for; 0: the share of its GPUs.
func asksCPUs(j *trace.Job) int {
	if j.GPUs == 0 {
		return max(j.CPUs, j.Nodes, 1)
	}
	return j.CPUs
}

// scatter turns an index into a number without pattern (Steele et al., SplitMix, OOPSLA'14).
func scatter(index int32) uint32 {
	z := uint64(index+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint32(z >> 32)
}

func (e *engine) speed(j *job, gpuType int32) float64 {
	if j.Duration > 0 {
		return 1
	}
	return e.opt.Speed(&j.Job, e.types[gpuType])
}
