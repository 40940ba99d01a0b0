package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// Queue is the queue: Slurm's present order, priod's decisions; and the GPUs that it waits for.
type Queue struct {
	Cluster   string           `json:"cluster"`
	At        time.Time        `json:"at"` // of the last cycle
	AgeS      int64            `json:"age_s"`
	Cycle     int64            `json:"cycle"`
	Hold      string           `json:"hold,omitempty"`
	Notes     []string         `json:"notes"`
	Running   int              `json:"running"`
	Types     []*TypeUse       `json:"gpu_types"`
	Evictions []store.Eviction `json:"evictions_under_way"`
	Pending   int              `json:"pending"`
	TE        int              `json:"te"`
	Jobs      []Job            `json:"jobs"`

	Left int `json:"-"` // jobs that are left out of so many as were asked for
}

// ReadQueue is the queue as the last cycle saw it; live, but of a moment: in Slurm's present order, without what has started or left since.
func ReadQueue(ctx context.Context, cfg *config.Config, r *store.Reader, live bool) (*Queue, error) {
	last, err := r.LastCycle(ctx)
	known, err2 := r.Queue(ctx)
	waits, err3 := r.OpenWaits(ctx)
	nodes, err4 := r.Nodes(ctx)
	if err := cmp.Or(err, err2, err3, err4); err != nil {
		return nil, err
	}
	v := &Queue{
		Cluster: last.Cluster, At: last.Until, AgeS: int64(r.Now().Sub(last.Until).Round(time.Second) / time.Second), Cycle: last.Last(), Hold: r.Hold(cfg.Journals(), &last),
		Notes: append([]string{}, last.Notes...), Running: last.Running, Types: ByType(nodes), Jobs: []Job{},
	}
	if v.Evictions, err = openEvictions(ctx, r); err != nil {
		return nil, err
	}
	var now map[cluster.JobID]*slurmplug.Job
	if live && r.Moment().IsZero() {
		now = v.ask(ctx, cfg)
	}
	causes := make(map[cluster.JobID]*plan.WaitSpan, len(waits))
	for _, x := range waits {
		if n := len(x.Spans); n > 0 {
			causes[x.Job] = &x.Spans[n-1]
		}
	}
	room := roomFor(v.Evictions)
	for i := range known {
		j := &known[i].Job
		if n := now[j.ID]; now != nil && (n == nil || n.Unread == "") {
			if n == nil || n.State != "PENDING" {
				continue // it started or left since the last cycle
			}
			j.Priority, j.Reason, j.Tasks, j.Features = int64(n.Priority), n.Reason, n.Tasks, n.Features
		} else if j.State != cluster.Pending.String() {
			continue
		}
		q := jobOf(&known[i], causes[j.ID])
		q.room = room[q.Job]
		if q.RoomFor = !q.room.IsZero(); q.Class == cluster.TE.String() {
			v.TE++
		}
		v.Jobs = append(v.Jobs, q)
	}
	v.Pending = len(v.Jobs)
	slices.SortStableFunc(v.Jobs, func(a, b Job) int { return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Job.Compare(b.Job)) })
	for i := range v.Jobs {
		v.Jobs[i].Place = i + 1
	}
	return v, nil
}

// Only leaves the jobs of a user, "" for all, and at most so many; 0: any number.
func (v *Queue) Only(user string, most int) {
	if user != "" {
		v.Jobs = slices.DeleteFunc(v.Jobs, func(j Job) bool { return j.User != user })
	}
	if most > 0 && most < len(v.Jobs) {
		v.Left, v.Jobs = len(v.Jobs)-most, v.Jobs[:most]
	}
}

// ask reads Slurm's queue now: priorities move by themselves, so priod does not store them. When Slurm does not answer, the last known
// order is shown.
func (v *Queue) ask(ctx context.Context, cfg *config.Config) map[cluster.JobID]*slurmplug.Job {
	jobs, err := cfg.Client(0).Jobs(ctx)
	if err != nil {
		v.Notes = append(v.Notes, "Slurm does not answer; order of the last cycle: "+err.Error())
		return nil
	}
	now := make(map[cluster.JobID]*slurmplug.Job, len(jobs))
	for i := range jobs {
		if jobs[i].Unread != "" {
			v.Notes = append(v.Notes, fmt.Sprintf("job %s is shown as in the last cycle, because its record cannot be read: %s", jobs[i].ID, jobs[i].Unread))
		}
		now[jobs[i].ID] = &jobs[i]
	}
	return now
}
