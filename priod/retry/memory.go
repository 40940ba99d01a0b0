package retry

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Keep is how long failures are remembered: limits, repetitions and suspect nodes need them.
const Keep = 7 * 24 * time.Hour

// State is where a failure stands.
type State string

// The states of a failure.
const (
	Noted    State = "noted"    // nothing is to be done any more
	Delayed  State = "delayed"  // to be requeued as soon as the caps allow it
	Recorded State = "recorded" // the command is about to be sent, or was, with no answer
	Requeued State = "requeued" // in the queue again
)

// Failure is one run of a job that failed, and what became of the job.
type Failure struct {
	Number   int64         `json:"failure"`
	Job      cluster.JobID `json:"job"`
	RawID    uint32        `json:"raw_id"`
	User     string        `json:"user"`
	Start    time.Time     `json:"start"` // with Restarts: the run
	End      time.Time     `json:"end"`
	Restarts int           `json:"restarts"`
	GPUs     int           `json:"gpus"`
	Nodes    []string      `json:"nodes,omitempty"`
	Fault    []string      `json:"fault,omitempty"` // those that it is blamed on
	Final    string        `json:"final"`           // Slurm's state
	ExitCode int           `json:"exit_code"`
	Signal   int           `json:"signal"`

	Class     string    `json:"class"`
	Means     string    `json:"means,omitempty"` // the class's text
	Rule      string    `json:"rule"`
	Signature string    `json:"signature"`
	Line      string    `json:"line,omitempty"`  // of the output
	Output    plan.Mark `json:"output,omitzero"` // where that ended; zero: it was not read
	Free      bool      `json:"free,omitempty"`
	AskedMB   int64     `json:"asked_mb,omitempty"`
	PeakMB    int64     `json:"peak_mb,omitempty"`
	Advice    string    `json:"advice,omitempty"`

	Retry string        `json:"retry,omitempty"` // what its tag says
	Do    Do            `json:"do"`
	Why   Why           `json:"why"`
	Wait  time.Duration `json:"wait_ns,omitempty"`

	State    State     `json:"state"`
	Message  string    `json:"message,omitempty"` // Slurm's words when it refused
	Tries    int       `json:"tries,omitempty"`
	Own      string    `json:"own,omitempty"`     // the nodes that its user refuses, as a host list
	Exclude  string    `json:"exclude,omitempty"` // those that it refuses by priod; "": as Own
	Told     bool      `json:"told,omitempty"`    // Slurm took Exclude
	At       time.Time `json:"at"`
	Requeued time.Time `json:"requeued,omitzero"` // Slurm took the requeue, or may have
}

// Open reports whether something is still to be done.
func (f *Failure) Open() bool { return f.State != Noted }

// Runs reports whether a sight is of the run that failed.
func (f *Failure) Runs(s *plan.JobStatus) bool {
	return s.IsRun(f.Start, f.Restarts)
}

// Drained is a node that was taken out of use.
type Drained struct {
	Node  string    `json:"node"`
	Class string    `json:"class"`
	At    time.Time `json:"at"`
}

// Changes is what a step of the feature comes to: rows to be saved before commands go out.
type Changes struct {
	Failures []Failure
	Drained  []Drained
}

// Empty reports whether there is nothing to save.
func (t *Changes) Empty() bool { return len(t.Failures)+len(t.Drained) == 0 }

// Memory is what is known of past failures, and of the jobs in the queue.
type Memory struct {
	Failures []Failure // by number
	Drained  []Drained
	Last     int64 // the last number given

	queue queue                         // as the last snapshot showed it
	spare queue                         // the one before, whose memory the next one takes
	ended []cluster.Job                 // to be looked at, the oldest first
	left  map[cluster.JobID]cluster.Job // the jobs of open rows, as they were

	limits map[cluster.JobID]cluster.Requested // time limits that an earlier process wrote
}

// NewMemory returns one that knows nothing.
func NewMemory() *Memory { return &Memory{} }

// Update takes over rows that have been saved.
func (m *Memory) Update(t *Changes) {
	for _, f := range t.Failures {
		if old := m.Failure(f.Number); old != nil {
			*old = f
			continue
		}
		m.Failures = append(m.Failures, f)
		m.Last = max(m.Last, f.Number)
	}
	m.Drained = append(m.Drained, t.Drained...)
}

// Failure returns the one with a number; nil when it is not known.
func (m *Memory) Failure(number int64) *Failure {
	i, known := slices.BinarySearchFunc(m.Failures, number, func(f Failure, n int64) int { return cmp.Compare(f.Number, n) })
	if !known {
		return nil
	}
	return &m.Failures[i]
}

