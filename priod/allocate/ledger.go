package allocate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// AllocationSettings say how the time of the GPUs is divided, and what speeds
// rest on.
type AllocationSettings struct {
	Policy   Policy             // without a name nothing is allocated
	Every    time.Duration      // an allocation stands so long at most, and fractions received begin anew; at least a second
	Weights  map[string]float64 // by account: of each of its jobs, or with policy hierarchical of itself; others have 1
	Accounts map[string]float64 // with policy hierarchical: the accounts' shares as Slurm has them
	FIFO     []string           // with policy hierarchical: accounts whose jobs get their share one after the other

	Ranking   plan.Classes
	Speeds    speed.Settings
	Table     *workload.Table  // may be nil
	Knowledge *speed.Knowledge // may be nil

	// Trouble gets a problem that the optimiser failed on, and says what became of
	// it, for the notes; may be nil.
	Trouble func(*Problem, error) string
}

// most is as how many jobs an unsplit array counts: more tasks than that change
// nobody's share much, and cost.
const most = 1000

// forever stands for no time limit, s.
const forever = 365 * 24 * 3600

// A job keeps its times until one of them moves by a part of it: then little is
// written, and jobs do not swap places for nothing.
const (
	keeps      = 0.05
	keepsWhole = 1e-4
)

// Ledger is what the allocations know from one cycle to the next: what each job
// was promised, what it received, how fast it is. The zero Ledger knows nothing.
type Ledger struct {
	set    AllocationSettings
	shares plan.Shares
	jobs   map[cluster.JobID]*entry
	left   map[cluster.JobID]*entry // jobs whose time the account has, and that went since
	kinds  map[kindKey]*kind
	fits   map[request][]bool
	gpus   []int // by type, of usable nodes

	account *Account
	since   time.Time // the account's fractions count from here
	dirty   bool      // jobs or GPUs came or went since the last allocation
	warm    Warm
	nodes   []nodeKey
	poll    uint32
	problem Problem
	trouble string // with the last allocation
}

// entry is one job of the ledger.
type entry struct {
	plan.Share
	id      string
	user    string
	submit  time.Time // Slurm's; a requeue resets it
	born    time.Time // no run from before is its own; zero: not known
	request request
	program programKey
	kind    *kind
	runs    map[int64]cluster.Stay // by start, Unix s
	poll    uint32

	work, left float64 // s on its fastest type: all of it, and what is still to do
	elapsed    float64 // what its work so far would have taken in isolation, s
	booked     float64 // the work for which that is so
	rate       float64 // of work in isolation
	mask       []bool  // types on which it fitted while it waited, by an earlier process; nil: not known

	out placement.Types // types on which it cannot run, by what a closer look told of it
}

// request is all that decides on which types a job fits.
type request struct {
	gpuType, features, partition string
	nodes, gpus, cpus            int
	memMB                        int64
	node                         cluster.Least
}

// programKey is all that decides how fast a job is.
type programKey struct {
	workload, speed, user, name string
	gpus                        int
}

type kindKey struct {
	request request
	program programKey
	out     placement.Types
}

// kind is what jobs with the same request and program have in common.
type kind struct {
	answers *speed.Answers
	speed   []float64 // of those on which it fits, the fastest 1
	steps   float64   // steps per second of the fastest; 0: not known
}

type nodeKey struct {
	name, gpuType, features, partitions string
	gpus, cpus                          int
	memMB                               int64
	usable                              bool
}

// Remembered is what an earlier process stored of a job: its Share, by the types
// that there were, and its runs.
type Remembered struct {
	User                  string
	Submit, Born          time.Time // Slurm's time of submission, and the first one
	Types                 []string
	Speed, Time, Promised []float64
	Given                 time.Time
	Runs                  []cluster.Stay
}

