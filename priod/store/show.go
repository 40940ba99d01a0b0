package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/trial"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Cycle is one row of cycles: a cycle in which something changed, and the quiet
// ones that followed it.
type Cycle struct {
	Number     int64           `json:"cycle"`
	At         time.Time       `json:"at"`    // first poll
	Until      time.Time       `json:"until"` // last poll
	Polls      int             `json:"polls"`
	Cluster    string          `json:"cluster"`
	Mode       slurmplug.Lever `json:"mode"`
	BandLo     int64           `json:"band_lo"`
	BandHi     int64           `json:"band_hi"`
	BandStep   int64           `json:"band_step"`
	Span       int64           `json:"span"` // largest difference that Slurm's own factors make
	Jobs       int             `json:"jobs"`
	Pending    int             `json:"pending"`
	Running    int             `json:"running"`
	Nodes      int             `json:"nodes"`
	Ranked     int             `json:"ranked"`
	TE         int             `json:"te"`      // ranked jobs that count as TE
	Actions    int             `json:"actions"` // writes in the plan
	Renumbered int             `json:"renumbered"`
	Hold       string          `json:"hold,omitempty"` // why nothing was written
	Notes      []string        `json:"notes,omitempty"`
}

// Job is a job as it was last seen. Sizes are of the whole job.
type Job struct {
	ID          cluster.JobID `json:"job"`
	RawID       uint32        `json:"raw_id"`
	Tasks       string        `json:"tasks,omitempty"` // of an unsplit array
	TaskCount   int           `json:"task_count"`
	HetLeader   uint32        `json:"het_leader,omitempty"`
	HetOffset   int           `json:"het_offset,omitempty"`
	User        string        `json:"user"`
	Account     string        `json:"account"`
	Partition   string        `json:"partition"`
	QOS         string        `json:"qos"`
	Reservation string        `json:"reservation,omitempty"`
	State       string        `json:"state"`
	Reason      string        `json:"reason"`
	Priority    int64         `json:"priority"` // at Changed
	Nice        int64         `json:"nice"`
	SiteFactor  *int64        `json:"site_factor"` // null when Slurm does not tell
	Restarts    int           `json:"restarts"`
	Nodes       int           `json:"nodes"`
	CPUs        int           `json:"cpus"`
	MemMB       int64         `json:"mem_mb"`
	GPUs        int           `json:"gpus"`
	GPUType     string        `json:"gpu_type,omitempty"`
	Features    string        `json:"features,omitempty"`
	Prefer      string        `json:"prefer,omitempty"`
	NodeList    string        `json:"node_list,omitempty"`
	TimeLimitS  int64         `json:"time_limit_s"` // -1: unlimited
	Submit      time.Time     `json:"submit,omitzero"`
	FirstSubmit time.Time     `json:"first_submit,omitzero"` // when priod first saw the job
	Eligible    time.Time     `json:"eligible,omitzero"`
	Start       time.Time     `json:"start,omitzero"`
	Dependency  bool          `json:"dependency,omitempty"`
	Tag         string        `json:"tag,omitempty"`
	Said        jobtag.Tag    `json:"-"` // what Tag says
	TagError    string        `json:"tag_error,omitempty"`
	Seen        time.Time     `json:"seen"`          // first sighting
	Changed     time.Time     `json:"changed"`       // when this was last different
	Left        time.Time     `json:"left,omitzero"` // first poll without it
}

// Decision is a decision and the cycle that made it.
type Decision struct {
	plan.Decision
	Cycle int64     `json:"cycle"`
	At    time.Time `json:"at"`
}

// Write is one write, its outcome and its cycle. Status may also be Planned.
type Write struct {
	plan.Outcome
	User  string    `json:"user,omitempty"`
	Cycle int64     `json:"cycle"`
	At    time.Time `json:"at"`
}

// Stay is a stay and what the job received in it.
type Stay struct {
	cluster.Stay
	GPUSeconds float64 `json:"gpu_s"`
}

