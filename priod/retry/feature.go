package retry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Feature gives runs that failed a class, and requeues jobs where their users agreed. The zero value does nothing.
type Feature struct {
	Settings Settings
	Slurm    plan.Failing
	Memory   *Memory // nil: nothing is looked at
	Recorder interface {
		// SaveFailures returns once the rows are safe; on error no command is sent.
		SaveFailures(context.Context, *Changes) error
	}
	OnChange func(*Failure)               // is called with each row that is new or changed; may be nil
	OnDrain  func(*Drained, *plan.Result) // with each node that is taken out of use; may be nil

	// Suspects are what the last cycle found.
	Suspects []Suspect

	observe func() (dropped int) // waits for what Memory sees in the snapshot; nil: not begun
}

// Begin begins to see which jobs left the queue, beside what else is decided.
func (f *Feature) Begin(c *plan.Cycle) {
	if f.observe = nil; f.Memory != nil && f.Settings.Rules != nil && !c.DryRun {
		f.observe = plan.InBackground(c, func() int { return f.Memory.Observe(c.Snapshot) })
	}
}

// Join waits for what Begin began, before the snapshot's jobs are written, which are copied where it does not last.
func (f *Feature) Join() {
	if f.observe != nil {
		f.observe()
	}
}

// Plan has nothing to add: what failed waits for no place.
func (f *Feature) Plan(context.Context, *plan.Cycle) error { return nil }

// maxTended is how many rows that wait for something one cycle looks at.
const maxTended = 50

// Act looks at the jobs that left the queue, says why those failed that did, and puts back into the queue what may run again.
func (f *Feature) Act(ctx context.Context, c *plan.Cycle) error {
	if f.Memory == nil || f.Settings.Rules == nil {
		return nil
	}
	observe := f.observe
	if f.observe = nil; observe == nil {
		observe = func() int { return f.Memory.Observe(c.Snapshot) }
	}
	if n := observe(); n > 0 {
		c.Plan.Note(plan.FailuresUnseen, n, "failures: %d ended jobs get no class: more than %d waited for one", n, maxEnded)
	}
	f.Memory.Forget(c.Snapshot.At)
	if err := f.tend(ctx, c); err != nil {
		return fmt.Errorf("jobs that failed: %w", err)
	}
	if err := f.judge(ctx, c); err != nil {
		return fmt.Errorf("jobs that failed: %w", err)
	}
	return f.suspect(ctx, c)
}

// judge looks at jobs that ended, and at what they were.
func (f *Feature) judge(ctx context.Context, c *plan.Cycle) error {
	n := min(len(f.Memory.ended), max(f.Settings.PerCycle, 1))
	if n == 0 {
		return nil
	}
	jobs := f.Memory.ended[:n]
	was := make(map[cluster.JobID]*cluster.Job, n)
	targets := make([]plan.Target, 0, n)
	for i := range jobs {
		was[jobs[i].ID] = &jobs[i]
		targets = append(targets, plan.Target{Job: jobs[i].ID, RawID: jobs[i].RawID})
	}
	sights, doubts := f.Slurm.Look(ctx, targets)
	if sights == nil && doubts != nil {
		return doubts // and looks again
	}
	var turn Changes
	about, unseen := map[string]int{}, map[cluster.JobID]bool{}
	number := func() int64 { return f.Memory.Last + 1 + int64(len(turn.Failures)) }
	for _, t := range targets {
		id := t.Job
		s, seen := sights[id]
		if !seen {
			unseen[id] = true
			continue
		}
		if s.Gone { // accounting does not count restarts
			s.Restarts = was[id].Restarts
			sights[id] = s
		}
		switch row, back := putBack(c, was[id], &s); {
		case !back || f.Memory.ofRun(&row) != nil:
		case len(row.Fault) > 0:
			row.Number = number()
			f.exclude(ctx, c, was[id], &s, &row)
			turn.Failures = append(turn.Failures, row)
		case s.Submit.Add(time.Second).After(c.Snapshot.At): // put back after the nodes were read: the next cycle knows whether one had failed
			unseen[id] = true
		}
		evicted := c.Evicted != nil && c.Evicted(id, s.Start)
		if !Failed(s.Final) || !cluster.SameUser(s.User, was[id].User) || s.Start.IsZero() || evicted || f.Memory.Knows(&s) {
			delete(sights, id)
		}
	}
	if len(sights) > 0 {
		ends := f.Slurm.Ends(ctx, sights, f.Settings.Output, f.Memory.marks(sights, was))
		for _, t := range targets {
			s, failed := sights[t.Job]
			switch {
			case !failed:
			case ends[t.Job].Pending:
				unseen[t.Job] = true
			default:
				if s.RawID == 0 {
					s.RawID = t.RawID
				}
				row := f.failure(ctx, c, was[t.Job], &s, ends[t.Job], about)
				row.Number = number()
				turn.Failures = append(turn.Failures, row)
				if row.Open() {
					f.Memory.leave(was[t.Job])
				}
			}
		}
	}
	if err := f.carryOut(ctx, c.Snapshot.At, &turn); err != nil {
		return err
	}
	f.Memory.looked(n, unseen)
	return doubts
}