// Restore takes in a job that an earlier process knew.
func (l *Ledger) Restore(id cluster.JobID, r Remembered) {
	if l.jobs == nil {
		l.begin()
	}
	l.retype(slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(l.shares.Types), r.Types...)))))
	e := &entry{id: id.String(), user: r.User, submit: r.Submit, born: r.Born, runs: map[int64]cluster.Stay{}}
	e.Promised, e.Given = l.moved(r.Promised, r.Types), r.Given
	if r.Time != nil {
		e.Time = l.moved(r.Time, r.Types)
	}
	for _, v := range l.moved(r.Speed, r.Types) {
		e.mask = append(e.mask, v > 0)
	}
	for _, i := range r.Runs {
		e.runs[i.Start.Unix()] = i
	}
	l.jobs[id] = e
}

func (l *Ledger) begin() {
	l.jobs, l.left, l.account = map[cluster.JobID]*entry{}, map[cluster.JobID]*entry{}, New()
	l.kinds, l.fits = map[kindKey]*kind{}, map[request][]bool{}
	l.shares.Jobs = map[cluster.JobID]*plan.Share{}
}

// moved brings values by other types into the order of the ledger's.
func (l *Ledger) moved(values []float64, types []string) []float64 {
	to := make([]float64, len(l.shares.Types))
	for i, t := range types {
		if at, known := slices.BinarySearch(l.shares.Types, t); known && i < len(values) {
			to[at] = values[i]
		}
	}
	return to
}

// retype changes the GPU types. What was promised of one that is gone is void.
func (l *Ledger) retype(types []string) {
	if slices.Equal(types, l.shares.Types) {
		return
	}
	old := l.shares.Types
	l.shares.Types = types
	for _, e := range l.jobs {
		if e.Time != nil {
			e.Time = l.moved(e.Time, old)
		}
		e.Promised = l.moved(e.Promised, old)
		if e.mask != nil {
			mask := make([]bool, len(types))
			for i, t := range old {
				if at, known := slices.BinarySearch(types, t); known {
					mask[at] = e.mask[i]
				}
			}
			e.mask = mask
		}
		e.kind, e.out = nil, 0
	}
	clear(l.kinds)
	clear(l.fits)
	l.warm, l.dirty = Warm{}, true
}

// Allocate brings the ledger up to this snapshot, which h has observed, divides
// the time anew when jobs or GPUs came or went or the last allocation is old, and
// returns what each job has of it; nil when nothing is to be allocated.
func (l *Ledger) Allocate(s *cluster.Snapshot, h *cluster.History, set AllocationSettings) *plan.Shares {
	if set.Policy.Name == "" {
		*l = Ledger{}
		return nil
	}
	if l.jobs == nil {
		l.begin()
	}
	l.shares.Notes = nil
	l.settle(set)
	l.look(s)
	if len(l.shares.Types) == 0 {
		l.note("no node has GPUs of a named type: nothing is allocated")
	}
	l.meet(s, h)
	l.book(s, h)
	l.measure(s)
	l.divide(s)
	l.owe(s.At)
	return &l.shares
}

func (l *Ledger) note(format string, args ...any) {
	l.shares.Notes = append(l.shares.Notes, fmt.Sprintf(format, args...))
}

// settle takes over the settings.
func (l *Ledger) settle(set AllocationSettings) {
	old := &l.set
	if old.Policy != set.Policy || !maps.Equal(old.Weights, set.Weights) || !maps.Equal(old.Accounts, set.Accounts) || !slices.Equal(old.FIFO, set.FIFO) {
		l.warm, l.dirty = Warm{}, true
	}
	if old.Table != set.Table || old.Knowledge != set.Knowledge || old.Speeds.Within != set.Speeds.Within ||
		!maps.Equal(old.Speeds.Types, set.Speeds.Types) || !maps.Equal(old.Speeds.Formerly, set.Speeds.Formerly) {
		clear(l.kinds)
		for _, e := range l.jobs {
			e.kind = nil
		}
	}
	if !slices.Equal(old.Ranking.Partitions, set.Ranking.Partitions) {
		l.nodes = nil // other ones count
	}
	l.set = set
}