// KeepOthers is how long failures of jobs are remembered whose users agreed to nothing: only suspect nodes need them.
const KeepOthers = 24 * time.Hour

// Forget drops what is done and older than Keep or KeepOthers.
func (m *Memory) Forget(now time.Time) {
	before, others := now.Add(-Keep), now.Add(-KeepOthers)
	m.Failures = slices.DeleteFunc(m.Failures, func(f Failure) bool {
		return !f.Open() && (f.At.Before(before) || f.Retry == "" && f.At.Before(others))
	})
	for id := range m.left {
		if !slices.ContainsFunc(m.Failures, func(f Failure) bool { return f.Job == id && f.Open() }) {
			delete(m.left, id)
		}
	}
	m.Drained = slices.DeleteFunc(m.Drained, func(d Drained) bool { return d.At.Before(before) })
}

// Of returns the failures of a job, the oldest first. Ids come again: those of a run that
// had no fewer restarts than this one are another job's.
func (m *Memory) Of(id cluster.JobID, user string, restarts int) (past []Failure) {
	for i := range m.Failures {
		if f := &m.Failures[i]; f.Job == id && cluster.SameUser(f.User, user) && f.Restarts < restarts {
			past = append(past, *f)
		}
	}
	return past
}

// marks are the places in outputs where the last runs of jobs before these ended.
func (m *Memory) marks(sights map[cluster.JobID]plan.JobStatus, was map[cluster.JobID]*cluster.Job) map[cluster.JobID]plan.Mark {
	marks := map[cluster.JobID]plan.Mark{}
	for id, s := range sights {
		for _, f := range m.Of(id, was[id].User, s.Restarts) {
			if f.Output != (plan.Mark{}) {
				marks[id] = f.Output
			}
		}
	}
	return marks
}

// Knows reports whether a run has its row.
func (m *Memory) Knows(s *plan.JobStatus) bool {
	return slices.ContainsFunc(m.Failures, func(f Failure) bool { return f.Job == s.ID && f.Runs(s) })
}

// ofRun is the row of the run that a row is about; nil when there is none.
func (m *Memory) ofRun(row *Failure) *Failure {
	for i := range m.Failures {
		if f := &m.Failures[i]; f.Job == row.Job && f.Start.Equal(row.Start) && f.Restarts == row.Restarts {
			return f
		}
	}
	return nil
}

// requeuedSince counts requeues since a time, all and those of a user's jobs.
func (m *Memory) requeuedSince(since time.Time, user string) (all, own int) {
	for i := range m.Failures {
		if f := &m.Failures[i]; f.Requeued.After(since) {
			all++
			if f.User == user {
				own++
			}
		}
	}
	return all, own
}

// Room reports whether the caps of the last hour allow one more requeue of a user's job, beside those that are about to be sent.
func (m *Memory) Room(set *Settings, now time.Time, user string, about map[string]int) bool {
	all, own := m.requeuedSince(now.Add(-time.Hour), user)
	for _, n := range about {
		all += n
	}
	own += about[user]
	return (set.PerHour == 0 || all < set.PerHour) && (set.PerUser == 0 || own < set.PerUser)
}

// maxEnded is how many jobs wait to be looked at; maxArray how many tasks an array's record may have to be looked at one by one.
const maxEnded, maxArray = 20_000, 10_000

// Recall puts back the queue as an earlier process last saw it, and the time limits that it wrote: what ended meanwhile is looked at.
func (m *Memory) Recall(jobs []cluster.Job, limits map[cluster.JobID]cluster.Requested) {
	m.queue, m.limits = seen(&cluster.Snapshot{Jobs: jobs, Fresh: true}, &cluster.JobMap[*cluster.Job]{}, queue{}), limits
	for i := range jobs {
		if _, written := limits[jobs[i].ID]; written {
			m.queue.jobs.Set(jobs[i].ID, &jobs[i])
		}
	}
}

// cut reports whether a run ended by a time limit of priod's that was shorter than its own: it started after the last cycle of
// an earlier process.
func (m *Memory) cut(s *plan.JobStatus) bool {
	r, written := m.limits[s.ID]
	if !written {
		r = m.limits[slurmplug.Plain(s.ID.ID)]
	}
	own, known := r.Was.Limit()
	return s.Final == "TIMEOUT" && known && (own < 0 || s.TimeLimit < own) && r.Ours(slurmplug.LimitOf(s.TimeLimit))
}

// queue are jobs whose end is to be noticed, by id.
type queue struct {
	jobs cluster.JobMap[*cluster.Job]
	kept []cluster.Job // what jobs point to, where the snapshot does not last
}

