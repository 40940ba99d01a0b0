package idle

import (
	"cmp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
)

// Memory is what is kept from one cycle to the next.
type Memory struct {
	runs     cluster.JobMap[*run]
	programs Programs
	loads    loads
	looked   time.Time
	ended    []*Spell // since they were last saved
	restored map[cluster.JobID]*Spell
	at       time.Time // of the last cycle of an earlier process
	alarms   int
	watched  int             // jobs of which a source tells
	unseen   int             // jobs of which none does
	unread   error           // why a source was not
	wanted   []cluster.JobID // of which no source that sees GPUs tells
}

// run is a run of a job on GPUs.
type run struct {
	start  time.Time
	told   time.Time // when a source last told of it; zero: none has
	worked bool      // a source showed work
	whole  bool      // it was watched from its start on
	spell  *Spell    // nil: it works, or no source has told of it
	kept   bool      // spell is in the store
	live   bool      // it still runs
}

// NewMemory is that of a priod that has seen nothing.
func NewMemory() *Memory { return &Memory{programs: Programs{}} }

// Restore takes in spells of an earlier process, and when that last looked: those that last go on where their runs do.
func (m *Memory) Restore(spells []Spell, at time.Time) {
	m.at, m.restored = at, map[cluster.JobID]*Spell{}
	for i := range spells {
		s := spells[i]
		if m.programs.learn(&s); s.End.IsZero() {
			m.restored[s.Job] = &s
		}
	}
}

// Observe takes in what a snapshot and its sources show, and sets the Idle of its jobs. Between looks, which are a
// thirtieth of After apart, it only does the latter.
func (m *Memory) Observe(s *cluster.Snapshot, signs map[cluster.JobID][]cluster.Sign, set *Settings) {
	look := m.due(s.At, set)
	if look {
		m.looked, m.watched, m.unseen, m.wanted = s.At, 0, 0, m.wanted[:0]
		m.loads.see(s)
	}
	for _, r := range m.runs.All() {
		r.live = false
	}
	var buffer []cluster.Sign
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.GPUs == 0 || j.State != cluster.Running && j.State != cluster.Suspended && j.State != cluster.Unread {
			continue
		}
		r := m.runs.Get(j.ID)
		if r == nil && j.State == cluster.Unread {
			continue
		}
		if r == nil || j.State != cluster.Unread && !r.start.Equal(j.Start) {
			if r != nil {
				m.end(r, s.At, Ended)
			}
			r = m.begin(j, s.At, set)
		}
		r.live = true
		if look && j.State == cluster.Running {
			buffer = append(buffer[:0], signs[j.ID]...)
			if sign, tells := m.loads.sign(j, set.CPUs); tells {
				buffer = append(buffer, sign)
			}
			m.take(r, j, s.At, buffer, set)
		}
		x := r.spell
		j.Idle = x != nil && !x.Found.IsZero() && x.Sure && s.At.Sub(r.told).Abs() <= set.Gap
	}
	for id, r := range m.runs.All() {
		if !r.live {
			m.end(r, s.At, Ended)
			m.runs.Delete(id)
		}
	}
	m.forget()
}

// due reports whether it is time for another look.
func (m *Memory) due(at time.Time, set *Settings) bool {
	return at.Sub(m.looked).Abs() >= min(set.After/30, 20*time.Second)
}

// begin begins to watch a run.
func (m *Memory) begin(j *cluster.Job, at time.Time, set *Settings) *run {
	r := &run{start: j.Start, whole: at.Sub(j.Start) <= set.Gap}
	if s := m.restored[j.ID]; s != nil && s.Start.Equal(j.Start) {
		r.spell, r.kept, r.told, r.worked, r.whole = s, true, m.at, s.Kind == Hung, s.Kind == NeverUsed
		delete(m.restored, j.ID)
	}
	m.runs.Set(j.ID, r)
	return r
}

// forget ends spells of an earlier process whose runs are gone.
func (m *Memory) forget() {
	for id, s := range m.restored {
		s.End, s.How = cluster.Later(s.Since, m.at), Ended
		m.ended = append(m.ended, s)
		delete(m.restored, id)
	}
}

