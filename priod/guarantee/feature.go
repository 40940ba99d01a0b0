package guarantee

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Feature gives each job its Right before a cycle plans, and keeps those waiting that may not borrow. The zero value guarantees nothing.
type Feature struct {
	plan.PlanOnly
	Settings Settings
	Memory   *Memory

	result Result
}

// Memory is what is kept from one cycle to the next.
type Memory struct {
	entitled map[cluster.JobID]promise // that wait

	Statement Statement // what became of the shares; nothing is decided by it
}

// promise is what an account's waiting job was promised.
type promise struct {
	account string // "": that of an earlier process, which did not keep it
	since   time.Time
}

// since is when a waiting job was entitled first; zero: it is not, or another account's since.
func (m *Memory) since(j *cluster.Job) (at time.Time) {
	if p, was := m.entitled[j.ID]; was && (p.account == j.Account || p.account == "") {
		at = p.since
	}
	return at
}

// Restore takes in which entitled jobs waited when an earlier process last looked.
func (m *Memory) Restore(open []Return, at time.Time) {
	m.entitled = map[cluster.JobID]promise{}
	for i := range open {
		x := &open[i]
		if p, known := m.entitled[x.Job]; !known || x.Since.Before(p.since) {
			m.entitled[x.Job] = promise{since: x.Since}
		}
	}
	m.Statement.Restore(open, at)
}

// Classify sets the Right of each job of a snapshot.
func (f *Feature) Classify(s *cluster.Snapshot, h *cluster.History) {
	f.result = Result{}
	if f.Memory != nil {
		defer func() { f.Memory.Statement.see(s, &f.result) }()
	}
	if len(f.Settings.Shares) == 0 {
		return
	}
	f.result = Decide(s, h, &f.Settings, f.Memory)
	for i := range f.result.Jobs {
		x, j := &f.result.Jobs[i], &s.Jobs[i]
		j.Right, j.RightTasks = x.Right, x.Tasks
		if j.State == cluster.Pending && x.Right == cluster.Entitled && x.Tasks == 0 { // room is made at once for tasks that have records of their own
			j.RightTasks = min(j.TasksNow(), j.TaskCount-1)
		}
	}
	f.Memory.entitle(s)
	for i := range s.Jobs {
		s.Jobs[i].EntitledSince = f.Memory.since(&s.Jobs[i])
	}
}

// Plan writes the begin times of jobs that may not borrow, moves them on, and takes them back from jobs that may start. A job
// whose begin time lies ahead and is not priod's is left alone.
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	f.tell(c)
	f.account(c)
	if c.Paused != "" {
		return nil
	}
	var writes []timed
	for i := range c.Snapshot.Jobs {
		if w, due := f.begin(c, &c.Snapshot.Jobs[i]); due {
			writes = append(writes, w)
		}
	}
	slices.SortStableFunc(writes, func(a, b timed) int { return cmp.Compare(a.left, b.left) })
	quota := plan.Quota{Most: f.Settings.WritesPerCycle}
	var actions []plan.Action
	for _, w := range writes {
		if quota.Take() {
			actions = append(actions, w.Action)
		}
	}
	quota.Note(c.Plan, plan.ShareWrites, "begin times of jobs beyond their account's share")
	c.Plan.Ask(actions)
	return nil
}

// account tells the statement why entitled jobs wait.
func (f *Feature) account(c *plan.Cycle) {
	at := map[cluster.JobID]int{}
	for i := range f.result.Jobs {
		if j := &c.Snapshot.Jobs[i]; j.State == cluster.Pending && j.Right == cluster.Entitled {
			at[j.ID] = i
		}
	}
	for i := range c.Plan.Decisions {
		d := &c.Plan.Decisions[i]
		k, waits := at[d.Job]
		if !waits {
			continue
		}
		why, makesRoom := "", c.History.Claiming[d.Job] || c.History.Claiming[c.Snapshot.Jobs[k].FirstTask()]
		if x := d.Choices.Eviction; x != nil {
			why = x.Why
		}
		switch {
		case c.Paused != "":
			why = Paused
		case !makesRoom && d.Choices.GPUType != nil && d.Choices.GPUType.Why == "waits":
			why = GPUType
		case !makesRoom && f.result.Shares[f.result.Jobs[k].Share].Down > 0:
			why = Down
		}
		f.Memory.Statement.because(d.Job, why)
	}
}

// timed is a write of a begin time.
type timed struct {
	plan.Action
	left time.Duration // until the begin time that the job has passes; 0 or less: it has none
}

// begin is the write of a begin time that a job needs now; false: none.
func (f *Feature) begin(c *plan.Cycle, j *cluster.Job) (w timed, due bool) {
	_, written := c.History.Requests[j.ID][slurmplug.StartTime]
	if j.State != cluster.Pending || !written && j.Right != cluster.Withheld {
		return w, false
	}
	field := c.History.Field(j, slurmplug.StartTime)
	left := j.Eligible.Sub(c.Snapshot.At)
	kept := field.Ours && left > 0
	to, reason := slurmplug.AtOnce, MayStart
	switch {
	case !field.Shown || left > 0 && !kept:
		return w, false
	case j.Right == cluster.Withheld:
		if kept && left >= f.Settings.Ahead/2 || !field.Refused.At.IsZero() {
			return w, false
		}
		to, reason = slurmplug.BeginAt(c.Snapshot.At.Add(f.Settings.Ahead)), MayNotBorrow
	case !kept || j.Right == cluster.NoShares && len(f.Settings.Shares) > 0: // what it waits for is not room
		return w, false
	}
	return timed{plan.Action{Job: j.ID, Tasks: j.Tasks, Lever: slurmplug.StartTime, Before: field.Now, After: to, Was: slurmplug.AtOnce, Reason: reason}, left}, true
}

// Why a begin time is written.
const (
	MayNotBorrow = "beyond its account's share"
	MayStart     = "it may start"
)

// kept reports whether a job waits for a begin time that priod wrote.
func kept(j *cluster.Job, h *cluster.History) bool {
	if len(h.Requests) == 0 {
		return false
	}
	return h.Field(j, slurmplug.StartTime).Ours
}

// entitle remembers since when waiting jobs are entitled.
func (m *Memory) entitle(s *cluster.Snapshot) {
	now := map[cluster.JobID]promise{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Pending && j.Right == cluster.Entitled {
			now[j.ID] = promise{j.Account, cmp.Or(m.since(j), s.At)}
		}
	}
	m.entitled = now
}

// Shares are the shares as the last cycle saw them.
func (f *Feature) Shares() []State { return slices.Clone(f.result.Shares) }
