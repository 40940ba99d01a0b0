package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/idle"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/undo"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/prio"
)

// Explanation is everything that explains one job's place.
type Explanation struct {
	store.Story
	Cycle   store.Cycle `json:"last_cycle"`
	Reason  string      `json:"reason"`             // the decision's why as a sentence
	TEPlace int         `json:"te_place,omitempty"` // among the TE jobs, 0 when it is none
	TECount int         `json:"te_count"`
	BEAhead int         `json:"be_ahead"` // BE jobs that priod puts before it

	Evictions []store.Eviction `json:"evictions"`                  // of its own runs, and on its behalf
	Waits     []waitView       `json:"waits"`                      // the last one first
	Failures  []retry.Failure  `json:"failures"`                   // the latest first
	Idle      []idle.Spell     `json:"idle"`                       // times without work, the latest first
	Now       *nowView         `json:"slurm_now,omitempty"`        // nil when Slurm has no such job or does not answer
	Since     string           `json:"since_last_cycle,omitempty"` // started, requeued, ended, gone, waits (an array's own record, again); left out: nothing
	Note      string           `json:"note,omitempty"`

	Own map[slurmplug.Lever]slurmplug.Value `json:"own_request,omitempty"` // what its user asked for where priod has written

	Steering bool `json:"steering_enabled"` // jobs that agree to it get a GPU type here
	MaySteer bool `json:"may_be_steered"`   // this one agrees to it

	budgetKey string  // of priod.toml, that gives the budget that it exceeds; "": it exceeds none
	mayLose   float64 // GPU-seconds, from which on no job leaves for it, as it exceeds one; 0: no limit

	Speeds *speed.Answers `json:"speeds,omitempty"` // nil for a job without GPUs, or not in Slurm's queue

	RunTime *runTimeView `json:"run_time,omitempty"` // nil for a job without GPUs or that is over, and where accounting has no run

	History []Event `json:"history,omitempty"` // by the pages alone (priod web): what became of it, the latest first

}

type nowView struct {
	State    string             `json:"state"`
	Reason   string             `json:"reason"`
	Priority uint32             `json:"priority"`
	Nice     int64              `json:"nice"`
	Start    time.Time          `json:"expected_start,omitzero"` // by Slurm's backfill, of a job that waits; zero: Slurm does not say
	Factors  *slurmplug.Factors `json:"factors,omitempty"`
}

// Explained is a job's explanation, or why there is none.
type Explained struct {
	*Explanation
	Err error
}

// Explain explains jobs from the state folder, and asks Slurm once for all of them, but of a moment.
func Explain(ctx context.Context, cfg *config.Config, r *store.Reader, names []slurmplug.JobName) []Explained {
	all, now := make([]Explained, len(names)), queueNow{ctx: ctx, client: cfg.Client(0)}
	times := &RunTimes{}
	for i, name := range names {
		v := &all[i]
		var id cluster.JobID
		if id, v.Err = Find(ctx, cfg, r, name); v.Err != nil {
			continue
		}
		if v.Explanation, v.Err = stored(ctx, cfg, r, id); v.Err != nil {
			continue
		}
		var program string
		if r.Moment().IsZero() {
			v.Now, program, v.Note = now.of(v.Job.ID, v.Job.RawID)
			if v.Note == notInQueue && v.Array != nil && v.Job.ID.Task == slurmplug.NoTask && now.tasks(v.Job.ID.ID) {
				v.Note = "" // its tasks are, in records of their own
			} else {
				v.Since = v.sinceCycle(v.Note != notInQueue)
			}
			v.date()
		}
		v.Err = v.learn(ctx, cfg, r, times, program)
	}
	return all
}

