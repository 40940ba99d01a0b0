package guarantee

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Sums are what became of an account's shares: GPUs at a time, or GPU-seconds over a time. What of a share neither its account
// nor others use is idle: Entitled is Within, Lent and Idle.
type Sums struct {
	Entitled float64 // the shares, in service
	Within   float64 // of them, used by the account
	Lent     float64 // of them, used by others
	Wanted   float64 // of them, idle while an entitled job waited
	Borrowed float64 // used by the account beyond them
}

// Idle is what of the shares nothing uses.
func (x *Sums) Idle() float64 { return max(x.Entitled-x.Within-x.Lent, 0) }

// Add adds others, so many times.
func (x *Sums) Add(o *Sums, times float64) {
	x.Entitled += o.Entitled * times
	x.Within += o.Within * times
	x.Lent += o.Lent * times
	x.Wanted += o.Wanted * times
	x.Borrowed += o.Borrowed * times
}

// Hour is a part of an hour, which begins at At. Its sums are in GPU-seconds.
type Hour struct {
	At       time.Time
	Account  string   // that has the shares
	Accounts []string // it and those below it, of jobs that were seen
	GPUs     float64  // entitled, at the end
	Sums
}

// Return is the wait of a job, or task, while it was entitled.
type Return struct {
	Job     cluster.JobID
	Account string // that has the share
	User    string
	GPUs    float64   // of one task
	Tasks   int       // of an array's record, since the same time; else 1
	Since   time.Time // the first cycle at which it was entitled
	Until   time.Time // zero: it waits
	Started bool      // else it waits, left the queue, or is no longer entitled
	Promise time.Duration
	Why     string // of a late one: why it still waited when its time was over, a word of plan.EvictionChoice, Paused, Down or GPUType; "": unknown
}

// Why a return is late, beside what evictions say.
const (
	Paused  = "paused"   // priod wrote nothing
	Down    = "down"     // no room, and nodes on which the share lies are out of service
	GPUType = "gpu-type" // it left its GPU type to priod, and ends sooner on one that is not free than on those that are
)

// Took is how long the job has waited, until now at most.
func (r *Return) Took(now time.Time) time.Duration {
	if !r.Until.IsZero() {
		now = r.Until
	}
	return max(now.Sub(r.Since), 0)
}

// Late reports whether the promise was missed, until now.
func (r *Return) Late(now time.Time) bool { return r.Took(now) > r.Promise }

// Taken is what a Statement came to since it was last taken.
type Taken struct {
	Hours []Hour
	Ended []Return // started, or late
	Open  []Return // all that wait
	Until time.Time
}

// Statement sums up what becomes of shares. What a cycle saw counts until the next one.
type Statement struct {
	Gap time.Duration // a longer time between two cycles counts in no sum, because it is not known what happened; 0: none is too long

	at    time.Time       // of the last cycle
	now   map[string]*Now // by account
	hours map[hourOf]*Hour
	open  map[cluster.JobID]*waits
	ended []Return
	news  News
}

// Now is what the last cycle saw of an account's shares, GPUs.
type Now struct {
	Account string
	Sums

	accounts map[string]bool
}

// News are returns that ended in a start, and those that became late, since they were last asked for.
type News struct{ Started, Late []Return }

type hourOf struct {
	at      int64
	account string
}

// waits are entitled tasks of one record that wait.
type waits struct {
	Return
	clocks  []clock
	counted map[cluster.JobID]bool // tasks that have started
}

// clock is the wait of one task.
type clock struct {
	since time.Time
	why   string
	late  bool
}

// see takes in a cycle.
func (st *Statement) see(s *cluster.Snapshot, r *Result) {
	if len(r.Shares)+len(st.now)+len(st.open) == 0 {
		return
	}
	if gap := s.At.Sub(st.at); !st.at.IsZero() && gap > 0 && (st.Gap == 0 || gap <= st.Gap) {
		st.sum(s.At)
	}
	st.at, st.now = s.At, r.now()
	st.follow(s, r)
}