// look reads the nodes: the types, and how many GPUs of each may be had. What
// fits where is found anew only when a node is not what it was.
func (l *Ledger) look(s *cluster.Snapshot) {
	same := len(l.nodes) == len(s.Nodes)
	for len(l.nodes) < len(s.Nodes) {
		l.nodes = append(l.nodes, nodeKey{})
	}
	l.nodes = l.nodes[:len(s.Nodes)]
	for i := range s.Nodes {
		n, old := &s.Nodes[i], &l.nodes[i]
		if n.Name == old.name && n.GPUType == old.gpuType && n.GPUs == old.gpus && n.CPUs == old.cpus && n.MemMB == old.memMB &&
			n.Usable == old.usable && joins(old.features, n.Features) && joins(old.partitions, n.Partitions) {
			continue
		}
		same = false
		*old = nodeKey{
			name: n.Name, gpuType: n.GPUType, gpus: n.GPUs, cpus: n.CPUs, memMB: n.MemMB, usable: n.Usable,
			features: strings.Join(n.Features, ","), partitions: strings.Join(n.Partitions, ","),
		}
	}
	if same {
		return
	}
	var types []string
	for i := range s.Nodes {
		if n := &s.Nodes[i]; l.counts(n) {
			types = append(types, n.GPUType)
		}
	}
	slices.Sort(types)
	types = slices.Compact(types)
	if len(types) > placement.MaxTypes {
		types = types[:placement.MaxTypes]
	}
	l.retype(types)
	clear(l.fits)
	clear(l.kinds)
	for _, e := range l.jobs {
		e.kind = nil
	}
	gpus := make([]int, len(types))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if t, known := slices.BinarySearch(types, n.GPUType); known && l.counts(n) && n.Usable {
			gpus[t] += n.GPUs
		}
	}
	l.dirty = l.dirty || !slices.Equal(gpus, l.gpus)
	l.gpus = gpus
}

// joins tells whether text is the list, joined by commas.
func joins(text string, list []string) bool {
	for i, s := range list {
		if i > 0 {
			if text == "" || text[0] != ',' {
				return false
			}
			text = text[1:]
		}
		if !strings.HasPrefix(text, s) {
			return false
		}
		text = text[len(s):]
	}
	return text == ""
}

// counts tells whether a node's GPUs are divided: those of one named type, in a
// partition that is ranked.
func (l *Ledger) counts(n *cluster.Node) bool {
	return n.GPUs > 0 && n.GPUType != "" && !n.MixedTypes &&
		(len(n.Partitions) == 0 || slices.ContainsFunc(n.Partitions, l.set.Ranking.Ranks))
}

// takesPart tells whether the allocation counts a job.
func (l *Ledger) takesPart(j *cluster.Job, h *cluster.History, at time.Time) bool {
	if j.GPUs <= 0 || j.HetLeader != 0 || !l.set.Ranking.Ranks(j.Partition) {
		return false
	}
	switch j.State {
	case cluster.Running, cluster.Suspended:
		return true
	case cluster.Pending:
		return l.set.Ranking.Alone(j) == "" && (!h.FirstEligible[j.ID].IsZero() || j.Begins(at))
	}
	return false
}