// Known is what priod remembers of a job in the queue.
type Known struct {
	FirstEligible time.Time       `json:"first_eligible,omitzero"`
	Counted       string          `json:"counted,omitempty"` // te or be, "" when never ranked
	Lever         slurmplug.Lever `json:"lever,omitempty"`   // "" when never written
	Value         int64           `json:"value"`             // last value that Slurm took
	Tried         int64           `json:"tried"`             // sent later, perhaps not arrived; else as Value
	UserNice      int64           `json:"user_nice"`         // before priod wrote Nice or Priority
	Written       time.Time       `json:"written,omitzero"`
	Reverts       int             `json:"reverts"` // times it had to be written again
}

// Queued is a job in the queue with what holds of it.
type Queued struct {
	Job      Job       `json:"job"`
	Decision *Decision `json:"decision,omitempty"`
	Known    *Known    `json:"known,omitempty"`

	Start *ExpectedStart `json:"expected_start,omitempty"` // nil: it waits for more than room, is far behind, or was not looked at

	Moment time.Time `json:"-"` // as of which it was read; zero: now
}

// Story is all that is stored about one job; lists are latest first.
type Story struct {
	Queued
	Decisions []Decision `json:"decisions"`
	Writes    []Write    `json:"writes"`
	Stays     []Stay     `json:"intervals"`
	Share     *Share     `json:"share,omitempty"` // nil: the allocation never counted it
	Array     *Array     `json:"array,omitempty"` // nil: no array was asked for
}

// Array is what became of an array's tasks.
type Array struct {
	Waiting string    `json:"waiting,omitempty"` // tasks in the array's own record
	Tasks   []TasksIn `json:"tasks"`             // those with records of their own
}

// TasksIn are the tasks in one state.
type TasksIn struct {
	State string `json:"state"` // of the job, or "left" when it is in the queue no more
	Count int    `json:"count"`
	Tasks string `json:"tasks"`
}

// ErrNone says that nothing is stored of what was asked for.
var ErrNone = errors.New("nothing is stored")

// LastCycle returns the last cycle; ErrNone before the first.
func (r *Reader) LastCycle(ctx context.Context) (c Cycle, err error) {
	all, err := r.Cycles(ctx, 1)
	if err == nil && len(all) == 0 {
		return Cycle{}, fmt.Errorf("%w: priod has not finished a cycle yet", ErrNone)
	}
	if err != nil {
		return Cycle{}, err
	}
	return all[0], nil
}

// Cycles returns the latest cycles, latest first, at most most.
func (r *Reader) Cycles(ctx context.Context, most int) ([]Cycle, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.Cycle, error) { return r.q.RecentCycles(ctx, tx, int64(most)) }, showCycle)
}

// Writes returns the latest writes to all jobs, latest first, at most most.
func (r *Reader) Writes(ctx context.Context, most int) ([]Write, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.RecentWritesRow, error) { return r.q.RecentWrites(ctx, tx, int64(most)) },
		func(r *db.RecentWritesRow) Write { return showWrite(&r.Write, jobID(r.ID, r.JobTask), r.User) })
}

// Queue returns the jobs of the queue as the last cycle saw them, in the order
// of their first sighting.
func (r *Reader) Queue(ctx context.Context) (all []Queued, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		jobs, err := r.q.JobsInQueue(ctx, tx)
		if err != nil {
			return err
		}
		decisions, err := r.q.DecisionsInQueue(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := r.q.AllHistory(ctx, tx)
		if err != nil {
			return err
		}
		planned, err := r.q.AllStarts(ctx, tx)
		if err != nil {
			return err
		}
		starts := make(map[int64]*db.Start, len(planned))
		for i := range planned {
			starts[planned[i].Job] = &planned[i]
		}
		known := make(map[cluster.JobID]*db.History, len(rows))
		for i := range rows {
			known[jobID(rows[i].ID, rows[i].Task)] = &rows[i]
		}
		all = make([]Queued, len(jobs))
		for i := range jobs {
			q := Queued{Job: showJob(&jobs[i]), Moment: r.at}
			var last *db.Decision
			if len(decisions) > 0 && decisions[0].Job == jobs[i].Job { // both by row
				last, decisions = &decisions[0], decisions[1:]
				q.Decision = showDecision(last, q.Job.ID)
			}
			q.Known = showKnown(last, known[q.Job.ID])
			if x := starts[jobs[i].Job]; x != nil && q.Job.State == cluster.Pending.String() {
				q.Start = r.showStart(x)
			}
			all[i] = q
		}
		return nil
	})
	return all, err
}

