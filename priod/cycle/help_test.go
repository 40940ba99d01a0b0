package cycle

import (
	"context"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// slurm shows jobs that do not change, but for those in odd, and notes what it is
// told, and in which order with what is saved.
type fakeSlurm struct {
	jobs     map[cluster.JobID]plan.JobStatus
	odd      map[cluster.JobID]bool // cannot be believed
	excluded string
	atOnce   int
	log      []string
	looked   int // jobs, by Look
	saveErr  error
}

func (f *fakeSlurm) Look(_ context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	sights := map[cluster.JobID]plan.JobStatus{}
	var err error
	f.looked += len(targets)
	for _, t := range targets {
		if f.odd[t.Job] {
			err = errors.New("odd")
			continue
		}
		sights[t.Job] = f.jobs[t.Job]
	}
	return sights, err
}

func (f *fakeSlurm) Excluded(context.Context, plan.Target) (string, error) { return f.excluded, nil }

func (f *fakeSlurm) AskSwitches(context.Context, []*cluster.Job) error { return nil }

func (f *fakeSlurm) Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	return nil, nil
}
func (f *fakeSlurm) AtOnce(context.Context, plan.Target) (int, error) { return f.atOnce, nil }

func (f *fakeSlurm) Do(_ context.Context, commands []plan.Command) []plan.Result {
	var results []plan.Result
	for _, c := range commands {
		f.log = append(f.log, string(c.Kind)+" "+c.Job.String())
		if s := f.jobs[c.Job]; c.Kind == plan.Pin {
			s.ReqNodes = c.Value.String()
			f.jobs[c.Job] = s
		}
		results = append(results, plan.Result{Command: c, Status: slurmplug.Applied})
	}
	return results
}

func (f *fakeSlurm) SaveEvictions(_ context.Context, t *evict.Changes) error {
	for _, e := range t.Evictions {
		f.log = append(f.log, "save "+e.Job.String()+" "+string(e.State))
	}
	return f.saveErr
}

// scene is a node with two victims, of whom the first is cheaper, and a TE job.
func newCluster() (*fakeSlurm, *evict.Feature, *cluster.Snapshot, *plan.Plan) {
	s := &cluster.Snapshot{At: start.Add(time.Hour), Nodes: []cluster.Node{{
		Name: "n1", Usable: true, GPUType: "a100", GPUs: 4, GPUsUsed: 4, CPUs: 4, CPUsUsed: 4, MemMB: 400, MemUsedMB: 400, Partitions: []string{"gpu"},
	}}}
	f := &fakeSlurm{jobs: map[cluster.JobID]plan.JobStatus{}, odd: map[cluster.JobID]bool{}}
	for i := range uint32(2) {
		j := cluster.Job{
			ID: slurmplug.Plain(i + 1), RawID: i + 1, TaskCount: 1, User: "alice", Partition: "gpu", State: cluster.Running, Nodes: 1, GPUs: 2, CPUs: 2,
			MemMB: 200, NodeList: "n1", Start: start, TimeLimit: 10 * time.Hour, Tag: jobtag.Tag{Type: "be", Signal: "USR1", Grace: time.Duration(i+1) * time.Minute},
		}
		s.Jobs = append(s.Jobs, j)
		f.jobs[j.ID] = plan.JobStatus{Job: j, CanRequeue: true}
	}
	te := cluster.Job{
		ID: slurmplug.Plain(9), RawID: 9, TaskCount: 1, User: "bob", Partition: "gpu", State: cluster.Pending, Reason: "Resources", Priority: 5, Nodes: 1,
		GPUs: 2, CPUs: 2, MemMB: 200, Tag: jobtag.Tag{Type: "te"},
	}
	s.Jobs = append(s.Jobs, te)
	f.jobs[te.ID] = plan.JobStatus{Job: te, CanRequeue: true}
	p := &plan.Plan{Decisions: []plan.Decision{{Job: te.ID, Class: cluster.TE, Ranked: true, Value: 5}}}
	p.MakeQueue(s)
	e := &evict.Feature{Slurm: f, Recorder: f, Journal: evict.NewJournal(), Vetoes: evict.Vetoes{}, Settings: evict.Settings{
		Enabled: true, Policy: preemption.Settings{Policy: preemption.LeastLoss}, MaxGrace: time.Hour, Hold: time.Minute,
	}}
	return f, e, s, p
}

func (f *fakeSlurm) change(id uint32, by func(*plan.JobStatus)) {
	s := f.jobs[slurmplug.Plain(id)]
	by(&s)
	f.jobs[slurmplug.Plain(id)] = s
}
