package virtual

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// slurm is the virtual cluster behind plan.Slurm. The snapshot stays in place
// and changes with the jobs, so that a cycle costs what the policies cost.
type slurm struct {
	idle      *cycle.IdleJobs // of a daemon that looks at no job yet
	e         *engine
	snapshot  cluster.Snapshot
	nodes     []cluster.Node // all, also those that have not joined yet
	anywhere  string         // partitions of a job with GPUs that names none, on a divided cluster
	recorder  Recorder
	ordersTE  bool   // nothing else is on, see counts
	jobs      []*job // of the snapshot's rows
	known     map[cluster.JobID]*job
	history   *cluster.History
	ended     map[cluster.JobID]pastRun // jobs that have left the queue, where priod asks for them
	stays     []cluster.PastStay        // runs that have ended, where priod learns from them
	learned   float64                   // when it last did
	taught    int                       // from how many
	halted    map[cluster.JobID]*halt   // jobs that failed, and of which slurmctld still has the record
	asked     []*job                    // whose rows say how they ask, since the last look
	changes   bool                      // since the last cycle
	wrote     bool                      // in the last cycle
	until     time.Time                 // when the last plan may change by the clock alone; zero: never
	left      bool                      // a cycle was left out since the last change
	leftAt    float64
	commanded bool      // since the last cycle, by evictions
	tending   bool      // in the agenda
	calling   bool      // in the agenda
	last      float64   // cycle
	calls     []float64 // cycles that were brought forward within the last minute
}

// record is what Slurm holds of a job beside what the scheduler needs.
type record struct {
	id       cluster.JobID
	site     int64
	features string  // the node feature that it is bound to; "": none
	excluded []int32 // nodes that it refuses
	row      int     // in slurm.jobs; -1 before the job is known
}

// holds reports whether a job has GPUs.
func (j *job) holds() bool { return j.state == running || j.state == leaving || j.state == closing }

func (j *job) pending() bool { return j.state == waiting || j.state == delayed }

// Partition is the only one of jobs with GPUs, and has all nodes, where the cluster is not divided.
const Partition = "virtual"

// Epoch is second 0 of a trace where Options.Origin is left open; any fixed time will do.
var Epoch = time.Unix(1_700_000_000, 0).UTC()

// instant is a second of the trace as a time.
func (e *engine) instant(seconds float64) time.Time {
	return e.opt.Origin.Add(time.Duration(seconds * float64(time.Second)))
}

func newSlurm(e *engine) *slurm {
	s := &slurm{e: e, history: cluster.NewHistory(), known: map[cluster.JobID]*job{}, halted: map[cluster.JobID]*halt{}}
	s.snapshot = cluster.Snapshot{Cluster: "virtual", Multifactor: cluster.Multifactor{Span: e.factors.span()}}
	groups := e.groups()
	if e.divided {
		s.snapshot.Partitions, s.anywhere = e.partitions()
	}
	for n := range e.nodes.Len() {
		size := e.nodes.Size(int32(n))
		s.nodes = append(s.nodes, cluster.Node{
			Name: "n" + strconv.Itoa(n), GPUType: e.types[e.nodes.Type(int32(n))], Features: s.featuresOf(int32(n), groups[n]),
			GPUs: int(size.GPUs), CPUs: int(size.CPUs), MemMB: size.MemMB, Partitions: []string{Partition},
		})
		if e.divided {
			s.nodes[n].Partitions = groups[n].Partitions
		}
	}
	set := &e.opt.Daemon.Settings
	set.Sizing.Slurm, set.Steering.Slurm, set.Locality.Slurm = s, s, s
	set.Refusals.Slurm = s
	if s.recorder = (memory{}); e.opt.Daemon.Record != nil {
		s.recorder, s.history = e.opt.Daemon.Record(s), e.opt.Daemon.History
	}
	set.Evictions.Slurm, set.Evictions.Recorder, set.Evictions.Now = s, s.recorder, s.now
	set.Retries.Slurm, set.Retries.Recorder = s, s.recorder
	set.Headroom.Slurm = s
	set.Windows.Slurm = s
	set.Idle.Slurm, set.Idle.Recorder = s, s.recorder
	s.idle, set.Idle.Memory = set.Idle.Memory, nil
	d := &e.opt.Daemon
	s.ordersTE = d.Settings.OrdersTEAlone() && d.Learn == nil && d.Seen == nil && d.Record == nil && d.Off == nil && !d.Every
	if s.evicts() || s.classifies() {
		s.ended = map[cluster.JobID]pastRun{}
	}
	return s
}