// failure is the row of a run that failed, with its verdict.
func (f *Feature) failure(ctx context.Context, c *plan.Cycle, was *cluster.Job, s *plan.JobStatus, e plan.End, about map[string]int) Failure {
	set := &f.Settings
	nodes, _ := slurmplug.ExpandHosts(s.NodeList)
	end := s.End
	if end.IsZero() {
		end = c.Snapshot.At
	}
	run := Run{
		Job: s.ID, RawID: s.RawID, User: was.User, State: s.Final, Reason: s.Reason, ExitCode: s.ExitCode, Signal: s.ExitedBy,
		StepCode: e.StepCode, StepSignal: e.StepSignal, Nodes: nodes, GPUs: was.GPUs, Start: s.Start, End: end,
		Restarts: s.Restarts, Limit: was.TimeLimit, AskedMB: perNode(was), PeakMB: e.PeakMB, Output: e.Output,
	}
	found := set.Rules.Classify(&run)
	v := set.Decide(&Case{
		Finding: found, Run: &run, Retry: was.Tag.Retry, Fragile: was.Fragile != "", Saves: was.Tag.Ckpt > 0 || was.Tag.Signal != "",
		CanRequeue: s.Gone || s.CanRequeue && !s.Expedites, OnHold: s.OnHold, SiteMax: f.Slurm.MostRestarts(),
		Cut: f.Memory.cut(s), Past: f.Memory.Of(s.ID, was.User, s.Restarts),
	})
	switch {
	case v.Again() && s.Gone:
		v = Verdict{Do: Nothing, Why: TooLate}
	case v.Again() && c.Paused != "":
		v = Verdict{Do: Nothing, Why: Paused}
	}
	row := Failure{
		Job: s.ID, RawID: s.RawID, User: was.User, Start: s.Start, End: end, Restarts: s.Restarts,
		GPUs: was.GPUs, Nodes: nodes, Fault: Fault(c.Snapshot, found.Class, nodes), Final: s.Final, ExitCode: s.ExitCode, Signal: s.ExitedBy,
		Class: found.Class.Name, Means: found.Class.Text, Rule: found.Rule, Signature: found.Signature, Line: found.Line, Output: e.Mark, Free: found.Class.Free,
		AskedMB: run.AskedMB, PeakMB: run.PeakMB, Advice: Advice(&found, &run),
		Retry: was.Tag.Retry, Do: v.Do, Why: v.Why, Wait: v.Wait, State: Noted, Message: clean([]byte(e.Unread)), At: c.Snapshot.At,
	}
	switch {
	case !v.Again():
	case !f.Memory.Room(set, c.Snapshot.At, was.User, about):
		row.State, row.Why = Delayed, Caps
	default:
		row.State = Recorded
		about[was.User]++
		f.exclude(ctx, c, was, s, &row)
	}
	return row
}

// exclude says which nodes a job is to refuse from now on.
func (f *Feature) exclude(ctx context.Context, c *plan.Cycle, was *cluster.Job, s *plan.JobStatus, row *Failure) {
	if row.Do != Elsewhere || len(row.Fault) == 0 || s.ReqNodes != "" || c.Paused != "" {
		return
	}
	text, err := f.Slurm.Excluded(ctx, plan.Target{Job: row.Job, RawID: row.RawID})
	own, err2 := slurmplug.ExpandHosts(text)
	if err != nil || text != "" && err2 != nil {
		return // it goes back all the same
	}
	row.Own = text
	if r, written := c.History.Requests[row.Job][slurmplug.ExcNodeList]; written && plan.SameHosts(r.Value.String(), text) {
		row.Own, own = r.Was.String(), nil // priod's, of slow nodes: a job that failed refuses others
	}
	past := f.Memory.Of(row.Job, row.User, row.Restarts)
	for i := len(past) - 1; i >= 0; i-- {
		if past[i].Exclude != "" && plan.SameHosts(past[i].Exclude, text) {
			row.Own = past[i].Own // what stands there is priod's
			break
		}
	}
	if all := f.Settings.Exclusion(c.Snapshot, was, own, row.Fault); all != nil {
		row.Exclude = slurmplug.CompactHosts(all)
	}
}