// meet finds out which jobs there are, what they are and where they fit.
func (l *Ledger) meet(s *cluster.Snapshot, h *cluster.History) {
	l.poll++
	var empty *nodemap.Map
	nodes := func() *nodemap.Map {
		if empty == nil {
			empty = nodemap.New(s)
		}
		return empty
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if !l.takesPart(j, h, s.At) {
			continue
		}
		e := l.jobs[j.ID]
		if e != nil && (!cluster.SameUser(e.user, j.User) || j.Restarts == 0 && j.Submit.After(e.submit)) {
			e = nil // the id means another job now
		}
		if e == nil {
			e = l.newcomer(j)
			l.jobs[j.ID], l.shares.Jobs[j.ID] = e, &e.Share
			delete(l.left, j.ID)
			l.dirty = true
		}
		if e.poll == 0 {
			l.shares.Jobs[j.ID] = &e.Share
			l.dirty = true
		}
		e.poll, e.submit = l.poll, j.Submit
		l.describe(e, j, h.Own(j, slurmplug.Features), nodes)
	}
	for id, e := range l.jobs {
		if e.poll != l.poll {
			if len(e.runs) > 0 {
				l.left[id] = e
			}
			delete(l.jobs, id)
			delete(l.shares.Jobs, id)
			l.dirty = true
		}
	}
	if len(l.kinds) > 2*len(l.jobs)+1024 { // mostly of jobs that are gone
		clear(l.kinds)
		clear(l.fits)
	}
}

// newcomer is a job's entry. A task that has got a record of its own was
// promised what its array was.
func (l *Ledger) newcomer(j *cluster.Job) *entry {
	e := &entry{id: j.ID.String(), user: j.User, submit: j.Submit, runs: map[int64]cluster.Stay{}}
	e.Promised = make([]float64, len(l.shares.Types))
	if j.Restarts == 0 {
		e.born = j.Submit
	}
	if j.ID.Task != slurmplug.NoTask {
		if array := l.jobs[slurmplug.Plain(j.ID.ID)]; array != nil && cluster.SameUser(array.user, j.User) {
			e.Promised, e.Time, e.Given = slices.Clone(array.Promised), array.Time, array.Given
			e.request, e.mask, e.out = array.request, array.mask, array.out
		}
	}
	return e
}

// describe brings up to date what a job is. What a running job asked for Slurm
// does not show as it was: that stays as it was known.
func (l *Ledger) describe(e *entry, j *cluster.Job, constraint string, nodes func() *nodemap.Map) {
	r := request{
		gpuType: j.GPUType, features: constraint, partition: j.Partition, nodes: j.Nodes, gpus: j.GPUs, cpus: j.CPUs, memMB: j.MemMB, node: j.Node,
	}
	waits := j.State == cluster.Pending
	switch {
	case waits:
		e.mask = nil
	case e.request != (request{}):
		r = e.request
	}
	if e.kind != nil && r == e.request {
		return
	}
	e.request = r
	e.program = programKey{workload: j.Tag.Workload, speed: speedText(j.Tag.Speed), gpus: j.GPUs}
	if j.Tag.Workload == "" {
		e.program.user, e.program.name = j.User, j.Name
	}
	key := kindKey{r, e.program, e.out}
	k := l.kinds[key]
	if k == nil || e.mask != nil {
		k = &kind{}
		fits := e.mask
		if fits == nil {
			fits = except(l.where(r, j, nodes), e.out)
			l.kinds[key] = k
		}
		l.judge(k, j, fits)
	}
	l.dirty = l.dirty || e.kind == nil || !slices.Equal(e.kind.speed, k.speed)
	e.kind, e.Answers, e.Speed = k, k.answers, k.speed
}

// Exclude takes in on which types, in the order of the last Allocate, jobs cannot run:
// the next Allocate gives them no time there.
func (l *Ledger) Exclude(out map[cluster.JobID]placement.Types) {
	for id, types := range out {
		if e := l.jobs[id]; e != nil && e.out != types {
			e.out, e.kind = types, nil
		}
	}
}

// except is fits without some types, unless it leaves none: then Slurm knows.
func except(fits []bool, out placement.Types) []bool {
	left := slices.Clone(fits)
	for t := range left {
		left[t] = left[t] && !out.Has(int32(t))
	}
	if !slices.Contains(left, true) {
		return fits
	}
	return left
}