// Ranked are waiting jobs of one class that priod ranks.
type Ranked struct {
	Jobs  int
	Ahead int // with a higher value than was asked for
}

// RankedBefore counts the waiting jobs that priod ranks by class, and those above a value.
func (r *Reader) RankedBefore(ctx context.Context, value int64) (by map[cluster.Class]Ranked, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		rows, err := r.q.RankedBefore(ctx, tx, value)
		by = map[cluster.Class]Ranked{}
		for _, x := range rows {
			by[classOf(x.Class)] = Ranked{int(x.Jobs), int(x.Ahead)}
		}
		return err
	})
	return by, err
}

// Job returns what is stored about the latest job of this id, at most most of
// each list; ErrNone when it was never seen. A task that has no record of its
// own is answered by its array, an array that has none by one of its tasks.
func (r *Reader) Job(ctx context.Context, id cluster.JobID, most int) (s Story, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		row, err := r.latest(ctx, tx, id)
		if err != nil {
			return err
		}
		if s, err = r.story(ctx, tx, &row, most); err == nil && id.Task == slurmplug.NoTask {
			s.Array, err = r.array(ctx, tx, &row)
		}
		return err
	})
	return s, err
}

// latest is the row of the latest job of an id. Once an array has no record of its own
// any more, a task stands for it, one that waits if there is one.
func (r *Reader) latest(ctx context.Context, tx *sql.Tx, id cluster.JobID) (db.Job, error) {
	row, err := r.q.LatestJob(ctx, tx, db.LatestJobParams{ID: int64(id.ID), Task: int64(id.Task)})
	if !errors.Is(err, sql.ErrNoRows) {
		return row, err
	}
	unknown := fmt.Errorf("%w about job %s: no cycle has seen it, or it is older than the retention", ErrNone, id)
	if id.Task != slurmplug.NoTask {
		array := slurmplug.Plain(id.ID)
		row, err = r.q.LatestJob(ctx, tx, db.LatestJobParams{ID: int64(array.ID), Task: int64(array.Task)})
		if err == nil && hasTask(row.Tasks, id.Task) {
			return row, nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return db.Job{}, err
		}
		return db.Job{}, unknown
	}
	tasks, err := r.q.TasksOf(ctx, tx, int64(id.ID))
	if err != nil {
		return db.Job{}, err
	}
	if len(tasks) == 0 {
		return db.Job{}, unknown
	}
	task := tasks[max(slices.IndexFunc(tasks, func(t db.TasksOfRow) bool { return t.LeftMs == 0 && t.State == cluster.Pending.String() }), 0)]
	return r.q.LatestJob(ctx, tx, db.LatestJobParams{ID: int64(id.ID), Task: task.Task})
}

// Component returns the id of a component of a heterogeneous job; ErrNone when no cycle
// has seen it.
func (r *Reader) Component(ctx context.Context, leader uint32, offset int) (id cluster.JobID, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		row, err := r.q.ComponentOf(ctx, tx, db.ComponentOfParams{HetLeader: int64(leader), HetOffset: int64(offset)})
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w about job %d+%d: no cycle has seen it, or it is older than the retention", ErrNone, leader, offset)
		}
		id = jobID(row.ID, row.Task)
		return err
	})
	return id, err
}

