package evict

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// job is a job of the model, a Slurm of one node as far as evictions can tell.
type job struct {
	plan.JobStatus
	gpus     int
	conduct  string // on the signal: exit, finish, ignore, requeue
	after    int    // s until it does that
	told     int    // signals in this run
	toldAt   int
	ended    map[int]int // runs, by restarts, that a requeue of priod's ended while they ran
	requeues int         // by priod
	over     int         // when it ended
	own      bool        // its owner cancelled it
}

// model is the node with its jobs, and priod's journal as it is on disk.
type model struct {
	*rapid.T
	now    int
	skew   time.Duration // of priod's clock
	free   int
	trial  *job
	jobs   map[cluster.JobID]*job
	disk   *Journal
	memory *Journal
	down   bool // slurmctld
	paused bool
	age    int            // MinJobAge, s
	resv   map[string]int // reservations, with the second at which they end
}

var epoch = time.Unix(1_700_000_000, 0)

func (m *model) time() time.Time { return epoch.Add(time.Duration(m.now) * time.Second) }

// clock is the time as priod has it.
func (m *model) clock() time.Time { return m.time().Add(m.skew) }

func newModel(t *rapid.T) *model {
	m := &model{T: t, age: rapid.SampledFrom([]int{10, 1000}).Draw(t, "age"), jobs: map[cluster.JobID]*job{}, resv: map[string]int{}, disk: NewJournal()}
	turn := Changes{}
	need := 0
	for i := range rapid.IntRange(1, 3).Draw(t, "victims") {
		j := &job{gpus: rapid.IntRange(1, 4).Draw(t, "gpus"), ended: map[int]int{}}
		j.conduct = rapid.SampledFrom([]string{"exit", "exit", "finish", "ignore", "requeue"}).Draw(t, "conduct")
		j.after = rapid.IntRange(0, 20).Draw(t, "after")
		j.JobStatus = plan.JobStatus{Job: cluster.Job{
			ID: slurmplug.Plain(uint32(i + 1)), User: "alice", State: cluster.Running, Start: epoch.Add(-time.Hour), Priority: 1, GPUs: j.gpus,
			Tag: jobtag.Tag{Type: "be"},
		}, CanRequeue: true}
		m.jobs[j.ID] = j
		need += j.gpus
		turn.Evictions = append(turn.Evictions, Eviction{
			Job: j.ID, User: "alice", Start: j.Start, GPUs: j.gpus, Grace: time.Duration(rapid.IntRange(0, 30).Draw(t, "grace")) * time.Second,
			State: Recorded, At: m.time(),
		})
	}
	m.trial = &job{gpus: need, ended: map[int]int{}}
	m.trial.JobStatus = plan.JobStatus{Job: cluster.Job{ID: slurmplug.Plain(9), User: "bob", State: cluster.Pending, Priority: 1, GPUs: need, Tag: jobtag.Tag{Type: "te"}}, CanRequeue: true}
	m.jobs[m.trial.ID] = m.trial
	turn.Claims = []Claim{{
		Job: m.trial.ID, User: "bob", GPUs: need, State: Planned, At: m.time(), Changed: m.time(), Shares: []ClaimShare{{Node: "n1", GPUs: need}},
		Pin: rapid.SampledFrom([]string{"", "n1"}).Draw(t, "pin"), Resv: rapid.SampledFrom([]string{"", "yes"}).Draw(t, "reserve"),
	}}
	m.disk.Number(&turn)
	m.disk.Update(&turn)
	m.restart()
	return m
}

// restart is a crash: what is not on disk is forgotten.
func (m *model) restart() { m.memory = copied(m.disk) }

func copied(j *Journal) *Journal {
	c := *j
	c.changed()
	c.Claims, c.Evictions = slices.Clone(j.Claims), slices.Clone(j.Evictions)
	c.Times = map[cluster.JobID]int{}
	for id, n := range j.Times {
		c.Times[id] = n
	}
	return &c
}

func (j *job) start(at time.Time) {
	j.State, j.Start, j.Final, j.told, j.NodeList = cluster.Running, at, "", 0, "n1"
}

func (j *job) end(final string, now int) { j.State, j.Final, j.over = cluster.Other, final, now }

// forgotten reports whether slurmctld knows a job no more.
func (m *model) forgotten(j *job) bool { return j.Final != "" && m.now > j.over+m.age }