// take takes in the signs of a job.
func (m *Memory) take(r *run, j *cluster.Job, at time.Time, signs []cluster.Sign, set *Settings) {
	v, by, sure := Combine(signs)
	if v == Unknown || by.Shows != cluster.GPUs {
		m.wanted = append(m.wanted, j.ID)
	}
	if v == Unknown {
		m.unseen++
		return
	}
	m.watched++
	last, gap := r.told, at.Sub(r.told)
	r.told = at
	first := last.IsZero()
	away := !first && (gap > set.Gap || gap < 0)
	if v == Works {
		// The load of a node is a mean: at first it is that of jobs before this one.
		r.worked = r.worked || by.Source != cluster.FromLoad || at.Sub(j.Start) > set.Gap
		m.end(r, at, Worked)
		return
	}
	switch x := r.spell; {
	case x == nil:
		since := last
		switch {
		case first && r.whole:
			since = j.Start
		case first || away:
			since = at
		}
		r.spell = &Spell{
			Job: j.ID, RawID: j.RawID, Start: j.Start, User: j.User, Account: j.Account, Name: j.Name, Program: ProgramOf(j),
			GPUs: j.GPUs, GPUType: j.GPUType, Since: since,
		}
	case away: // what no source saw does not count
		x.Since = x.Since.Add(gap)
	}
	x := r.spell
	x.Source, x.Value, x.Sure = by.Source, by.Value, sure
	if x.Found.IsZero() {
		if x.After = m.programs.after(x.Program, set); x.Lasted(at) >= x.After {
			x.Found, x.Kind = at, kindOf(r, j)
		}
	}
}

func kindOf(r *run, j *cluster.Job) Kind {
	switch {
	case j.Interactive:
		return Idle
	case r.worked:
		return Hung
	case r.whole:
		return NeverUsed
	}
	return Idle
}

// end ends the spell of a run.
func (m *Memory) end(r *run, at time.Time, how How) {
	x := r.spell
	if r.spell = nil; x == nil {
		return
	}
	x.End, x.How = cluster.Later(x.Since, at), how
	if how == Ended && x.Do == Requeue && !x.Acted.IsZero() && x.Message == "" {
		x.How = Requeued
	} else if how == Ended && x.Do == Cancel && !x.Acted.IsZero() && x.Message == "" {
		x.How = Cancelled
	}
	m.programs.learn(x)
	if x.FalseAlarm() {
		m.alarms++
	}
	if m.ended = append(m.ended, x); len(m.ended) > mostEnded {
		m.ended = m.ended[len(m.ended)-mostEnded:]
	}
}

// mostEnded is how many wait to be saved at most, while history is not recorded.
const mostEnded = 20_000

// open are the spells that last and count, by their begins.
func (m *Memory) open() (all []*run) {
	for _, r := range m.runs.All() {
		if r.spell != nil && !r.spell.Found.IsZero() {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *run) int {
		return cmp.Or(a.spell.Since.Compare(b.spell.Since), a.spell.Job.Compare(b.spell.Job))
	})
	return all
}

// Tally is what is known of the jobs that run on GPUs.
type Tally struct {
	Watched, Unseen int             // jobs of which a source tells, or none does
	Idle            map[Kind]Counts // that count now
	FalseAlarms     int             // spells of this process that were found and ended by themselves
}

// Counts are jobs and their GPUs.
type Counts struct{ Jobs, GPUs int }

// Tally counts.
func (m *Memory) Tally() Tally {
	t := Tally{Watched: m.watched, Unseen: m.unseen, Idle: map[Kind]Counts{Idle: {}, Hung: {}, NeverUsed: {}}, FalseAlarms: m.alarms}
	for _, r := range m.runs.All() {
		if x := r.spell; x != nil && !x.Found.IsZero() {
			c := t.Idle[x.Kind]
			t.Idle[x.Kind] = Counts{c.Jobs + 1, c.GPUs + x.GPUs}
		}
	}
	return t
}