// seen are the jobs of a queue whose end is to be noticed: those that run, or did when
// they were last seen, and those whose users agreed; in the memory of now.
func seen(s *cluster.Snapshot, before *cluster.JobMap[*cluster.Job], now queue) queue {
	counts := func(j *cluster.Job) bool {
		if j.State != cluster.Pending || agrees(j) == 1 {
			return true
		}
		was := before.Get(j.ID)
		return was != nil && was.State != cluster.Pending
	}
	now.jobs = cluster.JobMap[*cluster.Job]{}
	clear(now.kept)
	now.kept = now.kept[:0]
	if !s.Fresh {
		n := 0
		for i := range s.Jobs {
			if counts(&s.Jobs[i]) {
				n++
			}
		}
		now.kept = slices.Grow(now.kept, n)
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if !counts(j) {
			continue
		}
		if j.State == cluster.Unread { // it did not end: as it was seen last
			if was := before.Get(j.ID); was != nil {
				last := *was
				now.jobs.Set(j.ID, &last)
			}
			continue
		}
		if !s.Fresh {
			now.kept = append(now.kept, *j)
			j = &now.kept[len(now.kept)-1]
		}
		now.jobs.Set(j.ID, j)
	}
	return now
}

// Observe compares a snapshot with the one before, and keeps in mind which runs have ended: jobs that are gone, and those that were
// put back into the queue by others. What no job agreed to, and began and ended between two, it does not know.
func (m *Memory) Observe(s *cluster.Snapshot) (dropped int) {
	now := seen(s, &m.queue.jobs, m.spare)
	var ended []cluster.Job
	for id, was := range m.queue.jobs.All() {
		is, there := now.jobs.Find(id)
		switch {
		case was.HetLeader != 0:
		case was.Tasks != "":
			ended = append(ended, tasksGone(was, is, &now.jobs)...)
		case !there || inQueueAgain(is) && is.Restarts > was.Restarts:
			ended = append(ended, *was)
		}
	}
	slices.SortFunc(ended, func(a, b cluster.Job) int { return a.ID.Compare(b.ID) })
	m.queue, m.spare, m.ended = now, m.queue, append(m.ended, ended...)
	// Jobs whose users agreed come first: slurmctld forgets them soon.
	slices.SortStableFunc(m.ended, func(a, b cluster.Job) int { return cmp.Compare(agrees(&b), agrees(&a)) })
	if dropped = len(m.ended) - maxEnded; dropped > 0 {
		m.ended = m.ended[:maxEnded]
		return dropped
	}
	return 0
}

// agrees is 1 for a job whose user asked for requeues.
func agrees(j *cluster.Job) int {
	if r := j.Tag.Retry; r == "infra" || r == "always" {
		return 1
	}
	return 0
}

// Waiting are the jobs that are to be looked at.
func (m *Memory) Waiting() []cluster.Job { return m.ended }

// Attends reports whether something is still to be done about a job.
func (m *Memory) Attends(id cluster.JobID) bool {
	return slices.ContainsFunc(m.ended, func(j cluster.Job) bool { return j.ID == id }) ||
		slices.ContainsFunc(m.Failures, func(f Failure) bool { return f.Job == id && f.Open() })
}

// Busy reports whether something is to be done about a job that is not in the queue.
func (m *Memory) Busy() bool {
	return len(m.ended) > 0 || slices.ContainsFunc(m.Failures, func(f Failure) bool { return f.Open() && f.State != Requeued })
}

// looked drops the first n jobs that were to be looked at, but for those that could not be read: these come last.
func (m *Memory) looked(n int, unseen map[cluster.JobID]bool) {
	done := slices.Clone(m.ended[:n])
	m.ended = slices.Delete(m.ended, 0, n)
	for i := range done {
		if unseen[done[i].ID] {
			m.ended = append(m.ended, done[i])
		}
	}
}

// leave keeps in mind what a job was whose row is open.
func (m *Memory) leave(j *cluster.Job) {
	if m.left == nil {
		m.left = map[cluster.JobID]cluster.Job{}
	}
	m.left[j.ID] = *j
}

// expect keeps in mind that a job is in the queue again, should no snapshot show it before it fails again.
func (m *Memory) expect(f *Failure) {
	j, known := m.left[f.Job]
	if !known {
		j = cluster.Job{ID: f.Job, RawID: f.RawID, User: f.User, GPUs: f.GPUs, Nodes: len(f.Nodes), MemMB: f.AskedMB * int64(len(f.Nodes))}
		j.Tag.Retry = f.Retry
	}
	j.State, j.Restarts, j.Start, j.NodeList = cluster.Pending, f.Restarts+1, time.Time{}, ""
	m.queue.jobs.Set(j.ID, &j)
}