// putBack is the row of a run that Slurm itself has put back into the queue (JobRequeue=1), with those of its nodes that
// failed, if any: what is left to do is to keep the job off these.
func putBack(c *plan.Cycle, was *cluster.Job, s *plan.JobStatus) (row Failure, back bool) {
	nodes, _ := slurmplug.ExpandHosts(was.NodeList)
	row = Failure{
		Job: s.ID, RawID: s.RawID, User: was.User, Start: was.Start, End: c.Snapshot.At, Restarts: was.Restarts, GPUs: was.GPUs, Nodes: nodes,
		Final: "NODE_FAIL", Class: "node", Rule: "node failed", Signature: "node failed: put back by Slurm",
		Retry: was.Tag.Retry, Do: Elsewhere, Why: BySlurm, State: Requeued, At: c.Snapshot.At,
	}
	for i := range c.Snapshot.Nodes {
		if n := &c.Snapshot.Nodes[i]; !n.Usable && !n.Silent && slices.Contains(nodes, n.Name) {
			row.Fault = append(row.Fault, n.Name)
		}
	}
	evicted := c.Evicted != nil && c.Evicted(s.ID, was.Start)
	ended := was.State == cluster.Running && inQueueAgain(&s.Job) && s.Final == "" && s.Restarts == was.Restarts+1
	return row, ended && !evicted && agrees(was) == 1
}

// perNode is the memory that a job asked for on each node.
func perNode(j *cluster.Job) int64 {
	if j.Node.MemMB > 0 {
		return j.Node.MemMB
	}
	return j.MemMB / int64(max(j.Nodes, 1))
}

// tend continues with rows that wait for something.
func (f *Feature) tend(ctx context.Context, c *plan.Cycle) error {
	var turn Changes
	var look []plan.Target
	var rows []int64
	for _, number := range f.Memory.open() {
		row := f.Memory.Failure(number)
		if row.State == Requeued {
			if next, changed := waits(*row, f.Memory.queue.jobs.Get(row.Job), c.Snapshot); changed {
				turn.Failures = append(turn.Failures, next)
			}
			continue
		}
		if len(look) < maxTended {
			look, rows = append(look, plan.Target{Job: row.Job, RawID: row.RawID}), append(rows, number)
		}
	}
	if len(look) > 0 {
		sights, err := f.Slurm.Look(ctx, look)
		if err != nil && sights == nil {
			return err
		}
		about := map[string]int{}
		for _, number := range rows {
			row := *f.Memory.Failure(number)
			s, seen := sights[row.Job]
			if !seen {
				continue
			}
			room := c.Paused == "" && f.Memory.Room(&f.Settings, c.Snapshot.At, row.User, about)
			if next, changed := advance(row, &s, room); changed {
				if next.State == Recorded {
					about[row.User]++
				}
				turn.Failures = append(turn.Failures, next)
			}
		}
	}
	return f.carryOut(ctx, c.Snapshot.At, &turn)
}

// NotTaken is the Message of a failure whose requeue Slurm did not take.
const NotTaken = "Slurm did not take the requeue"

// maxTries is how often a command without an answer is sent.
const maxTries = 3

// advance takes a row whose command waits, or was sent without an answer, one step
// further, by what Slurm shows of the job. room reports whether the caps allow a requeue.
func advance(f Failure, s *plan.JobStatus, room bool) (Failure, bool) {
	again := s.Final != "" && !s.Gone && f.Runs(s)
	switch {
	case s.Gone && f.State == Recorded && f.Tries > 0: // it may have run again, and ended
		f.State = Noted
	case s.Gone:
		f.State, f.Do, f.Why = Noted, Nothing, TooLate
	case again && f.State == Delayed && room:
		f.State, f.Why = Recorded, ByClass
	case again && f.State == Delayed:
		return f, false
	case again && f.Tries >= maxTries:
		f.State, f.Message = Noted, NotTaken
	case again && room:
		// and once more
	case again:
		return f, false
	case s.State == cluster.Pending && s.Restarts > f.Restarts && f.State == Recorded:
		f.State = Requeued
	default: // it runs again, or its user has put it back
		f.State = Noted
	}
	return f, true
}

// waits is a row whose job is in the queue again: nodes that it refuses may still have to
// be named, or be taken back because nothing is left for it.
func waits(f Failure, j *cluster.Job, s *cluster.Snapshot) (Failure, bool) {
	switch {
	case j == nil || !inQueueAgain(j):
		f.State = Noted
		return f, true
	case j.State != cluster.Pending: // it is still to leave its nodes
		return f, false
	case f.Exclude != "" && f.Told && noneLeft(s, j, f.Exclude):
		f.Exclude, f.Told, f.Message = "", false, "no node was left for it: it excludes only what its user wants"
		return f, true
	case f.Exclude != "" && !f.Told && f.Tries < maxTries:
		return f, true
	}
	return f, false
}