// ExplainStored explains jobs from the state folder alone; user "": for one who sees all, else those of one user. The error is
// store.ErrNone for a job that was never seen, or is another user's.
func ExplainStored(ctx context.Context, cfg *config.Config, r *store.Reader, times *RunTimes, names []string, user string) ([]*Explanation, error) {
	all := make([]*Explanation, len(names))
	for i, name := range names {
		var err error
		if all[i], err = storedOf(ctx, cfg, r, name, user); err != nil {
			return nil, err
		}
		if err := all[i].learn(ctx, cfg, r, times, ""); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// storedOf is a job by its name, as a user may see it.
func storedOf(ctx context.Context, cfg *config.Config, r *store.Reader, name, user string) (*Explanation, error) {
	id, err := FindStored(ctx, r, name)
	if err != nil {
		return nil, err
	}
	v, err := stored(ctx, cfg, r, id)
	if user != "" && (err == nil && v.Job.User != user || errors.Is(err, store.ErrNone)) {
		return nil, noJob{fmt.Errorf("priod knows no job %.40s of %s: it sees jobs that wait in ranked partitions", name, user)}
	}
	if err == nil && user != "" {
		v.only(user)
	}
	return v, err
}

// learn takes in what past runs teach: the job's speeds and its run time. program is the job's name.
func (v *Explanation) learn(ctx context.Context, cfg *config.Config, r *store.Reader, times *RunTimes, program string) error {
	if err := v.jobSpeeds(ctx, cfg, r, program); err != nil {
		return err
	}
	return times.fill(ctx, r, v, program)
}

// stored is what the state folder alone explains.
func stored(ctx context.Context, cfg *config.Config, r *store.Reader, id cluster.JobID) (v *Explanation, err error) {
	v = &Explanation{Steering: cfg.Steering.Enabled}
	if v.Cycle, err = r.LastCycle(ctx); err != nil {
		return nil, err
	}
	v.Cycle.Hold = r.Hold(cfg.Journals(), &v.Cycle)
	if v.Story, err = r.Job(ctx, id, 10); err != nil {
		return nil, err
	}
	if v.Evictions, err = r.EvictionsOf(ctx, id, 10); err != nil {
		return nil, err
	}
	waits, err := r.WaitsOf(ctx, id, v.Job.FirstSubmit, v.Cycle.Until, 5)
	if err != nil {
		return nil, err
	}
	v.Waits = waitViews(waits)
	if v.Failures, err = r.FailuresOf(ctx, id, 5); err != nil {
		return nil, err
	}
	v.Failures = ofUser(v.Failures, v.Job.User)
	if v.Idle, err = r.SpellsOf(ctx, id, 5); err != nil {
		return nil, err
	}
	v.Idle = slices.DeleteFunc(v.Idle, func(x idle.Spell) bool { return !cluster.SameUser(x.User, v.Job.User) })
	if v.Own, err = ownRequest(cfg.Journals(), &v.Job); err != nil {
		return nil, err
	}
	if d := v.Decision; d != nil {
		if b := d.Choices.Budget; b != nil {
			v.budgetKey = cfg.BudgetKey(b.Of, b.Name, b.Limit)
			if p := &cfg.Preemption; p.Enabled {
				v.mayLose = preemption.MostLoss(p.Urgency, v.Job.GPUs, b.Times)
			}
		}
		if err := v.countAhead(ctx, r, d); err != nil {
			return nil, err
		}
		sample, err := r.LastSample(ctx)
		if err != nil {
			return nil, err
		}
		v.followWindow(&sample, r.Now())
	}
	v.MaySteer = maySteer(cfg, &v.Job)
	v.date()
	return v, nil
}

// followWindow takes a running job's window as the last sample shows it: the last decision is of when the job waited.
func (v *Explanation) followWindow(sample *store.Sample, now time.Time) {
	c := &v.Decision.Choices
	if c.Window == nil || v.Job.State != cluster.Running.String() || !v.Job.Left.IsZero() || sample.At.Before(v.Job.Start) {
		return
	}
	own := c.Window.OwnS
	w := cluster.WindowAhead(cluster.WindowsOf(sample.Reservations, now), v.Job.NodeList, v.Job.Start, time.Duration(own*float64(time.Second)), now)
	if c.Window = nil; w != nil {
		c.Window = &plan.WindowChoice{Name: w.Name, Start: w.Start, End: w.End, OwnS: own}
	}
}

// maySteer reports whether a job agrees to a GPU type of priod's choice: by its tag, or by the site's consent.
func maySteer(cfg *config.Config, j *store.Job) bool {
	rules := cfg.ConsentRules()
	job := cluster.Job{
		Partition: j.Partition, QOS: j.QOS, Account: j.Account, GPUs: j.GPUs, Tag: j.Said, TagText: j.Tag, TagErr: j.TagError,
		TimeLimit: time.Duration(j.TimeLimitS) * time.Second,
	}
	rules.Complete(&job)
	return job.AllowsGPUType()
}

// date puts the decision's why into words: of a job that waits no more it says that it was left alone, not that it is.
func (v *Explanation) date() {
	d := v.Decision
	if d == nil {
		return
	}
	v.Reason = Reason(d.Why)
	if !d.Ranked && d.Why != string(plan.Overrun) && !plan.Reason(d.Why).Started() && !v.waits() {
		v.Reason = "as it last waited, " + v.Reason
	}
}

// ownRequest is what the undo journal has of a job's own request; nil where priod never wrote into it.
func ownRequest(dir string, j *store.Job) (map[slurmplug.Lever]slurmplug.Value, error) {
	journal, err := undo.Open(dir, "")
	if err != nil {
		return nil, err
	}
	var own map[slurmplug.Lever]slurmplug.Value
	for lever, r := range journal.Of(j.ID, j.User) {
		if own == nil {
			own = map[slurmplug.Lever]slurmplug.Value{}
		}
		own[lever] = r.Was
	}
	return own, nil
}

// countAhead counts the TE jobs, and those that stand before this one.
func (v *Explanation) countAhead(ctx context.Context, r *store.Reader, d *store.Decision) error {
	by, err := r.RankedBefore(ctx, d.Value)
	if err != nil {
		return err
	}
	v.TECount = by[cluster.TE].Jobs
	if d.Class == cluster.BE {
		v.BEAhead = by[cluster.BE].Ahead
	}
	if d.Ranked && d.Class == cluster.TE && v.Job.State == cluster.Pending.String() && v.Job.Left.IsZero() {
		v.TEPlace = by[cluster.TE].Ahead + 1
	}
	return nil
}

// queueNow is Slurm's queue, read when it is first asked for.
type queueNow struct {
	ctx    context.Context
	client *slurmplug.Client

	asked   bool
	err     error
	jobs    map[cluster.JobID]*slurmplug.Job
	factors map[uint32]*slurmplug.Factors // by raw id; nil: not known
}

func (q *queueNow) read() {
	q.asked = true
	jobs, err := q.client.Jobs(q.ctx)
	if err != nil {
		q.err = err
		return
	}
	q.jobs = make(map[cluster.JobID]*slurmplug.Job, len(jobs))
	for i := range jobs {
		q.jobs[jobs[i].ID] = &jobs[i]
	}
}

// tasks reports whether some task of an array is in the queue.
func (q *queueNow) tasks(array uint32) bool {
	for id := range q.jobs {
		if id.ID == array && id.Task != slurmplug.NoTask {
			return true
		}
	}
	return false
}

// ended is the record of a job that is not in the queue any more, which slurmctld keeps for MinJobAge; nil: it has none.
func (q *queueNow) ended(id cluster.JobID, raw uint32) *slurmplug.Job {
	sights, err := q.client.Sights(q.ctx, raw)
	if err != nil {
		return nil
	}
	for i := range sights {
		if j := &sights[i].Job; j.ID == id && slurmplug.Ended(j.State) {
			return j
		}
	}
	return nil
}

func (q *queueNow) of(id cluster.JobID, raw uint32) (now *nowView, name, note string) {
	if !q.asked {
		q.read()
	}
	if q.err != nil {
		return nil, "", "Slurm does not answer: " + q.err.Error()
	}
	j := q.jobs[id]
	if j == nil {
		j = q.ended(id, raw)
	}
	if j == nil {
		return nil, "", notInQueue
	}
	if j.Unread != "" {
		return nil, "", "its record in Slurm's queue cannot be read: " + j.Unread
	}
	if q.factors == nil {
		q.factors = map[uint32]*slurmplug.Factors{}
		if factors, err := q.client.Factors(q.ctx); err == nil {
			for i := range factors {
				q.factors[factors[i].RawID] = &factors[i]
			}
		}
	}
	now = &nowView{State: j.State, Reason: j.Reason, Priority: j.Priority, Nice: j.Nice, Factors: q.factors[raw]}
	if j.State == "PENDING" {
		now.Start = j.Start
	}
	return now, j.Name, ""
}

var classes = map[cluster.Class]string{cluster.TE: "TE (trial-and-error)", cluster.BE: "BE (best-effort)"}

// notInQueue is the note about a job that Slurm does not list.
const notInQueue = "the job is not in Slurm's queue now"

// liner prints one line of an answer: a name and a sentence.
type liner func(name, format string, a ...any)

// Show prints the explanation; all: with every figure.
func (v *Explanation) Show(w io.Writer, all bool) {
	for _, l := range v.Lines(all) {
		fmt.Fprintf(w, "%-10s %s\n", l.Name, report.Safe(l.Text))
	}
}

// Line is a line of an explanation: a name, "" where the last one continues, and a sentence.
type Line struct{ Name, Text string }

// Lines are the explanation in words.
func (v *Explanation) Lines(all bool) (lines []Line) {
	line := func(name, format string, a ...any) { lines = append(lines, Line{name, fmt.Sprintf(format, a...)}) }
	v.showJob(line)
	v.showAnswer(line)
	v.showTag(line)
	v.showSpeeds(line)
	v.showRunTime(line)
	v.showShare(all, line)
	v.showWaits(line)
	d := v.Decision
	switch {
	case d == nil && len(v.Stays) > 0 && v.Steering && v.MaySteer:
		line("Decision", "none: it started before a cycle saw it wait, on the GPU type that was free; a hold on the hosts where users submit (%s) keeps jobs with an open GPU type for one cycle", prio.HoldFile)
	case d == nil:
		line("Decision", "none: no cycle has seen it pending")
	default:
		v.showPlace(all, line, d)
		v.showWanted(all, line, d)
		v.showNow(line)
		if all {
			line("Decided", "cycle %d, %s; checked again until %s", d.Cycle, report.Clock(d.At), report.Clock(v.Cycle.Until))
		}
		if all && len(v.Writes) == 0 {
			line("Written", "never")
		}
	}
	v.showWrites(line)
	v.showEvictions(line)
	v.showFailures(line)
	v.showIdle(line)
	if d != nil && v.Note != "" {
		line("Note", "%s", v.Note)
	}
	return lines
}

// showJob says what the job is.
func (v *Explanation) showJob(line liner) {
	j := &v.Job
	if v.Decision == nil && j.Partition == "" && len(v.Stays) > 0 { // of accounting alone
		line("Job", "%s of %s (account %s): it ended before priod saw it, so what it asked for is not known", j.ID, j.User, cmp.Or(j.Account, "not known"))
		return
	}
	qos := ""
	if j.QOS != "" {
		qos = ", QOS " + j.QOS
	}
	line("Job", "%s of %s (account %s), partition %s%s: %s", slurmplug.Update{Job: j.ID, Tasks: j.Tasks, HetID: j.HetLeader, HetOffset: j.HetOffset}.Target(), j.User, j.Account,
		j.Partition, qos, request(j))
}

// showTag tells the job's state, and what its user said.
func (v *Explanation) showTag(line liner) {
	j := &v.Job
	line("State", "%s", v.stateWords())
	v.showArray(line)
	if j.Tag != "" {
		line("Tag", "%s", j.Tag)
	}
	if j.TagError != "" {
		line("Tag", "not valid, so it counts as none: %s", j.TagError)
	}
}

// showPlace tells the job's class, why, and which jobs rank ahead of it.
func (v *Explanation) showPlace(all bool, line liner, d *store.Decision) {
	if !d.Since.IsZero() && v.waits() && (all || len(v.Waits) == 0) {
		line("Waiting", "%s, since it could first have run at %s", report.Ago(store.AsOf(v.Moment).Sub(d.Since)), report.Clock(d.Since))
	}
	switch {
	case d.Ranked || d.Why == string(plan.Overrun) || plan.Reason(d.Why).Started():
		line("Class", "%s, because %s", classes[d.Class], v.Reason)
	case v.optedOut():
		line("Class", "none: %s", Reason(string(plan.OptedOut)))
	case v.Since == sinceStarted:
		line("Class", "the next cycle says as what it runs; %s", v.Reason)
	case len(v.Stays) > 0 && !v.Stays[0].Closed:
		line("Class", "%s while it runs; %s", classes[v.Stays[0].Class], v.Reason)
	default:
		line("Class", "none: %s", v.Reason)
	}
	if d.Detail != "" && d.Detail != v.Job.TagError {
		line("", "%s", d.Detail)
	}
	if s := d.Choices.Share; s != nil && (s.Right != cluster.Withheld.String() || !v.waits()) {
		line("Share", "%s", s.Words())
	}
	if text := v.untilWindow(); text != "" {
		line("Window", "%s", text)
	}
	switch {
	case v.TEPlace > 0:
		line("Place", "%d of %d TE jobs; all TE jobs rank ahead of all others", v.TEPlace, v.TECount)
	case d.Ranked && v.waits():
		ahead := ""
		if v.BEAhead > 0 {
			ahead = fmt.Sprintf(" and %s", report.Plural(v.BEAhead, "best-effort job", "best-effort jobs"))
		}
		line("Place", "behind %s%s; otherwise in Slurm's own order", report.Plural(v.TECount, "TE job", "TE jobs"), ahead)
	}
}

// untilWindow is until which window the job runs; "": until none.
func (v *Explanation) untilWindow() string {
	if v.Decision == nil || v.Decision.Choices.Window == nil || !v.Decision.Choices.Window.End.After(time.Now()) {
		return ""
	}
	w := v.Decision.Choices.Window
	limit := slurmplug.FormatTimeLimit(time.Duration(w.OwnS * float64(time.Second)))
	return fmt.Sprintf("%s; its own time limit, %s, counts again then", w.Words(), limit)
}

// showWanted tells which GPU type and priority priod wants for the job, and why they are not written.
func (v *Explanation) showWanted(all bool, line liner, d *store.Decision) {
	j := &v.Job
	switch {
	case d.Steer != "":
		line("GPU type", "%s", d.Steer)
	case v.Steering && j.GPUs > 0 && j.State == cluster.Pending.String() && !v.MaySteer:
		line("GPU type", "left open: no valid tag gives a speed or a workload")
	}
	if all || d.Value != 0 {
		line("Wanted", "%+d over Slurm's own priority (one step is %d, more than Slurm's factors and Nice together)", d.Value, v.Cycle.BandStep)
	}
	if d.Unmoved != "" {
		line("", "not written: %s", d.Unmoved)
	}
	if words := v.Cycle.Trial(); words != "" {
		line("", "%s", words)
	}
	if v.Cycle.Hold != "" {
		line("", "nothing is written: %s", v.Cycle.Hold)
	}
}

// showWrites says what priod wrote into the job, and what stood there before.
func (v *Explanation) showWrites(line liner) {
	for _, x := range v.Writes {
		line("Written", "cycle %d, %s: %s %s -> %s (%s), %s", x.Cycle, report.Clock(x.At), x.Field(), x.Before.Words(), x.After.Words(), x.Reason, Result(x.Outcome))
	}
	for _, lever := range slices.Sorted(maps.Keys(v.Own)) {
		line("Own", "%s as its user wrote it: %s (priod reset restores it)", lever, v.Own[lever].Words())
	}
}

// waits reports whether the job is pending, by Slurm's word now if there is one.
func (v *Explanation) waits() bool {
	if v.Now != nil {
		return v.Now.State == "PENDING"
	}
	return v.Job.Left.IsZero() && v.Job.State == cluster.Pending.String()
}

// showArray sums up the tasks of an array.
func (v *Explanation) showArray(line liner) {
	if v.Array == nil {
		return
	}
	var parts []string
	if v.Array.Waiting != "" {
		parts = append(parts, "tasks "+v.Array.Waiting+" wait together; the rest describes them")
	} else if v.Job.ID.Task != slurmplug.NoTask {
		parts = append(parts, fmt.Sprintf("each task seen has its own record; the rest describes %s", v.Job.ID))
	}
	for _, t := range v.Array.Tasks {
		parts = append(parts, fmt.Sprintf("%d %s (%.80s)", t.Count, t.State, t.Tasks))
	}
	line("Array", "%s", strings.Join(parts, "; "))
}

// showEvictions tells both sides: which jobs left for this one, and for which it left.
func (v *Explanation) showEvictions(line liner) {
	for _, x := range v.Evictions {
		state := x.State
		if x.How != "" {
			state += ", it " + left[evict.How(x.How)]
		}
		if x.Reason != "" {
			state += " (" + x.Reason + ")"
		}
		cost := fmt.Sprintf("%.0f GPU-seconds expected", x.Promised)
		if x.Paid != nil {
			cost += fmt.Sprintf(", %.0f paid", *x.Paid)
		}
		if x.Victim == v.Job.ID || v.Array != nil && x.Victim.ID == v.Job.ID.ID {
			job := "for TE job"
			switch evict.Purpose(x.Purpose) {
			case evict.ForRound:
				job = "at the end of a round, for job"
			case evict.ForGang:
				job = "to free nodes for gang"
			case evict.ForWindow:
				job = "before " + x.ClaimReason + ", job"
			}
			if v.Array != nil {
				job = fmt.Sprintf("%s %s", x.Victim, job)
			}
			line("Evicted", "%s %s of %s, %s: %s; grace %.0fs, %s", job, x.For, x.ForUser, report.Clock(x.Recorded), state, x.GraceS, cost)
			continue
		}
		line("Room", "job %s of %s on %s, %s: %s; %s; the place: %s", x.Victim, x.VictimUser, x.Nodes, report.Clock(x.Recorded), state, cost,
			cmp.Or(x.ClaimReason, x.ClaimState))
	}
}

// ofUser leaves out the failures of an earlier user's job of the same id.
func ofUser(all []retry.Failure, user string) []retry.Failure {
	own := []retry.Failure{}
	for _, f := range all {
		if cluster.SameUser(f.User, user) {
			own = append(own, f)
		}
	}
	return own
}

// showFailures tells why earlier runs failed, what was done about it, and what its user can do.
func (v *Explanation) showFailures(line liner) {
	for i := range v.Failures {
		f := &v.Failures[i]
		line("Failed", "%s, after %s on %s: %s (class %s, rule %q; %s %d:%d)", report.Clock(f.End), report.Ago(f.End.Sub(f.Start)), cmp.Or(slurmplug.CompactHosts(f.Nodes), "no node"),
			cmp.Or(f.Means, "it failed"), f.Class, f.Rule, f.Final, f.ExitCode, f.Signal)
		if f.Line != "" {
			line("", "it said: %s", f.Line)
		}
		line("", "then: %s", DoneAbout(f))
		if f.Message != "" {
			line("", "%s", f.Message)
		}
		if f.Advice != "" && i == 0 {
			line("Advice", "%s", f.Advice)
		}
	}
}

// showIdle tells when the job held its GPUs without work, and what was done about it.
func (v *Explanation) showIdle(line liner) {
	for i := range v.Idle {
		x := &v.Idle[i]
		line("Idle", "since %s: %s", report.Clock(x.Since), x.Words(v.Cycle.Until))
	}
}

// left says how a victim left in words.
var left = map[evict.How]string{
	evict.Exited: "exited by itself", evict.Finished: "finished its work", evict.Forced: "was ended after its grace",
	evict.Returned: "was requeued by another program or an administrator", evict.Ended: "ended for a reason of its own", evict.Forgotten: "was forgotten by Slurm",
}

func (v *Explanation) showNow(line liner) {
	if v.Now == nil {
		return
	}
	f := v.Now.Factors
	if f == nil {
		line("Priority", "%d now", v.Now.Priority)
		return
	}
	line("Priority", "%d now = age %d + association %d + fairshare %d + size %d + partition %d + QOS %d + TRES %d + SiteFactor %d - Nice %d",
		f.Priority, f.Age, f.Assoc, f.FairShare, f.JobSize, f.Partition, f.QOS, f.TRES, f.SiteFactor, f.Nice)
}

// request is what a job asks for, in words.
func request(j *store.Job) string {
	gpus := report.Plural(j.GPUs, "GPU", "GPUs")
	switch {
	case j.GPUs > 0 && j.GPUType != "":
		gpus += " of type " + j.GPUType
	case j.GPUs > 0:
		gpus += " of any type"
	}
	limit := "no time limit"
	if s := j.TimeLimitS; s >= 0 && time.Duration(s)*time.Second != slurmplug.NoLimit {
		limit = "time limit " + report.Ago(time.Duration(j.TimeLimitS)*time.Second)
	}
	return gpus + ", " + limit
}

// only takes away what is another user's: a site may keep it private (PrivateData=jobs), and job ids come again. A name that is
// not one user's, such as a number, is not taken for the asker's.
func (v *Explanation) only(user string) {
	v.Failures = slices.DeleteFunc(v.Failures, func(f retry.Failure) bool { return f.User != user })
	v.Idle = slices.DeleteFunc(v.Idle, func(x idle.Spell) bool { return x.User != user })
	v.Evictions = ownEvictions(v.Evictions, user)
}