// array sums up the array that was asked for; nil for a job that is none.
func (r *Reader) array(ctx context.Context, tx *sql.Tx, row *db.Job) (*Array, error) {
	if row.Task == int64(slurmplug.NoTask) && row.Tasks == "" {
		return nil, nil
	}
	rows, err := r.q.TasksOf(ctx, tx, row.ID)
	if err != nil {
		return nil, err
	}
	a, seen, tasks := &Array{}, map[int64]bool{}, map[string][]int32{}
	if row.Task == int64(slurmplug.NoTask) && row.LeftMs == 0 {
		a.Waiting = row.Tasks
	}
	for _, t := range rows {
		state := t.State
		if t.LeftMs != 0 {
			state = "left"
		}
		if !seen[t.Task] && t.User == row.User { // else an earlier array had the id
			tasks[state] = append(tasks[state], int32(t.Task))
		}
		seen[t.Task] = true
	}
	for _, state := range slices.Sorted(maps.Keys(tasks)) {
		slices.Sort(tasks[state])
		a.Tasks = append(a.Tasks, TasksIn{State: state, Count: len(tasks[state]), Tasks: slurmplug.CompactTasks(tasks[state])})
	}
	return a, nil
}

func hasTask(tasks string, task int32) bool {
	all, err := slurmplug.ExpandTasks(tasks)
	if err != nil {
		return false
	}
	return slices.Contains(all, task)
}

func (r *Reader) story(ctx context.Context, tx *sql.Tx, row *db.Job, most int) (s Story, err error) {
	s.Job, s.Moment = showJob(row), r.at
	id := s.Job.ID
	if s.Start, err = r.startOf(ctx, tx, row); err != nil {
		return s, err
	}
	if s.Share, err = r.shareOfJob(ctx, tx, row.Job); err != nil {
		return s, err
	}
	decisions, err := r.q.DecisionsOfJob(ctx, tx, db.DecisionsOfJobParams{Job: row.Job, Most: int64(most)})
	if err != nil {
		return s, err
	}
	for i := range decisions {
		s.Decisions = append(s.Decisions, *showDecision(&decisions[i], id))
	}
	if len(s.Decisions) > 0 {
		s.Decision = &s.Decisions[0]
	}
	if s.Writes, err = r.writes(ctx, tx, row, most); err != nil {
		return s, err
	}
	if s.Stays, err = r.stays(ctx, tx, row, most); err != nil {
		return s, err
	}
	if row.LeftMs == 0 {
		var last *db.Decision
		if len(decisions) > 0 {
			last = &decisions[0]
		}
		known, err := r.q.HistoryOf(ctx, tx, db.HistoryOfParams{ID: row.ID, Task: row.Task})
		switch {
		case err == nil:
			s.Known = showKnown(last, &known)
		case errors.Is(err, sql.ErrNoRows):
			s.Known = showKnown(last, nil)
		default:
			return s, err
		}
	}
	return s, nil
}