// sight is a job as Slurm shows it, or as accounting does.
func (m *model) sight(j *job) plan.JobStatus {
	s := j.JobStatus
	if m.forgotten(j) {
		s = plan.JobStatus{Gone: true, Final: j.Final, ExitCode: j.ExitCode, End: epoch.Add(time.Duration(j.over) * time.Second)}
		s.ID, s.User, s.Start, s.NodeList, s.State = j.ID, j.User, j.Start, j.NodeList, cluster.Other
	}
	return s
}

func (j *job) requeue(at time.Time) {
	j.State, j.Final, j.Restarts, j.Eligible, j.NodeList = cluster.Pending, "", j.Restarts+1, at.Add(121*time.Second), ""
}

// pass lets a second pass.
func (m *model) pass() {
	m.now++
	for _, j := range m.jobs {
		if j.State != cluster.Running || j.told == 0 || m.now < j.toldAt+j.after {
			continue
		}
		switch j.conduct {
		case "exit":
			j.end("FAILED", m.now)
			j.ExitCode = 99
		case "finish":
			j.end("COMPLETED", m.now)
		case "requeue":
			j.requeue(m.time())
		default:
			continue
		}
		m.free += j.gpus
	}
	reserved := false
	for _, until := range m.resv {
		reserved = reserved || m.now < until
	}
	if m.down || reserved {
		return
	}
	order := []*job{m.trial}
	for i := range uint32(3) {
		if j := m.jobs[slurmplug.Plain(i+1)]; j != nil {
			order = append(order, j)
		}
	}
	for _, j := range order {
		if j.State == cluster.Pending && j.Priority > 0 && !j.Eligible.After(m.time()) && j.gpus <= m.free {
			j.start(m.time())
			m.free -= j.gpus
		}
	}
}

// turn is one turn of priod, which may die on the way.
func (m *model) turn(faults bool) {
	if m.down {
		return
	}
	seen := Observation{At: m.clock(), Statuses: map[cluster.JobID]plan.JobStatus{}, Hold: 30 * time.Second, Paused: m.paused}
	claims, evictions := m.memory.live()
	for _, c := range claims {
		seen.Statuses[c.Job] = m.sight(m.jobs[c.Job])
	}
	for _, e := range evictions {
		seen.Statuses[e.Job] = m.sight(m.jobs[e.Job])
	}
	die := func(what string) bool {
		if faults && rapid.IntRange(0, 5).Draw(m.T, what) == 0 {
			m.restart()
			return true
		}
		return false
	}
	before := copied(m.memory)
	turn := Advance(m.memory, seen)
	if !equal(before, m.memory) {
		m.Fatal("Next changes the journal")
	}
	if die("before the rows") {
		return
	}
	m.disk.Update(&turn)
	m.memory.Update(&turn)
	var results []plan.Result
	for _, c := range turn.Commands {
		if die("before a command") {
			return
		}
		status := slurmplug.Applied
		if faults {
			status = rapid.SampledFrom([]slurmplug.Status{slurmplug.Applied, slurmplug.Applied, slurmplug.Unknown, slurmplug.Postponed}).Draw(m.T, "status")
		}
		arrives := status == slurmplug.Applied || status == slurmplug.Unknown && rapid.Bool().Draw(m.T, "arrives")
		if arrives && !m.do(c) {
			status = slurmplug.Raced
		}
		results = append(results, plan.Result{Command: c, Status: status, Message: string(status)})
	}
	if die("before the outcomes") {
		return
	}
	settled := ApplyResults(m.memory, results, m.clock())
	m.disk.Update(&settled)
	m.memory.Update(&settled)
}

func equal(a, b *Journal) bool {
	return slices.Equal(a.Evictions, b.Evictions) && slices.EqualFunc(a.Claims, b.Claims, func(a, b Claim) bool { return a.key() == b.key() })
}

// do is what Slurm does with a command.
func (m *model) do(c plan.Command) bool {
	j := m.jobs[c.Job]
	if m.forgotten(j) && c.Kind != plan.Reserve && c.Kind != plan.Free {
		return false
	}
	switch c.Kind {
	case plan.Signal:
		if j.State != cluster.Running {
			return false
		}
		if j.told == 0 {
			j.toldAt = m.now
		}
		j.told++
	case plan.Requeue:
		if j.State == cluster.Pending {
			return false
		}
		if j.State == cluster.Running {
			if j.told == 0 {
				m.Fatalf("job %s is requeued without a signal", j.ID)
			}
			j.ended[j.Restarts]++
			m.free += j.gpus
		}
		if j.Final == "CANCELLED" {
			m.Fatalf("job %s is %s and is requeued", j.ID, j.Final)
		}
		j.requeues++
		j.requeue(m.time())
	case plan.Begin:
		if j.State != cluster.Pending {
			return false
		}
		j.Eligible = m.time()
		if c.Value != slurmplug.Delay(2*time.Second) {
			j.Eligible = m.time().Add(requeueDelay)
		}
	case plan.Pin, plan.Unpin:
		if j.State != cluster.Pending {
			return false
		}
		j.ReqNodes = c.Value.String()
	case plan.Reserve:
		m.resv[c.Value.String()] = m.now + int(c.For.Seconds())
	case plan.Free:
		if _, there := m.resv[c.Value.String()]; !there {
			return false
		}
		delete(m.resv, c.Value.String())
	}
	return true
}