// now is what each account's shares come to.
func (r *Result) now() map[string]*Now {
	all := map[string]*Now{}
	for i := range r.Shares {
		x := &r.Shares[i]
		a := all[x.Share.Account]
		if a == nil {
			a = &Now{Account: x.Share.Account, accounts: map[string]bool{x.Share.Account: true}}
			all[a.Account] = a
		}
		within := min(x.Used, x.Owned)
		a.Add(&Sums{x.Owned, within, x.LentOut, min(x.Wanted+x.Promised, max(x.Owned-within-x.LentOut, 0)), x.Used - within + x.Outside}, 1)
	}
	for account, shares := range r.Accounts {
		if len(shares) > 0 {
			all[r.Shares[shares[0]].Share.Account].accounts[account] = true
		}
	}
	return all
}

// sum adds what the last cycle saw to the hours until now.
func (st *Statement) sum(until time.Time) {
	for from := st.at; from.Before(until); {
		hour := from.Truncate(time.Hour)
		to := cluster.Earlier(hour.Add(time.Hour), until)
		for account, a := range st.now {
			h := Hour{At: hour, Account: account, Accounts: slices.Sorted(maps.Keys(a.accounts)), GPUs: a.Entitled}
			h.Add(&a.Sums, to.Sub(from).Seconds())
			st.add(&h)
		}
		from = to
	}
}

func (st *Statement) add(x *Hour) {
	key := hourOf{x.At.Unix(), x.Account}
	h := st.hours[key]
	if h == nil {
		if st.hours == nil {
			st.hours = map[hourOf]*Hour{}
		}
		h = &Hour{At: x.At, Account: x.Account}
		st.hours[key] = h
	}
	if !slices.Equal(h.Accounts, x.Accounts) {
		h.Accounts = slices.Concat(h.Accounts, x.Accounts)
		slices.Sort(h.Accounts)
		h.Accounts = slices.Compact(h.Accounts)
	}
	h.GPUs = x.GPUs
	h.Sums.Add(&x.Sums, 1)
}

// follow finds which entitled jobs began to wait, started, or do neither any more.
func (st *Statement) follow(s *cluster.Snapshot, r *Result) {
	entitled, unread := map[cluster.JobID]int{}, map[cluster.JobID]bool{}
	for i := range s.Jobs {
		switch j := &s.Jobs[i]; {
		case j.State == cluster.Unread:
			unread[j.ID] = true
		case j.State != cluster.Pending:
			st.start(j)
		case i < len(r.Jobs) && r.Jobs[i].Right == cluster.Entitled:
			entitled[j.ID] = i
		}
	}
	st.split(entitled)
	var charges *cluster.Charges
	for id, i := range entitled {
		j, standing := &s.Jobs[i], &r.Jobs[i]
		w := st.open[id]
		if w == nil {
			if charges == nil {
				charges = cluster.NewCharges(s)
			}
			share := r.Shares[standing.Share].Share
			w = st.wait(Return{Job: id, Account: share.Account, User: j.User, GPUs: charges.Of(j), Promise: share.ReturnWithin})
		}
		tasks := max(j.TasksNow(), 1)
		for len(w.clocks) < min(cmp.Or(standing.Tasks, tasks), tasks) {
			w.clocks = append(w.clocks, clock{since: s.At})
		}
		w.clocks = w.clocks[:min(len(w.clocks), tasks)]
	}
	for _, id := range slices.SortedFunc(maps.Keys(st.open), cluster.JobID.Compare) {
		w := st.open[id]
		_, waits := entitled[id]
		for k := range w.clocks {
			if c := &w.clocks[k]; !c.late && s.At.Sub(c.since) > w.Promise {
				c.late = true
				st.news.Late = append(st.news.Late, w.of(id, c))
			}
			if c := w.clocks[k]; !waits && !unread[id] && c.late {
				x := w.of(id, &c)
				x.Until = s.At
				st.ended = append(st.ended, x)
			}
		}
		if !waits && !unread[id] {
			delete(st.open, id)
		}
	}
}

// split gives tasks that have records of their own now the clocks of their arrays.
func (st *Statement) split(entitled map[cluster.JobID]int) {
	for _, id := range slices.SortedFunc(maps.Keys(entitled), cluster.JobID.Compare) {
		if id.Task == slurmplug.NoTask || st.open[id] != nil {
			continue
		}
		if array := st.open[slurmplug.Plain(id.ID)]; array != nil && len(array.clocks) > 0 {
			x := array.Return
			x.Job = id
			st.wait(x).clocks = []clock{array.clocks[0]}
			array.clocks = array.clocks[1:]
		}
	}
}