func speedText(speeds map[string]float64) string {
	if len(speeds) == 0 {
		return ""
	}
	var b strings.Builder
	for _, t := range slices.Sorted(maps.Keys(speeds)) {
		fmt.Fprintf(&b, "%s:%x,", t, speeds[t])
	}
	return b.String()
}

// where tells on which types a job fits, on an empty cluster. A constraint that
// is not understood keeps it from none: Slurm knows.
func (l *Ledger) where(r request, j *cluster.Job, nodes func() *nodemap.Map) []bool {
	fits, known := l.fits[r]
	if known {
		return fits
	}
	m := nodes()
	any := *j
	any.Features = r.features
	kinds, understood := m.Types(&any)
	if !understood {
		any.Features = ""
		kinds, _ = m.Types(&any)
	}
	empty := m.Empty()
	fits = make([]bool, len(l.shares.Types))
	for t, name := range l.shares.Types {
		var of placement.Types
		for k, n := range m.Kinds {
			if n.GPUType == name && kinds.Has(int32(k)) && l.counts(n) {
				of |= 1 << uint(k)
			}
		}
		if of != 0 {
			_, fits[t] = empty.Fit(m.Request(&any, of), nil)
		}
	}
	l.fits[r] = fits
	return fits
}

// judge asks how fast a job is.
func (l *Ledger) judge(k *kind, j *cluster.Job, fits []bool) {
	asked := speed.Job{Tag: j.Tag, User: j.User, Name: j.Name, GPUs: j.GPUs}
	answers := l.set.Speeds.For(&asked, l.shares.Types, l.set.Table, l.set.Knowledge)
	k.answers, k.speed = &answers, make([]float64, len(fits))
	fastest := 0.0
	for t, a := range answers.Speeds {
		if fits[t] {
			k.speed[t] = a.Speed
			fastest = max(fastest, a.Speed)
		}
	}
	for t := range k.speed {
		if fastest > 0 {
			k.speed[t] /= fastest
		}
		if k.speed[t] == 1 && l.set.Table != nil && answers.Speeds[t].Source == speed.Workload {
			if id, known := l.set.Table.Lookup(j.Tag.Workload); known {
				k.steps, _ = l.set.Table.Speed(id, j.GPUs, l.shares.Types[t])
			}
		}
	}
}

// book takes in who ran where. The fractions count from a whole multiple of
// AllocationSettings.Every, so that they do not depend on when priod started.
func (l *Ledger) book(s *cluster.Snapshot, h *cluster.History) {
	since := s.At.Truncate(max(l.set.Every, time.Second))
	anew := !since.Equal(l.since)
	l.since, l.shares.Since = since, since
	for i := range h.Stays() {
		i.GPUType = l.set.Speeds.Today(i.GPUType)
		e := l.jobs[i.Job]
		if e == nil {
			e = l.left[i.Job]
		}
		if e == nil || !cluster.SameUser(i.User, e.user) || i.Start.Before(e.born) {
			continue
		}
		switch r, known := e.runs[i.Start.Unix()]; {
		case known && r == i:
			continue
		case known && r.End.Before(since), !known && i.Start.Before(since):
			anew = true // it is older than the fractions, or was taken to be
		}
		e.runs[i.Start.Unix()] = i
		if !anew {
			l.account.Observe(i)
		}
	}
	if anew {
		l.account = New()
		clear(l.left)
		for id, e := range l.jobs {
			for _, i := range e.runs {
				i.Job = id
				if i.End.After(since) {
					i.End = since
				}
				l.account.Observe(i)
			}
		}
		l.account.Reset()
		for id, e := range l.jobs {
			for _, i := range e.runs {
				i.Job = id
				l.account.Observe(i)
			}
		}
	}
	for i := range h.Stays() { // those who are gone took their part, too
		if l.jobs[i.Job] == nil && l.left[i.Job] == nil && i.End.After(since) {
			i.GPUType = l.set.Speeds.Today(i.GPUType)
			if i.Start.Before(since) {
				i.Start = since
			}
			l.account.Observe(i)
		}
	}
}