// share is what a waiting job asks for, on the first type that it may have.
func (s *slurm) share(j *job) placement.Amount {
	for n := range int32(s.e.nodes.Len()) {
		if j.request.Types.Has(s.e.nodes.Type(n)) {
			return s.e.nodes.Need(j.request, j.request.GPUs, n)
		}
	}
	return j.request.Amount
}

// Observe returns the snapshot, which is valid until time advances.
func (s *slurm) Observe(context.Context) (cluster.Snapshot, error) {
	e := s.e
	s.snapshot.At = e.instant(e.now)
	for _, j := range s.asked {
		if j.row >= 0 && j.row < len(s.jobs) && s.jobs[j.row] == j {
			s.snapshot.Jobs[j.row].Asked = nil
		}
	}
	s.asked = s.asked[:0]
	absentees := false
	for i := range s.nodes {
		n, free := &s.nodes[i], e.nodes.FreeOn(int32(i))
		n.Usable, n.State = e.out[i] == 0, "UP"
		absentees = absentees || e.out[i]&absent != 0
		switch why := e.out[i]; {
		case why&broken != 0:
			n.State = "DOWN"
		case !n.Usable:
			n.State = "UP+DRAIN"
		case e.reserves(cluster.HeadroomReservation, int32(i)):
			n.State += cluster.StateHeadroom
		case e.reserves(maintenance, int32(i)):
			n.Usable, n.State = false, "UP+MAINTENANCE"
		case e.nodes.Down(int32(i)):
			n.State = "UP+RESERVED"
		}
		n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUs-int(free.GPUs), n.CPUs-int(free.CPUs), n.MemMB-free.MemMB
	}
	s.snapshot.Windows = s.windows()
	s.setBeyond()
	if s.snapshot.Nodes = s.nodes; absentees { // of which Slurm knows nothing yet
		s.snapshot.Nodes = nil
		for i := range s.nodes {
			if e.out[i]&absent == 0 {
				s.snapshot.Nodes = append(s.snapshot.Nodes, s.nodes[i])
			}
		}
	}
	return s.snapshot, nil
}

// Apply writes as scontrol does: at once, and the scheduler looks again.
func (s *slurm) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	outcomes := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		outcomes[i] = plan.Outcome{Action: a, Status: slurmplug.Applied}
		if err := s.apply(a); err != nil {
			outcomes[i].Status, outcomes[i].Message = slurmplug.Refused, err.Error()
		}
	}
	return outcomes
}

func (s *slurm) apply(a plan.Action) error {
	j := s.known[a.Job]
	if j == nil {
		return fmt.Errorf("invalid job id %s", a.Job)
	}
	write := map[slurmplug.Lever]func(*job, slurmplug.Value) error{slurmplug.Size: s.resize, slurmplug.Features: s.constrain, slurmplug.PartitionList: s.assign, slurmplug.Switches: s.limitSwitches, slurmplug.ExcNodeList: s.refuse, slurmplug.StartTime: s.beginAt, slurmplug.TimeLimit: s.limit}[a.Lever]
	if write != nil {
		err := write(j, a.After)
		s.changed(j)
		return err
	}
	if a.Lever != slurmplug.SiteFactor || !a.After.IsNumber() {
		return fmt.Errorf("the virtual Slurm has no %s=%.40q", a.Lever, a.After)
	}
	j.site = a.After.Number()
	if k := s.e.place(j); j.state == waiting && k != j.key {
		s.e.queue.remove(j)
		j.key = k
		s.e.enqueue(j)
		s.e.moved = true
	}
	s.changed(j)
	return nil
}

// change takes down that something will change. The history then sees how it was at the
// last cycle that was left out: until then those ran whose run ends now.
func (s *slurm) change() {
	if s == nil {
		return
	}
	if s.left {
		s.snapshot.At, s.left = s.e.instant(s.leftAt), false
		s.history.Observe(&s.snapshot)
	}
	s.changes = true
}