// writes are those to the job's own record and, for a task, those that reached
// it while it was part of its array.
func (r *Reader) writes(ctx context.Context, tx *sql.Tx, row *db.Job, most int) ([]Write, error) {
	id := jobID(row.ID, row.Task)
	own, err := r.q.WritesOfJob(ctx, tx, db.WritesOfJobParams{Job: row.Job, Most: int64(most)})
	if err != nil {
		return nil, err
	}
	var all []Write
	for i := range own {
		all = append(all, showWrite(&own[i], id, ""))
	}
	if id.Task == slurmplug.NoTask {
		return all, nil
	}
	array := slurmplug.Plain(id.ID)
	of, err := r.q.LatestJob(ctx, tx, db.LatestJobParams{ID: int64(array.ID), Task: int64(array.Task)})
	if errors.Is(err, sql.ErrNoRows) || err == nil && of.User != row.User {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	shared, err := r.q.WritesOfJob(ctx, tx, db.WritesOfJobParams{Job: of.Job, Most: int64(most)})
	for i := range shared {
		if hasTask(shared[i].Tasks, id.Task) {
			all = append(all, showWrite(&shared[i], array, ""))
		}
	}
	slices.SortStableFunc(all, func(a, b Write) int { return b.At.Compare(a.At) })
	return all[:min(len(all), most)], err
}

func (r *Reader) stays(ctx context.Context, tx *sql.Tx, row *db.Job, most int) ([]Stay, error) {
	rows, err := r.q.IntervalsOfJob(ctx, tx, db.IntervalsOfJobParams{Job: row.Job, Most: int64(most)})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	last, err := r.q.LastCycle(ctx, tx)
	if err != nil {
		return nil, err
	}
	return each(rows, func(r *db.Interval) Stay {
		stay := intervalOf(r, cluster.JobID{}, last.UntilMs)
		return Stay{stay, stay.GPUSeconds()}
	}), nil
}

// Last is the number of the last cycle that the row stands for.
func (c *Cycle) Last() int64 { return c.Number + int64(max(c.Polls, 1)) - 1 }

func showCycle(r *db.Cycle) Cycle {
	return Cycle{
		Number: r.Cycle, At: instant(r.AtMs), Until: instant(r.UntilMs), Polls: int(r.Polls), Cluster: r.Cluster,
		Mode: slurmplug.Lever(r.Mode), BandLo: r.BandLo, BandHi: r.BandHi, BandStep: r.BandStep, Span: r.Span,
		Jobs: int(r.Jobs), Pending: int(r.Pending), Running: int(r.Running), Nodes: int(r.Nodes),
		Ranked: int(r.Ranked), TE: int(r.Te), Actions: int(r.Actions), Renumbered: int(r.Renumbered),
		Hold: r.Hold, Notes: notesOf(r.Notes),
	}
}

func showJob(r *db.Job) Job {
	j := jobOf(r)
	out := Job{
		ID: j.ID, RawID: j.RawID, Tasks: j.Tasks, TaskCount: j.TaskCount, HetLeader: j.HetLeader, HetOffset: j.HetOffset,
		User: j.User, Account: j.Account, Partition: j.Partition, QOS: j.QOS, Reservation: j.Reservation,
		State: r.State, Reason: j.Reason, Priority: j.Priority, Nice: j.Nice, Restarts: j.Restarts,
		Nodes: j.Nodes, CPUs: j.CPUs, MemMB: j.MemMB, GPUs: j.GPUs, GPUType: j.GPUType, Features: j.Features,
		Prefer: j.Prefer, NodeList: j.NodeList, TimeLimitS: r.TimeLimitMs / 1000,
		Submit: j.Submit, FirstSubmit: instant(r.FirstSubmitMs), Eligible: j.Eligible, Start: j.Start,
		Dependency: j.Dependency, Tag: j.TagText, Said: j.Tag, TagError: j.TagErr,
		Seen: instant(r.SeenMs), Changed: instant(r.ChangedMs), Left: instant(r.LeftMs),
	}
	if r.TimeLimitMs < 0 {
		out.TimeLimitS = -1
	}
	if j.SiteFactorKnown {
		out.SiteFactor = &j.SiteFactor
	}
	return out
}

func showDecision(r *db.Decision, id cluster.JobID) *Decision {
	decision, data := decisionOf(r, id)
	d := &Decision{Decision: decision, Cycle: r.Cycle, At: instant(r.AtMs)}
	if c := d.Choices.GPUType; c != nil {
		d.Steer = cmp.Or(d.Steer, c.Words())
	}
	if data {
		d.Detail = Detail(&d.Decision, d.At)
	}
	return d
}

// Detail is all that is said of a decision but the job's type, in one line, of one that was made at a time.
func Detail(d *plan.Decision, at time.Time) string {
	c, parts := &d.Choices, make([]string, 0, 6)
	if b := c.Budget; b != nil && d.Why == string(plan.OverBudget) {
		parts = append(parts, b.Words())
	} else if b.Beyond() {
		parts = append(parts, "over budget: "+b.Words())
	}
	if c.Part != nil {
		parts = append(parts, c.Part.Words())
	}
	parts = append(parts, d.Words())
	if c.Eviction != nil {
		parts = append(parts, evict.Words(c.Eviction, at))
	}
	if c.Switches != nil {
		parts = append(parts, c.Switches.Words())
	}
	if c.Refused != nil {
		parts = append(parts, c.Refused.Words())
	}
	return plan.Joined(parts...)
}

func showWrite(r *db.Write, id cluster.JobID, user string) Write {
	return Write{
		Outcome: plan.Outcome{Action: actionOf(r, id), Status: slurmplug.Status(r.Status), Message: r.Message},
		User:    user, Cycle: r.Cycle, At: instant(r.AtMs),
	}
}

// showKnown takes a job's last decision and its row of history, nil for none.
func showKnown(d *db.Decision, r *db.History) *Known {
	switch {
	case r != nil:
		return &Known{
			FirstEligible: instant(r.FirstEligibleMs), Counted: r.Counted, Lever: slurmplug.Lever(r.Lever),
			Value: r.Value, Tried: r.Tried, UserNice: r.Original, Written: instant(r.WrittenMs), Reverts: int(r.Reverts),
		}
	case d != nil:
		return &Known{FirstEligible: instant(d.SinceMs), Counted: d.Counted}
	}
	return nil
}

// Trial is what the cycle noted of a trial; "": none was on.
func (c *Cycle) Trial() string {
	for _, n := range c.Notes {
		if strings.HasPrefix(n, trial.WordsBegin) || strings.HasPrefix(n, trial.EndedBegins) {
			return n
		}
	}
	return ""
}

// JobTimes are those of a GPU job from its submission to its end, with its runs summed up.
type JobTimes struct {
	Job       cluster.JobID
	Tasks     int // that the record stands for
	Tag       jobtag.Text
	Class     string        // te or be, as it counted when it first ran; "" before
	Submit    time.Time     // first one
	Ready     time.Time     // since when it could have run, in Submit's place for waits
	Start     time.Time     // of its first run
	End       time.Time     // of its last run, as far as polls saw it
	LastStart time.Time     // of its last run
	Ran       time.Duration // in all of its runs
	Left      time.Time     // the queue; zero while it is there
	User      string
	Account   string
	Limit     time.Duration // below 0: none
	GPUs      int
	Why       string // of the last decision, as plan.Reason, with its detail; "": none
	Detail    string
}

// readyOf is since when a job could have run, from which each report and page counts its wait, as replays of accounting do: what a
// user delays by --begin or a dependency is no wait. It is the first time at which priod found it eligible, else Slurm's
// eligible time unless a later run has changed that, else its submission.
func readyOf(submit, eligible, since, start int64) time.Time {
	for _, at := range []int64{since, eligible} {
		if at > 0 && (start == 0 || at <= start) {
			return instant(max(at, submit))
		}
	}
	return instant(submit)
}

// JobsSince returns the GPU jobs that were submitted since a time and seen by a
// poll.
func (r *Reader) JobsSince(ctx context.Context, since time.Time) ([]JobTimes, error) {
	query := func(tx *sql.Tx) ([]db.JobsSinceRow, error) { return r.q.JobsSince(ctx, tx, millis(since)) }
	return list(ctx, r, query, func(x *db.JobsSinceRow) JobTimes {
		last := showDecision(&db.Decision{Why: x.Why, Detail: x.Detail, Choices: x.Choices}, jobID(x.ID, x.Task))
		return JobTimes{
			Job: jobID(x.ID, x.Task), Tasks: int(x.TaskCount), Tag: jobtag.Read(x.Tag), Class: x.Class, Submit: instant(x.FirstSubmitMs),
			Ready: readyOf(x.FirstSubmitMs, x.EligibleMs, x.SinceMs, x.StartMs), Start: instant(x.StartMs), End: instant(x.EndMs), Ran: time.Duration(x.RanMs) * time.Millisecond, Left: instant(x.LeftMs),
			LastStart: instant(x.LastMs), Account: x.Account, Limit: time.Duration(x.TimeLimitMs) * time.Millisecond,
			User: x.User, GPUs: int(x.Gpus), Why: x.Why, Detail: last.Detail,
		}
	})
}