// measure finds what each job received, and what it has still to do.
func (l *Ledger) measure(s *cluster.Snapshot) {
	n := len(l.shares.Types)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := l.jobs[j.ID]
		if e == nil {
			continue
		}
		if len(e.Run) != n {
			e.Seconds, e.Received, e.Owed, e.Run = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		}
		e.work = forever
		switch {
		case j.Tag.Steps > 0 && e.kind.steps > 0:
			e.work = j.Tag.Steps / e.kind.steps
		case j.TimeLimit != slurmplug.Unlimited:
			e.work = j.TimeLimit.Seconds() * slowest(e.Speed)
		}
		done := 0.0
		if len(e.runs) > 0 {
			for t, name := range l.shares.Types {
				e.Seconds[t] = l.account.Received(j.ID, name)
				e.Received[t] = l.account.Fraction(j.ID, name)
			}
			done = e.done(j, l.shares.Types, l.set.Speeds.Today(j.GPUType))
		}
		e.left = max(e.work-done, 1)
		for t, v := range e.Speed {
			e.Run[t] = math.Inf(1)
			if v > 0 {
				e.Run[t] = e.left / v
			}
		}
	}
}

// slowest is the least speed above 0; the time limit has to do there, too.
func slowest(speeds []float64) float64 {
	least := 1.0
	for _, v := range speeds {
		if v > 0 {
			least = min(least, v)
		}
	}
	return least
}

// done is the work that a job has done and would not have to do again, s on its
// fastest type: all of it when it saves its state, else that of its present run.
func (e *entry) done(j *cluster.Job, types []string, now string) (sum float64) {
	if j.Tag.Ckpt == 0 && j.Tag.Grace == 0 {
		run, runs := e.runs[j.Start.Unix()]
		if at, known := slices.BinarySearch(types, now); runs && known && j.State != cluster.Pending {
			return run.End.Sub(run.Start).Seconds() * e.Speed[at]
		}
		return 0
	}
	for t, s := range e.Seconds {
		sum += s * e.Speed[t]
	}
	return sum
}

// Due tells whether the last allocation is too old to stand at a time, or of a later
// one: the clock was set back.
func (l *Ledger) Due(at time.Time, set *AllocationSettings) bool {
	age := at.Sub(l.shares.At)
	return age < 0 || age >= set.Every
}

// divide solves the policy when it is time to.
func (l *Ledger) divide(s *cluster.Snapshot) {
	if total(l.gpus) == 0 || !l.dirty && !l.Due(s.At, &l.set) {
		if l.trouble != "" {
			l.note("%s", l.trouble)
		}
		return // with every node down, what was allocated stays
	}
	entries := l.pose(s)
	l.dirty, l.shares.At, l.trouble = false, s.At, ""
	if len(entries) == 0 {
		return
	}
	a, err := l.set.Policy.Allocate(&l.problem)
	if err != nil {
		l.trouble = fmt.Sprintf("the allocation failed and the last one stays: %v", err)
		if l.set.Trouble != nil {
			l.trouble += "; " + l.set.Trouble(&l.problem, err)
		}
		l.note("%s", l.trouble)
		return
	}
	if l.set.Policy.Name == "finish-time-fairness" {
		for i, rate := range l.problem.IsolatedRates() {
			entries[i].rate = rate
		}
	}
	for i := 0; i < len(entries); {
		n := i + 1
		for n < len(entries) && entries[n] == entries[i] {
			n++
		}
		entries[i].give(mean(a.Time[i:n]), s.At)
		i = n
	}
}

// mean is what each task of an array gets: policies such as fifo give some all of
// their time and others none.
func mean(rows [][]float64) []float64 {
	if len(rows) == 1 {
		return rows[0]
	}
	of := make([]float64, len(rows[0]))
	for _, row := range rows {
		for t, x := range row {
			of[t] += x / float64(len(rows))
		}
	}
	return of
}