// changed brings a job's row up to date, and adds it for a new job.
func (s *slurm) changed(j *job) {
	if s == nil {
		return
	}
	if j.row < 0 && !s.counts(j) {
		return
	}
	s.change()
	if j.row < 0 {
		j.row = len(s.jobs)
		s.jobs = append(s.jobs, j)
		s.known[j.id] = j
		s.snapshot.Jobs = append(s.snapshot.Jobs, s.describe(j))
		s.watchWork(j)
	}
	s.refresh(j)
}

// counts reports whether a job can change what the daemon decides. Where nothing but the order of TE
// jobs is on, others keep Slurm's own order and take part in nothing.
func (s *slurm) counts(j *job) bool { return !s.ordersTE || j.Class == cluster.TE && !j.Untagged }

func (s *slurm) refresh(j *job) {
	row := &s.snapshot.Jobs[j.row]
	row.Priority, row.SiteFactor = s.e.shown(j), j.site
	row.Restarts = int(j.runs)
	row.Start, row.GPUType, row.Reason = time.Time{}, j.GPUType, ""
	row.SiteFactorKnown = j.state == waiting
	row.Switches = s.switches(j)
	row.Admitted = false
	if s.e.divided {
		row.Partition = s.partition(j)
	}
	row.Features, row.NodeList, row.CPUs, row.MemMB = j.features, "", int(j.request.CPUs), j.request.MemMB
	row.Parts = nil
	if j.holds() {
		row.NodeList, row.Parts = s.nodeList(j), parts(j)
		row.CPUs, row.MemMB = 0, 0
		for _, share := range j.shares {
			row.CPUs, row.MemMB = row.CPUs+int(share.CPUs), row.MemMB+share.MemMB
		}
	}
	switch j.state {
	case waiting:
		if row.State, row.Reason = cluster.Pending, "Priority"; s.e.unsatisfied(j) {
			row.Reason = "BadConstraints"
		}
		row.Eligible = s.e.instant(j.since)
	case delayed:
		row.State, row.Reason = cluster.Pending, "BeginTime"
		row.Eligible = s.e.instant(j.eligible)
	case running, leaving:
		row.State, row.Start = cluster.Running, s.e.instant(j.start)
		row.Restarts--
		if j.GPUs > 0 {
			row.GPUType = s.e.types[s.e.nodes.Type(j.shares[0].Node)]
		}
	case closing:
		row.State, row.Start = cluster.Completing, s.e.instant(j.start)
		row.Restarts--
	case exited: // squeue lists it no more; the store would remember what was written into it
		row.State, row.Start = cluster.Completing, s.e.instant(j.start)
		row.Restarts--
	}
}

// describe is what a job's row says all its life.
func (s *slurm) describe(j *job) cluster.Job {
	limit := j.Limit
	if limit == 0 {
		limit = s.e.occupies(j)
	}
	o, tag := &s.e.opt, jobtag.Tag{Workload: j.Workload, Steps: j.Steps, Retry: j.Retry}
	if !j.Untagged {
		tag.Type = j.Class.String()
	}
	tag.Grace = time.Duration(cmp.Or(j.Grace, o.Grace) * float64(time.Second))
	if tag.Ckpt = time.Duration(cmp.Or(j.Ckpt, o.Checkpoint) * float64(time.Second)); tag.Ckpt == 0 {
		tag.Signal = "TERM" // then it saves its state
	}
	text, _ := jobtag.Encode(tag)
	if j.NoTag {
		tag, text = jobtag.Tag{}, ""
	}
	return cluster.Job{
		ID: j.id, RawID: rawID(j), TaskCount: 1,
		User: j.User, Account: j.Account, QOS: j.QOS, Partition: s.partition(j), Name: j.Workload, // as people name their jobs
		Nodes: j.Nodes, GPUs: j.GPUs,
		TimeLimit: time.Duration(limit * float64(time.Second)), Submit: s.e.instant(j.Submit), Tag: tag, TagText: text,
	}
}

// holdsBack reports whether a submission is held back for priod's first look: where it may be given a GPU type, by
// its tag or by the site's consent, and is no TE job.
func (s *slurm) holdsBack(j *job) bool {
	if s == nil || j.GPUs == 0 || j.GPUType != "" {
		return false
	}
	row := s.describe(j)
	s.e.opt.Daemon.Settings.Consent.Complete(&row)
	return row.AllowsGPUType() && row.Tag.Type != "te"
}

