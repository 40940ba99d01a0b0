package idle

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// soonest is how long after its requeue a job starts at the earliest.
const soonest = 30 * time.Second

// wanted is one thing to do about a spell.
type wanted struct {
	*run
	do Do
}

// due is what is to be done about a job now; "": nothing. A job is requeued only where its user agreed to that and where its
// GPUs or CPUs are known to do nothing.
func (set *Settings) due(x *Spell, j *cluster.Job, at time.Time) Do {
	does := func(d Do) bool { return slices.Contains(set.Do, d) }
	late := x.Sure && float64(x.Lasted(at)) >= set.Acts*float64(x.After)
	switch {
	case does(Notify) && x.Told.IsZero():
		return Notify
	case !late || !x.Acted.IsZero():
	case does(Requeue) && j.Tag.Retry == "always" && !j.Interactive && j.TagErr == "" && j.Fragile == "":
		return Requeue
	case does(Cancel):
		return Cancel
	}
	return ""
}

// Together reports of each spell whether so many others began with it that one fault is behind all of them: within ten
// minutes, of several users, and of a large part of all jobs.
func (set *Settings) together(open []*run, watched int) func(*Spell) bool {
	const window = 10 * time.Minute
	type bucket struct {
		jobs  int
		users map[string]bool
	}
	buckets := map[int64]*bucket{}
	for _, r := range open {
		k := r.spell.Since.UnixNano() / int64(window)
		for _, k := range []int64{k - 1, k, k + 1} {
			b := buckets[k]
			if b == nil {
				b = &bucket{users: map[string]bool{}}
				buckets[k] = b
			}
			b.jobs++
			b.users[r.spell.User] = true
		}
	}
	return func(s *Spell) bool {
		b := buckets[s.Since.UnixNano()/int64(window)]
		return b.jobs > set.PerCycle && len(b.users) >= set.Users && float64(b.jobs) > set.Part*float64(watched)
	}
}

// act tells users, requeues jobs and ends them, a few in each cycle.
func (f *Feature) act(ctx context.Context, c *plan.Cycle, open []*run) error {
	set, at := &f.Settings, c.Snapshot.At
	if c.Paused != "" || len(set.Do) == 0 || len(open) == 0 {
		return nil
	}
	jobs := map[cluster.JobID]*cluster.Job{}
	for i := range c.Snapshot.Jobs {
		if j := &c.Snapshot.Jobs[i]; j.State == cluster.Running && j.GPUs > 0 {
			jobs[j.ID] = j
		}
	}
	together := set.together(open, f.Memory.watched)
	var all []wanted
	held := 0
	for _, r := range open {
		j, x := jobs[r.spell.Job], r.spell
		if j == nil || !j.Start.Equal(x.Start) || at.Sub(r.told).Abs() > set.Gap {
			continue
		}
		do := set.due(x, j, at)
		switch {
		case do == "":
		case do != Notify && together(x):
			held++
		case len(all) < set.PerCycle:
			all = append(all, wanted{r, do})
		}
	}
	if held > 0 {
		c.Plan.Note(plan.IdleTogether, held, "idle: nothing is done about %d jobs without work: those of several users stopped together, and the fault may lie with what they share", held)
	}
	return f.carryOut(ctx, at, f.stillRun(ctx, all), jobs)
}

// stillRun leaves out what a closer look rules out.
func (f *Feature) stillRun(ctx context.Context, all []wanted) (some []wanted) {
	var look []plan.Target
	for _, w := range all {
		if w.do != Notify {
			look = append(look, plan.Target{Job: w.spell.Job, RawID: w.spell.RawID})
		}
	}
	var sights map[cluster.JobID]plan.JobStatus
	if len(look) > 0 {
		sights, _ = f.Slurm.Look(ctx, look) // what is missing waits for the next cycle
	}
	for _, w := range all {
		s, seen := sights[w.spell.Job]
		runs := seen && !s.Gone && s.State == cluster.Running && s.Start.Equal(w.spell.Start)
		if w.do == Notify || runs && (w.do != Requeue || s.CanRequeue) {
			some = append(some, w)
		}
	}
	return some
}

// carryOut saves what is to be done, does it, and saves what became of it.
func (f *Feature) carryOut(ctx context.Context, at time.Time, all []wanted, jobs map[cluster.JobID]*cluster.Job) error {
	if len(all) == 0 {
		return nil
	}
	rows, commands := make([]*Spell, len(all)), make([]plan.Command, len(all))
	for i, w := range all {
		x := w.spell
		rows[i], commands[i] = x, plan.Command{Job: x.Job, SLUID: jobs[x.Job].SLUID}
		if w.do == Notify {
			x.Told = at
			commands[i].Kind, commands[i].Value = plan.Tell, slurmplug.Text(x.Line(&f.Settings, at))
			continue
		}
		if x.Acted, x.Do = at, w.do; w.do == Requeue {
			commands[i].Kind, commands[i].Value = plan.Requeue, slurmplug.Delay(soonest)
		} else {
			commands[i].Kind = plan.Cancel
		}
	}
	if err := f.save(ctx, rows); err != nil {
		return err
	}
	var refused []*Spell
	for i, r := range f.Slurm.Do(context.WithoutCancel(ctx), commands) {
		if r.Status != slurmplug.Applied && i < len(rows) {
			rows[i].Message = r.Message
			refused = append(refused, rows[i])
		}
	}
	return f.save(ctx, refused)
}