// disturb is what people do.
func (m *model) disturb() {
	ids := []uint32{1, 2, 3, 9}
	j := m.jobs[slurmplug.Plain(rapid.SampledFrom(ids).Draw(m.T, "whose"))]
	if j == nil {
		return
	}
	switch rapid.SampledFrom([]string{"cancel", "hold", "release", "tag", "requeue", "down", "pause", "clock"}).Draw(m.T, "what") {
	case "cancel":
		if j.State == cluster.Running {
			m.free += j.gpus
		}
		if j.Final == "" {
			if j.State == cluster.Pending {
				j.Start = m.time() // as Slurm does
			}
			j.end("CANCELLED", m.now)
			j.own = true
		}
	case "hold":
		if j.State == cluster.Pending {
			j.Priority = 0
		}
	case "release":
		j.Priority = 1
	case "tag":
		j.Tag.Type = rapid.SampledFrom([]string{"", "te", "be"}).Draw(m.T, "type")
	case "requeue":
		if j.State == cluster.Running && j != m.trial {
			m.free += j.gpus
			j.requeue(m.time())
		}
	case "down":
		m.down = !m.down
	case "pause":
		m.paused = !m.paused
	case "clock":
		m.skew = rapid.SampledFrom([]time.Duration{0, time.Minute, 8 * day, -time.Minute, -8 * day}).Draw(m.T, "skew")
	}
}

// Whatever happens, and wherever priod dies: no run is ended twice or without a
// signal, no job is lost but where the journal says so, no place is held for ever.
func TestWhereverPriodDies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				m.disturb()
			case 1, 2, 3:
				for range rapid.IntRange(1, 40).Draw(t, "s") {
					m.pass()
				}
			default:
				m.pass()
				m.turn(true)
			}
		}
		m.down = false
		for range 400 {
			m.pass()
			m.turn(false)
		}
		m.check()
	})
}

// told reports whether the journal says that a job was forgotten before it could be requeued.
func (m *model) told(id cluster.JobID) bool {
	return slices.ContainsFunc(m.memory.Evictions, func(e Eviction) bool { return e.Job == id && (e.How == Forgotten || e.How == Finished) })
}

func (m *model) check() {
	for id, j := range m.jobs {
		for run, n := range j.ended {
			if n > 1 {
				m.Errorf("job %s: run %d was ended %d times", id, run, n)
			}
		}
		if j != m.trial && j.requeues > 1 {
			m.Errorf("job %s was requeued %d times", id, j.requeues)
		}
		if j != m.trial && !j.own && j.Final != "" && !m.told(id) {
			m.Errorf("job %s is lost: %s", id, j.Final)
		}
		if j.State == cluster.Pending && j.ReqNodes != "" {
			m.Errorf("job %s still asks for %s", id, j.ReqNodes)
		}
		if j.State == cluster.Pending && j.Priority > 0 && j.Eligible.After(m.time()) {
			m.Errorf("job %s still waits for its begin time", id)
		}
	}
	if c := m.memory.Claim(1); c.State == Started && m.trial.NodeList == "" && m.trial.Restarts == 0 {
		m.Errorf("a TE job that never ran has started: %+v", c)
	}
	for name, until := range m.resv {
		if m.now < until {
			m.Errorf("reservation %s is left", name)
		}
	}
	for i := range m.memory.Claims {
		if c := &m.memory.Claims[i]; c.Open() {
			m.Errorf("claim: %+v", c)
		}
	}
	for i := range m.memory.Evictions {
		e := &m.memory.Evictions[i]
		if e.Open() && e.State != Restored {
			m.Errorf("eviction: %+v", e)
		}
		if e.Open() != e.Ended.IsZero() {
			m.Errorf("eviction: %+v", e)
		}
	}
	if !equal(m.memory, m.disk) {
		m.Error("what is on disk is not what is in memory")
	}
}