// number is a job's id in the snapshot where Options.Number is left open: its place in the order of arrival, from 1.
func number(index int32) cluster.JobID { return slurmplug.Plain(uint32(index) + 1) }

// rawID is an id by which Slurm would find the record of a job.
func rawID(j *job) uint32 {
	if j.id.Task == slurmplug.NoTask {
		return j.id.ID
	}
	return uint32(j.index) + 1
}

// gone takes a job that is over out of the queue.
func (s *slurm) gone(j *job) {
	if s == nil {
		return
	}
	if s.evicts() || s.classifies() && j.ending.Failed() {
		s.ended[j.id] = s.pastOf(j)
	}
	s.remove(j)
}

// remove removes a job's row.
func (s *slurm) remove(j *job) {
	if j.row < 0 {
		return
	}
	s.change()
	if watch := &s.e.opt.Daemon.Settings.Waits; watch.Tracker != nil && j.GPUs > 0 && j.cycles == s.e.cycles && len(j.shares) > 0 { // accounting tells of it
		stay := cluster.Stay{
			Job: j.id, Start: s.e.instant(j.start), End: s.e.instant(s.e.now), Closed: true, GPUs: j.GPUs, GPUType: s.e.types[s.e.nodes.Type(j.shares[0].Node)],
			User: j.User, Account: j.Account, Class: j.Class,
		}
		watch.Unseen = append(watch.Unseen, stay)
		if told := s.e.opt.Daemon.Unseen; told != nil {
			told(stay)
		}
	}
	delete(s.known, j.id)
	last := len(s.jobs) - 1
	s.jobs[j.row], s.snapshot.Jobs[j.row] = s.jobs[last], s.snapshot.Jobs[last]
	s.jobs[j.row].row = j.row
	s.jobs[last], s.snapshot.Jobs[last] = nil, cluster.Job{}
	s.jobs, s.snapshot.Jobs = s.jobs[:last], s.snapshot.Jobs[:last]
	j.row = -1
}

// reread takes in new priorities.
func (s *slurm) reread() {
	for _, j := range s.jobs {
		was := s.snapshot.Jobs[j.row].Priority
		s.refresh(j)
		s.changes = s.changes || j.pending() && s.snapshot.Jobs[j.row].Priority != was
	}
}

// cycle is priod's turn, unless it would be as the last one.
func (e *engine) cycle() error {
	e.cycling = false
	if err := e.step(); err != nil {
		return err
	}
	if e.inSystem > 0 {
		e.wake()
	}
	return nil
}

// called is a cycle that a TE submission has brought forward.
func (e *engine) called() error {
	e.slurm.calling = false
	return e.step()
}

// call wakes priod for a TE submission, as sbatchwrap does.
func (s *slurm) call(j *job) {
	if s == nil || j.Class != cluster.TE || s.calling || s.e.opt.Daemon.Calls == 0 {
		return
	}
	now := s.e.now
	s.calls = slices.DeleteFunc(s.calls, func(at float64) bool { return at <= now-60 })
	at := max(now, s.last+soonest)
	if len(s.calls) >= s.e.opt.Daemon.Calls || at >= next(now, s.e.opt.Daemon.Interval.Seconds()) {
		return
	}
	s.calls, s.calling = append(s.calls, at), true
	s.e.agenda.push(event{at: at, kind: called})
}

// soonest is how long after a cycle the next one comes at the earliest, s.
const soonest = 2