// carryOut saves rows, sends their commands and saves what became of them.
func (f *Feature) carryOut(ctx context.Context, at time.Time, t *Changes) error {
	if t.Empty() {
		return nil
	}
	var commands []plan.Command
	for i := range t.Failures {
		row := &t.Failures[i]
		old := f.Memory.Failure(row.Number)
		cs := row.commands(old)
		if len(cs) > 0 {
			row.Tries++
		}
		commands = append(commands, cs...)
	}
	if err := f.save(ctx, t); err != nil || len(commands) == 0 {
		return err
	}
	ctx = context.WithoutCancel(ctx) // what is recorded is carried out
	results := f.Slurm.Do(ctx, commands)
	var after Changes
	for i := range t.Failures {
		row := t.Failures[i]
		if row.hear(results, at) {
			if row.State == Requeued {
				f.Memory.expect(&row)
			}
			after.Failures = append(after.Failures, row)
		}
	}
	return f.save(ctx, &after)
}

// commands are what a row asks for, given what it was before.
func (f *Failure) commands(old *Failure) (commands []plan.Command) {
	exclude := plan.Command{Kind: plan.Exclude, Job: f.Job, Eviction: f.Number, Value: slurmplug.Text(f.Exclude)}
	switch {
	case f.State == Recorded && f.Do == Hold:
		return []plan.Command{{Kind: plan.HoldBack, Job: f.Job, Eviction: f.Number}}
	case f.State == Recorded:
		commands = []plan.Command{{Kind: plan.Requeue, Job: f.Job, Eviction: f.Number, Value: slurmplug.Delay(max(f.Wait, soonest))}}
		if f.Exclude != "" {
			commands = append(commands, exclude)
		}
	case f.State == Requeued && f.Exclude != "" && !f.Told:
		commands = []plan.Command{exclude}
	case f.State == Requeued && f.Exclude == "" && old != nil && old.Exclude != "":
		exclude.Value = slurmplug.Text(f.Own)
		commands = []plan.Command{exclude}
	}
	return commands
}

// soonest is how long after its requeue a job starts at the earliest: until then the nodes that it is to refuse are written.
const soonest = 30 * time.Second

// hear takes in what became of a row's commands; false: it had none.
func (f *Failure) hear(results []plan.Result, at time.Time) (heard bool) {
	for i := range results {
		r := &results[i]
		if r.Eviction != f.Number {
			continue
		}
		heard = true
		switch {
		case r.Kind == plan.Exclude && r.Status == slurmplug.Applied:
			f.Told = f.Exclude != ""
		case r.Kind == plan.Exclude:
			f.Message = clean([]byte(r.Message))
		case r.Status == slurmplug.Applied:
			f.State, f.Requeued = Requeued, at
		case r.Status == slurmplug.Refused:
			f.State, f.Message, f.Exclude = Noted, clean([]byte(r.Message)), ""
			if strings.Contains(r.Message, "Invalid job id") {
				f.Why = TooLate
			}
		case r.Status == slurmplug.Postponed: // it was not sent
			f.Tries--
		default: // a later cycle sees what became of it
			f.Message, f.Requeued = clean([]byte(r.Message)), at
		}
	}
	return heard
}

// save makes rows safe and takes them over.
func (f *Feature) save(ctx context.Context, t *Changes) error {
	if t.Empty() {
		return nil
	}
	if err := f.Recorder.SaveFailures(ctx, t); err != nil {
		return fmt.Errorf("record them (no command was sent): %w", err)
	}
	f.Memory.Update(t)
	for i := range t.Failures {
		if f.OnChange != nil {
			f.OnChange(&t.Failures[i])
		}
	}
	return nil
}

// suspect finds the nodes on which jobs of several users failed alike, and drains them where that is configured.
func (f *Feature) suspect(ctx context.Context, c *plan.Cycle) error {
	set := &f.Settings
	f.Suspects = Suspects(set, f.Memory.Failures, f.Memory.Drained, len(c.Snapshot.Nodes), c.Snapshot.At)
	if !set.Drain || c.Paused != "" {
		return nil
	}
	drained := 0
	for _, d := range f.Memory.Drained {
		if c.Snapshot.At.Sub(d.At) < set.Within {
			drained++
		}
	}
	for _, x := range f.Suspects {
		usable := slices.ContainsFunc(c.Snapshot.Nodes, func(n cluster.Node) bool { return n.Name == x.Node && n.Usable })
		if !usable || drained >= set.MaxDrained {
			continue
		}
		drained++
		d := Drained{Node: x.Node, Class: x.Class, At: c.Snapshot.At}
		if err := f.save(ctx, &Changes{Drained: []Drained{d}}); err != nil {
			return err
		}
		r := f.Slurm.Do(context.WithoutCancel(ctx), []plan.Command{{Kind: plan.Drain, Nodes: x.Node, Value: slurmplug.Text("priod:" + x.Class)}})
		if f.OnDrain != nil && len(r) == 1 {
			f.OnDrain(&d, &r[0])
		}
	}
	return nil
}