// inQueueAgain reports whether a job that Slurm has put back waits, or is still to leave its nodes.
func inQueueAgain(j *cluster.Job) bool {
	return j.State == cluster.Pending || j.State == cluster.Completing
}

// tasksGone are the tasks of an array's record that neither wait in it nor have records of their own any more.
func tasksGone(was, is *cluster.Job, now *cluster.JobMap[*cluster.Job]) (gone []cluster.Job) {
	waiting := ""
	if is != nil {
		waiting = is.Tasks
	}
	if waiting == was.Tasks || was.TaskCount > maxArray {
		return nil
	}
	tasks, err := slurmplug.ExpandTasks(was.Tasks)
	if err != nil {
		return nil
	}
	left, _ := slurmplug.ExpandTasks(waiting)
	waits := make(map[int32]bool, len(left))
	for _, t := range left {
		waits[t] = true
	}
	for _, t := range tasks {
		id := cluster.JobID{ID: was.ID.ID, Task: t}
		if _, own := now.Find(id); own || waits[t] {
			continue
		}
		task := *was
		task.ID, task.Tasks, task.TaskCount = id, "", 1
		gone = append(gone, task)
	}
	return gone
}

// Suspect is a node on which one class of failure came to several users.
type Suspect struct {
	Node     string   `json:"node"`
	Class    string   `json:"class"`
	Users    []string `json:"users"`
	Failures int      `json:"failures"`

	late bool // one of them came later than Settings.Early
}

// Suspects are the nodes on which failures of a class that blames nodes came to as many users as the settings say, fewer where all
// came soon after the start, within their time and since the node was last drained by priod; and three times as often as to all
// nodes together, for each node. nodes is how many there are.
func Suspects(set *Settings, failures []Failure, drained []Drained, nodes int, now time.Time) (suspects []Suspect) {
	type place struct{ node, class string }
	since := now.Add(-set.Within)
	cleared := map[string]time.Time{}
	for _, d := range drained {
		if d.At.After(cleared[d.Node]) {
			cleared[d.Node] = d.At
		}
	}
	found, total := map[place]*Suspect{}, map[string]int{}
	for i := range failures {
		f := &failures[i]
		if class := set.Rules.Classes[f.Class]; class == nil || !class.Suspect || f.End.Before(since) {
			continue
		}
		total[f.Class]++
		for _, n := range f.Fault {
			if !f.End.After(cleared[n]) {
				continue
			}
			p := place{n, f.Class}
			if found[p] == nil {
				found[p] = &Suspect{Node: n, Class: f.Class}
			}
			found[p].Failures++
			found[p].late = found[p].late || f.End.Sub(f.Start) >= set.Early
			if !slices.Contains(found[p].Users, f.User) {
				found[p].Users = append(found[p].Users, f.User)
			}
		}
	}
	for _, x := range found {
		usual := float64(total[x.Class]) / float64(max(nodes, 1))
		enough := set.Users
		if !x.late && set.QuickUsers > 0 {
			enough = min(enough, set.QuickUsers)
		}
		if len(x.Users) >= max(enough, 1) && (nodes == 1 || float64(x.Failures) >= min(3, float64(nodes))*usual) {
			slices.Sort(x.Users)
			suspects = append(suspects, *x)
		}
	}
	slices.SortFunc(suspects, func(a, b Suspect) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Class, b.Class)) })
	return suspects
}

// Quick counts the failures in a row, within a day, that came within Early of the start of a run, of j's user's jobs on as many GPUs as
// j asks for: a resubmitted job is another one to Slurm. A run of that kind that lasted longer ends the row.
func (m *Memory) Quick(set *Settings, h *cluster.History, j *cluster.Job, now time.Time) (n int) {
	since := now.Add(-24 * time.Hour)
	of := func(user string, gpus int) bool { return gpus == j.GPUs && cluster.SameUser(user, j.User) }
	var last []time.Time
	for i := range m.Failures {
		if f := &m.Failures[i]; of(f.User, f.GPUs) && f.End.After(since) {
			if last = append(last, f.End); f.End.Sub(f.Start) >= set.Early {
				last = nil
			}
		}
	}
	if len(last) == 0 {
		return 0
	}
	for _, ended := range []bool{false, true} {
		for s := range h.Stays(ended) {
			if of(s.User, s.GPUs) && s.Length() >= set.Early {
				last = slices.DeleteFunc(last, func(end time.Time) bool { return !end.After(s.End) })
			}
		}
	}
	return len(last)
}

// open are the numbers of the rows of which something is still to be done.
func (m *Memory) open() (numbers []int64) {
	for i := range m.Failures {
		if m.Failures[i].Open() {
			numbers = append(numbers, m.Failures[i].Number)
		}
	}
	return numbers
}