func total(n []int) (sum int) {
	for _, v := range n {
		sum += v
	}
	return sum
}

// pose writes the problem down. An array is as many jobs as it has tasks.
func (l *Ledger) pose(s *cluster.Snapshot) []*entry {
	p := &l.problem
	*p = Problem{Types: p.Types[:0], Jobs: p.Jobs[:0], Warm: &l.warm}
	for t, name := range l.shares.Types {
		p.Types = append(p.Types, GPUType{Name: name, GPUs: l.gpus[t]})
	}
	entity := map[string]int{}
	var entries []*entry
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := l.jobs[j.ID]
		if e == nil || !slices.ContainsFunc(e.Speed, func(v float64) bool { return v > 0 }) {
			continue
		}
		if e.rate > 0 {
			e.elapsed += max(e.work-e.left-e.booked, 0) / e.rate
		}
		e.booked = e.work - e.left
		row := Job{
			ID: e.id, Speed: e.Speed, GPUs: j.GPUs, Weight: l.weight(j.Account), StepsLeft: e.left,
			Elapsed: max(s.At.Sub(j.Submit).Seconds(), 0), IsolatedElapsed: e.elapsed, Arrival: float64(j.Submit.Unix()),
			Deadline: NoDeadline, Entity: NoEntity, Previous: e.Time,
		}
		if l.set.Policy.Name == "hierarchical" {
			row.Weight = 1
			at, known := entity[j.Account]
			if !known {
				at = len(p.Entities)
				entity[j.Account] = at
				p.Entities = append(p.Entities, l.entity(j.Account))
			}
			row.Entity = at
		}
		for range min(max(j.TaskCount, 1), most) {
			p.Jobs, entries = append(p.Jobs, row), append(entries, e)
		}
	}
	return entries
}

func (l *Ledger) weight(account string) float64 {
	if w, known := l.set.Weights[account]; known {
		return w
	}
	return 1
}

// entity is an account: the operator's weight, else Slurm's share.
func (l *Ledger) entity(account string) Entity {
	e := Entity{Name: account, Weight: l.weight(account), FIFO: slices.Contains(l.set.FIFO, account)}
	if _, said := l.set.Weights[account]; !said && l.set.Accounts[account] > 0 {
		e.Weight = l.set.Accounts[account]
	}
	return e
}

// give takes over new times if they differ enough from those that the job has.
func (e *entry) give(row []float64, at time.Time) {
	if e.Time != nil && !slices.ContainsFunc(differences(e.Time, row), func(d float64) bool { return d > 0 }) {
		return
	}
	passed := max(at.Sub(e.Given).Seconds(), 0)
	for t := range e.Promised {
		if e.Time != nil {
			e.Promised[t] += e.Time[t] * passed
		}
	}
	e.Time, e.Given = slices.Clone(row), at
}

// differences are by how much new times differ more than a job keeps.
func differences(old, now []float64) []float64 {
	d := make([]float64, len(now))
	for t, x := range now {
		d[t] = math.Abs(x-old[t]) - keepsWhole - keeps*max(x, old[t])
	}
	return d
}

// owe sums what each job was promised, and finds its priority.
func (l *Ledger) owe(at time.Time) {
	for _, e := range l.jobs {
		passed := max(at.Sub(e.Given).Seconds(), 0)
		e.Priority = 0
		for t := range e.Owed {
			e.Owed[t] = e.Promised[t] - e.Seconds[t]
			if e.Time == nil {
				continue
			}
			e.Owed[t] += e.Time[t] * passed
			switch x, had := e.Time[t], e.Received[t]; {
			case !(x > 0) || e.Speed[t] == 0:
			case had > 0:
				e.Priority = max(e.Priority, x/had)
			default:
				e.Priority = max(e.Priority, x*plan.Untouched)
			}
		}
	}
}