// wait adds a record of which entitled tasks wait.
func (st *Statement) wait(of Return) *waits {
	if st.open == nil {
		st.open = map[cluster.JobID]*waits{}
	}
	w := &waits{Return: of, counted: map[cluster.JobID]bool{}}
	st.open[of.Job] = w
	return w
}

// of is the wait of one task.
func (w *waits) of(id cluster.JobID, c *clock) Return {
	x := w.Return
	x.Job, x.Tasks, x.Since = id, 1, c.since
	if c.late {
		x.Why = c.why
	}
	return x
}

// start takes in a job that runs, and may have waited until it started.
func (st *Statement) start(j *cluster.Job) {
	w := st.open[j.ID]
	if w == nil && j.ID.Task != slurmplug.NoTask {
		w = st.open[slurmplug.Plain(j.ID.ID)]
	}
	if w == nil || len(w.clocks) == 0 || w.counted[j.ID] || j.Start.Before(w.clocks[0].since.Truncate(time.Second)) { // Slurm counts whole seconds
		return
	}
	c := w.clocks[0]
	w.clocks, w.counted[j.ID] = w.clocks[1:], true
	x := w.of(j.ID, &c)
	x.Until, x.Started = cluster.Later(j.Start, c.since), true
	if x.Late(x.Until) {
		if x.Why = c.why; !c.late {
			st.news.Late = append(st.news.Late, x)
		}
	}
	st.news.Started = append(st.news.Started, x)
	st.ended = append(st.ended, x)
}

// because notes why the tasks of a record wait, until they are late.
func (st *Statement) because(id cluster.JobID, why string) {
	w := st.open[id]
	if w == nil || why == "" {
		return
	}
	for i := range w.clocks {
		if c := &w.clocks[i]; !c.late || c.why == "" {
			c.why = why
		}
	}
}

// Now is what the last cycle saw of each account, by name.
func (st *Statement) Now() (all []Now) {
	for _, account := range slices.Sorted(maps.Keys(st.now)) {
		all = append(all, *st.now[account])
	}
	return all
}

// News are what happened since they were last asked for.
func (st *Statement) News() News {
	n := st.news
	st.news = News{}
	return n
}

// Take is what came together since it was last taken, and what waits.
func (st *Statement) Take() *Taken {
	t := &Taken{Ended: st.ended, Until: st.at}
	for _, h := range st.hours {
		t.Hours = append(t.Hours, *h)
	}
	slices.SortFunc(t.Hours, func(a, b Hour) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Account, b.Account)) })
	for _, id := range slices.SortedFunc(maps.Keys(st.open), cluster.JobID.Compare) {
		w := st.open[id]
		for i := range w.clocks {
			x := w.of(id, &w.clocks[i])
			if n := len(t.Open); n > 0 && t.Open[n-1].Job == id && t.Open[n-1].Since.Equal(x.Since) {
				t.Open[n-1].Tasks++
				continue
			}
			t.Open = append(t.Open, x)
		}
	}
	st.hours, st.ended = nil, nil
	return t
}

// PutBack takes back what could not be stored.
func (st *Statement) PutBack(t *Taken) {
	for i := range t.Hours {
		x := &t.Hours[i]
		if later := st.hours[hourOf{x.At.Unix(), x.Account}]; later != nil {
			x.GPUs = later.GPUs
		}
		st.add(x)
	}
	st.ended = append(t.Ended, st.ended...)
	st.ended = st.ended[max(len(st.ended)-mostEnded, 0):]
}

// mostEnded is how many returns are kept while they cannot be stored; of more, the last ones.
const mostEnded = 100_000

// Restore takes in what waited when an earlier process last looked.
func (st *Statement) Restore(open []Return, at time.Time) {
	for _, x := range open {
		w := st.open[x.Job]
		if w == nil {
			w = st.wait(x)
		}
		for range max(x.Tasks, 1) {
			w.clocks = append(w.clocks, clock{x.Since, x.Why, at.Sub(x.Since) > x.Promise})
		}
	}
}