// step is one cycle, unless it would be as the last one.
func (e *engine) step() error {
	s := e.slurm
	s.learn()
	if d := &e.opt.Daemon; d.Off != nil {
		off := d.Off(e.instant(e.now))
		s.changes = s.changes || off != d.Settings.Off
		d.Settings.Off = off
	}
	if !e.opt.Daemon.Every && s.still() {
		s.left, s.leftAt = true, e.now
	} else if s.ordersTE && !slices.ContainsFunc(s.jobs, s.unranked) { // use of TE budgets alone may have changed
		s.changes, s.left, s.wrote, s.until = false, false, false, time.Time{}
		if _, err := s.Observe(e.ctx); err != nil {
			return err
		}
		s.history.Observe(&s.snapshot)
	} else {
		s.changes, s.left, s.commanded = false, false, false
		result, err := cycle.Step(e.ctx, s, s.recorder, s.history, e.opt.Daemon.Settings)
		if err != nil {
			return fmt.Errorf("priod's cycle at %v s: %w", e.now, err)
		}
		if seen := e.opt.Daemon.Seen; seen != nil {
			seen(&result)
		}
		s.wrote, s.until = len(result.Outcomes) > 0, result.Plan.Until
		s.lookAgain()
		s.settle()
		s.watch()
	}
	s.last = e.now
	e.cycles++
	return nil
}

// unranked reports whether a job waits, or began before a cycle saw it, so that the next one says whether a budget holds it.
func (s *slurm) unranked(j *job) bool {
	if j.pending() || j.state != running || j.GPUs == 0 || s.e.opt.Daemon.Settings.Order.Settings.Ranking.Boundless() {
		return j.pending()
	}
	_, ranked := s.history.Counted.Find(j.id)
	return !ranked
}

// still reports whether a turn would decide what the last one did, and leave behind what that left: nothing has changed since
// it, it wrote nothing, and no budget, share or size goes by the clock for a job that waits, before the time until which its
// plan stands.
func (s *slurm) still() bool {
	if s.changes || s.wrote || s.commanded || s.tending || s.judges() || !s.until.IsZero() && !s.e.instant(s.e.now).Before(s.until) {
		return false
	}
	if !slices.ContainsFunc(s.jobs, (*job).pending) {
		return true
	}
	set := &s.e.opt.Daemon.Settings
	r, trials := &set.Order.Settings.Ranking, func(j *job) bool { return j.pending() && j.Class == cluster.TE }
	timed := func(b plan.Budget) bool { return b.GPUHours > 0 || b.TimeLimit > 0 } // a running job without a limit outlives it
	byTheClock := set.Evictions.Settings.Enabled || timed(r.User) || timed(r.Account) || len(r.Users)+len(r.Accounts) > 0
	return !(byTheClock && slices.ContainsFunc(s.jobs, trials)) && !s.sizesDue() && !(s.steers() && s.unsettled())
}

// sizesDue reports whether sizes may change by the clock alone.
func (s *slurm) sizesDue() bool {
	z, now := s.e.opt.Daemon.Settings.Sizing.Sizes, s.e.instant(s.e.now)
	begins := func(j *job) bool { return j.state == delayed && s.e.instant(j.eligible).Sub(now) > 0 }
	return z.Enabled() && (z.Due(now) || slices.ContainsFunc(s.jobs, begins))
}

// unsettled reports whether a job waits for its begin time, which is looked at a while
// before it comes, or an eviction is under way.
func (s *slurm) unsettled() bool {
	journal := s.e.opt.Daemon.Settings.Evictions.Journal
	return slices.ContainsFunc(s.jobs, func(j *job) bool { return j.state == delayed }) || journal != nil && len(journal.Urgent()) > 0
}

// evicts reports whether the daemon may have jobs leave.
func (s *slurm) evicts() bool {
	e := &s.e.opt.Daemon.Settings.Evictions
	return e.Journal != nil && (e.Settings.Enabled || s.e.opt.Daemon.Settings.Windows.Settings.Enabled || e.Rounds != nil && e.Settings.Rounds.Enabled)
}

// memory is a Recorder for a run that is not looked up: the outcomes are the record.
type memory struct{}

func (memory) Observed(context.Context, *cluster.Snapshot, func() []cluster.Stay) {}
func (memory) Planned(context.Context, plan.Seen) error                           { return nil }
func (memory) Done(context.Context, []plan.Outcome) error                         { return nil }

// SaveFailures has nothing to keep: priod's memory of them itself is.
func (memory) SaveFailures(context.Context, *cycle.Failures) error { return nil }

// SaveSpells has nothing to keep either.
func (memory) SaveSpells(context.Context, cycle.Spells) error { return nil }

// SaveEvictions has nothing to keep: the journal itself is.
func (memory) SaveEvictions(context.Context, *cycle.Evictions) error { return nil }
