// Package steer says which GPU type each pending job near the head of the
// queue should get, so that jobs which start once and stay share the types as
// an allocation of Gavel's (OSDI 2020) would divide their time. On Slurm the
// type is written as a node feature; nobody is evicted.
//
// Jobs choose in their order. Each looks at the types on which its allocation
// gives it time, at when a shadow schedule of the running jobs and those before
// it would start it there, and at how long it would run. A GPU that nobody is
// planned on now goes to the job that it suits best among those that end no
// later on it than where they were planned: it stays idle only while every job
// that could use it ends sooner elsewhere.
//
// A type that was given stays for Rule.Keep, and one that was left does not come
// back for Rule.Away: until then a job moves only to where it starts at once. What is
// expected of a wait changes with each job that comes, ends or is sized, and what is
// free may be taken before Slurm comes to the job: following each of these would
// write a job to and fro between the same types. A job that is not to wait (Job.Now)
// is bound only to a type where it starts now, and only where it has a choice.
//
// Decide is pure: a snapshot and a rule in, a verdict with its reasons for each job out.
package steer

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"slurmprio/priod/placement"
)

// Open is the type of a job that nobody steers.
const Open = int32(-1)

// Settings of the choice.
type Rule struct {
	Depth int // jobs from the head that are looked at; 0: all
	// Wait is what a second of waiting weighs, in seconds of running, when a job
	// chooses among the types that it is allocated. Below 1 it would take a slow
	// type that is free before it waits; a job that waits holds up others, too.
	Wait float64
	// Least is the fraction of a job's time from which on it counts as
	// allocated to a type.
	Least float64
	// Keep is for how long a type stays once it was given, s, and Away for how long one
	// that was left is not given again.
	Keep, Away float64
	// Change is what takes a job's type back after that: so much less of its time allocated
	// to it than when it was steered; or another type whose choice is better by
	// this part.
	Change float64
	Cycles int // a job that could start on its type for so many cycles and did not is let go
	// Busy leaves no GPU idle that a job near the head could use, also when the
	// job would end sooner by waiting for another.
	Busy bool
}

// Defaults are the settings for those who have measured nothing else.
var Defaults = Rule{Depth: 500, Wait: 16, Least: 0.001, Keep: 60, Away: 60, Change: 0.2, Cycles: 20}

// Check refuses settings that mean nothing.
func (set *Rule) Check() error {
	number := func(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
	switch {
	case set.Depth < 0 || set.Cycles < 1:
		return fmt.Errorf("steering: depth %d and cycles %d: want a depth from 0 and at least one cycle", set.Depth, set.Cycles)
	case !number(set.Wait) || !number(set.Least) || !number(set.Keep) || !number(set.Away) || !number(set.Change):
		return errors.New("steering: weights and thresholds are numbers from 0")
	}
	return nil
}

// Snapshot is what is decided on. Times are in seconds from now.
type Snapshot struct {
	Nodes *placement.Nodes // what is free now; it is not changed
	Types int              // how many GPU types there are
	// Apart are nodes to which no verdict can lead: of which GPU type those are that
	// the nodes call type Types, Types+1 and so on. Jobs left alone may start there.
	Apart   []int32
	Running []Running
	Jobs    []Job // pending, in the order of the queue
}

// Running is a job that holds GPUs.
type Running struct {
	Shares []placement.Share
	End    float64 // expected: by the work that it has left, else by its time limit
}

// Job is a pending job. Its slices go by GPU type.
type Job struct {
	Request  placement.Request // with the types that its own constraint allows, also of Snapshot.Apart
	Consent  bool              // it may be steered
	Now      bool              // it is not to wait for a type
	Run      []float64         // expected run time there, s; infinite: it does not run there
	Time     []float64         // fraction of its time allocated to the type; nil: none
	Received []float64         // fraction of the type's time received (share.Account); nil: none
	Steered  int32             // the type written by an earlier decision; Open
	Given    float64           // Time on that type when it was steered
	Held     float64           // s since then
	Left     placement.Types   // types that it was bound to before, until less than Settings.Away ago
	Ready    int               // cycles since then in which it could have started there and did not
}

// Why says in one word what becomes of a job.
type Why string

// The words.
const (
	Starts    Why = "starts"      // an allocated type is free for it
	Waits     Why = "waits"       // it ends sooner by waiting for this type than on any that is free
	Takes     Why = "takes-other" // it would wait longer for an allocated type than it gains there, or Settings.Busy
	Far       Why = "not-near"    // too far from the head; left open
	NoConsent Why = "no-consent"  // left alone
	OneType   Why = "one-type"    // its own constraint leaves nothing to choose; left alone
	NoRoom    Why = "no-room"     // fits no type, now or when all jobs have ended; left open
	NoTime    Why = "no-time"     // no type is allocated to it; left open
	Unbound   Why = "not-bound"   // Job.Now, and no type is free for it now, or only one; left open
	Stuck     Why = "not-started" // could start on its type for Settings.Cycles cycles and did not; left open

	// Why an earlier type is taken back.
	Changed Why = "allocation-changed"
	Down    Why = "nodes-down"
	Better  Why = "better-type" // another one has become better by Settings.Change
	Full    Why = "not-free"    // Job.Now, and it does not start there now
)

// Verdict is what is decided for one job.
type Verdict struct {
	Type  int32 // to steer to; Open: no feature
	Why   Why
	Back  Why     // why the type that it was steered to is taken back; "" when it is not
	Start float64 // expected there, s from now; infinite when open
	End   float64
	// Other is the best of the types not chosen, Open when there is none, and
	// OtherEnd when it would end there.
	Other    int32
	OtherEnd float64
	NotGiven bool // the allocation gives it no time on Other
	Idle     bool // a type that it could use now is left free for it to wait
}

// Decide gives one verdict for each job.
func Decide(s *Snapshot, set Rule) []Verdict {
	p := newPlanner(s, set)
	for i := range s.Jobs {
		p.verdicts[i] = p.choose(i)
	}
	p.fill()
	for i := range s.Jobs {
		p.compare(i)
	}
	return p.verdicts
}

// planner keeps the shadow schedule. What is free now it knows node by node;
// what will be free it counts by type, so a plan for later may come a little
// early for a gang that finds its GPUs scattered, and costs the same on any
// number of nodes.
type planner struct {
	*Snapshot
	set      Rule
	verdicts []Verdict
	now      *placement.Nodes    // what jobs that start now leave free
	line     *placement.Timeline // of GPUs, one node for each type
	next     []float64           // by type, when the next job ends that runs or is planned to start now
	awaited  placement.Types     // on which a job before in the queue is planned for later
}

func newPlanner(s *Snapshot, set Rule) *planner {
	p := &planner{Snapshot: s, set: set, verdicts: make([]Verdict, len(s.Jobs)), now: s.Nodes.Clone()}
	pools := make([]placement.Node, s.Types+len(s.Apart))
	for t := range pools {
		pools[t] = placement.Node{Type: int32(t), Amount: placement.Amount{GPUs: int32(s.Nodes.FreeGPUs(int32(t)))}}
		p.next = append(p.next, math.Inf(1))
	}
	p.line = placement.NewTimeline(0, placement.New(placement.Pool, pools))
	held := p.held()
	last := make([]float64, len(pools)) // by type, when the last job ends whose end is known
	for _, r := range s.Running {
		for _, share := range r.Shares {
			if s.Nodes.Down(share.Node) {
				continue
			}
			t, end := s.Nodes.Type(share.Node), max(r.End, soon)
			p.line.Free(pool(t, share.GPUs), end, math.Inf(1))
			p.next[t] = min(p.next[t], end)
			held[t] -= share.GPUs
			last[t] = max(last[t], end)
		}
	}
	// Nodes are read after jobs: a GPU may be held by a job that has started since, or
	// by one that priod does not count. It is in use until the last of the others ends;
	// where there are no others, nobody knows until when.
	for t, gpus := range held {
		if gpus > 0 && last[t] > 0 {
			p.line.Free(pool(int32(t), gpus), last[t], math.Inf(1))
		}
	}
	return p
}

// held is how many GPUs of each type are in use on nodes that are up.
func (p *planner) held() []int32 {
	held := make([]int32, p.Types+len(p.Apart))
	for i := range int32(p.Nodes.Len()) {
		if t := p.Nodes.Type(i); !p.Nodes.Down(i) && int(t) < len(held) {
			held[t] += p.Nodes.Size(i).GPUs - max(p.Nodes.FreeOn(i).GPUs, 0)
		}
	}
	return held
}

// soon keeps what has not ended from being free now.
const soon = 1e-3

func pool(t, gpus int32) []placement.Share {
	return []placement.Share{{Node: t, Amount: placement.Amount{GPUs: gpus}}}
}

// choose plans a job on the allocated type where its waiting, weighed, and its
// run are the least. A job without consent, or open, is planned where Slurm
// would start it: others have to reckon with it.
func (p *planner) choose(i int) Verdict {
	j := &p.Jobs[i]
	open := func(why Why) Verdict {
		return Verdict{Type: Open, Why: why, Start: math.Inf(1), End: math.Inf(1), Other: Open}
	}
	switch {
	case p.set.Depth > 0 && i >= p.set.Depth:
		return p.release(j, open(Far))
	case !j.Consent:
		return p.asSlurm(i, open(NoConsent))
	case j.Steered == Open && bits.OnesCount64(uint64(j.Request.Types)<<(placement.MaxTypes-p.Types)) < 2:
		return p.asSlurm(i, open(OneType))
	case p.stuck(j):
		v := p.asSlurm(i, open(Stuck))
		v.Back = Stuck
		return v
	case j.Now:
		return p.atOnce(i, open(Unbound))
	}
	best, least := open(NoTime), math.Inf(1)
	kept := p.kept(j)
	stays := j.Steered != Open && !p.changed(j)
	for t := range int32(p.Types) {
		stay := kept && t == j.Steered
		if !stay && (!p.allocated(j, t) || j.Left.Has(t)) {
			continue
		}
		start, ok := p.earliest(j, t)
		if !ok || kept && !stay && start > 0 {
			continue
		}
		score := start*p.set.Wait + j.Run[t]
		if stay || stays && t == j.Steered {
			score /= 1 + p.set.Change
		}
		if score < least || score == least && p.need(j, t) > p.need(j, best.Type) {
			least = score
			best.Type, best.Why, best.Start, best.End = t, Waits, start, start+j.Run[t]
		}
	}
	if best.Type == Open && j.Steered != Open && j.Held < p.set.Away && j.runs(j.Steered) { // it was open before: too soon
		if start, up := p.earliest(j, j.Steered); up {
			best.Type, best.Why, best.Start, best.End = j.Steered, Waits, start, start+j.Run[j.Steered]
		}
	}
	if best.Type == Open {
		if !p.hasRoom(j) {
			best.Why = NoRoom
		}
		return p.release(j, best)
	}
	p.reserve(j, best)
	if best.Start == 0 {
		best.Why = Starts
	} else {
		p.awaited |= 1 << uint(best.Type)
	}
	return p.release(j, best)
}

// stuck tells whether Slurm does not start a job on its type, although it could. One
// that is not to wait is given no time to find that out by.
func (p *planner) stuck(j *Job) bool {
	if j.Now {
		return j.Steered != Open && j.Ready >= min(p.set.Cycles, patience)
	}
	return j.Steered != Open && j.Ready >= p.set.Cycles && j.Held >= max(p.set.Keep, p.set.Away)
}

// patience is for how many cycles a job that is not to wait may stand where it could
// start: the first one's write may have come behind Slurm's last pass.
const patience = 2

// kept tells whether a job's type is too new to be taken back, and has a place for it.
func (p *planner) kept(j *Job) bool {
	if j.Steered == Open || j.Held >= p.set.Keep || !j.runs(j.Steered) {
		return false
	}
	_, up := p.earliest(j, j.Steered)
	return up
}

// atOnce binds a job that has a choice of types where it starts now: to one that is
// allocated to it, and then to the fastest. Else v leaves it open, and Slurm starts it
// on the first that is free. Where a job before it in the queue waits, backfill may not
// let it start, whatever is free.
func (p *planner) atOnce(i int, v Verdict) Verdict {
	j := &p.Jobs[i]
	free, best := 0, Open
	for t := range int32(p.Types) {
		if j.Steered != Open && t != j.Steered || j.Left.Has(t) || !p.startsNow(j, t) {
			continue
		}
		if j.Steered == Open && p.awaited.Has(t) {
			continue // Slurm may keep what is free for the one before
		}
		free++
		if gets := p.allocated(j, t); best == Open || gets && !p.allocated(j, best) || gets == p.allocated(j, best) && j.Run[t] < j.Run[best] {
			best = t
		}
	}
	if free < 2 && best != j.Steered || best == Open {
		if v = p.asSlurm(i, v); v.Back != "" {
			v.Back = Full
		}
		return v
	}
	v.Type, v.Why, v.Start, v.End = best, Starts, 0, j.Run[best]
	p.reserve(j, v)
	return v
}

func (p *planner) startsNow(j *Job, t int32) bool {
	if !j.runs(t) {
		return false
	}
	start, ok := p.earliest(j, t)
	return ok && start == 0
}

// hasRoom tells whether a job could start anywhere, allocated or not.
func (p *planner) hasRoom(j *Job) bool {
	for t := range int32(p.Types) {
		if j.runs(t) {
			if _, ok := p.earliest(j, t); ok {
				return true
			}
		}
	}
	return false
}

// asSlurm plans a job on the type that has room for it first.
func (p *planner) asSlurm(i int, v Verdict) Verdict {
	j := &p.Jobs[i]
	plan := v
	for t := range int32(p.Types + len(p.Apart)) {
		run := j.Run[p.is(t)]
		if !j.Request.Types.Has(t) || math.IsInf(run, 1) {
			continue
		}
		if start, ok := p.earliest(j, t); ok && start < plan.Start {
			plan.Type, plan.Start, plan.End = t, start, start+run
		}
	}
	if plan.Type != Open {
		p.reserve(j, plan)
		v.Start, v.End = plan.Start, plan.End
	}
	if plan.Start > 0 { // Slurm may wait for any of them
		p.awaited |= j.Request.Types
	}
	return p.release(j, v)
}

// is the GPU type of the nodes' type t.
func (p *planner) is(t int32) int32 {
	if int(t) < p.Types {
		return t
	}
	return p.Apart[int(t)-p.Types]
}

func (j *Job) runs(t int32) bool { return j.Request.Types.Has(t) && !math.IsInf(j.Run[t], 1) }

// allocated tells whether a job's allocation gives it time on a type.
func (p *planner) allocated(j *Job, t int32) bool {
	return j.Time != nil && j.Time[t] >= p.set.Least && j.runs(t)
}

// need is Gavel's priority of a job on a type, allocated over received: of two
// equal choices a job that was requeued takes the one that is owed to it.
func (p *planner) need(j *Job, t int32) float64 {
	if t == Open || j.Time == nil {
		return 0
	}
	if j.Received == nil || j.Received[t] == 0 {
		return j.Time[t] * 1e9
	}
	return j.Time[t] / j.Received[t]
}

func (p *planner) changed(j *Job) bool {
	return j.Time == nil || j.Given-j.Time[j.Steered] > p.set.Change
}

// on is what a job asks for on one type: more nodes than one where none can hold it.
func (p *planner) on(j *Job, t int32) placement.Request {
	r := j.Request
	if r.Types = 1 << uint(t); r.Nodes == 1 && r.GPUs > p.now.Largest(t) {
		r.Nodes = 0
	}
	return r
}

// counted is a request in GPUs of its one type, as the line counts them.
func (p *planner) counted(r placement.Request, t int32) placement.Request {
	r.GPUs, r.Whole = p.now.Takes(r, t), false
	return r
}

// pooled is what a job takes of the line.
func (p *planner) pooled(j *Job, t int32) []placement.Share {
	return pool(t, p.counted(p.on(j, t), t).GPUs)
}

// earliest is when a job could start on a type, behind those planned so far.
func (p *planner) earliest(j *Job, t int32) (start float64, ok bool) {
	r := p.on(j, t)
	counted, run := p.counted(r, t), j.Run[p.is(t)]
	start, _, ok = p.line.Earliest(counted, 0, run)
	if ok && start == 0 {
		if _, fits := p.now.Fit(r, nil); !fits { // what is free lies scattered, or lacks CPUs or memory
			from := p.next[t]
			if math.IsInf(from, 1) { // jobs without GPUs hold the rest, nobody knows until when: as long as this one runs
				from = run
			}
			start, _, ok = p.line.Earliest(counted, from, run)
			ok = ok && !math.IsInf(start, 1)
		}
	}
	return start, ok
}

// reserve keeps a job's GPUs for it as its verdict says.
func (p *planner) reserve(j *Job, v Verdict) {
	p.line.Reserve(p.pooled(j, v.Type), v.Start, v.End)
	if v.Start == 0 {
		shares, _ := p.now.Fit(p.on(j, v.Type), nil)
		p.now.Take(shares)
		p.next[v.Type] = min(p.next[v.Type], v.End)
	}
}

// release says why a type that was written before goes.
func (p *planner) release(j *Job, v Verdict) Verdict {
	if j.Steered == Open || j.Steered == v.Type {
		return v
	}
	v.Back = Better
	if p.changed(j) {
		v.Back = Changed
	}
	if _, up := p.earliest(j, j.Steered); !up {
		v.Back = Down
	}
	return v
}

// fill gives GPUs that nobody is planned on now to jobs that end no later on
// them, the one first whom the type suits best.
func (p *planner) fill() {
	for {
		best, to, suits := -1, Open, 0.0
		for i := range p.Jobs {
			j, v := &p.Jobs[i], &p.verdicts[i]
			if v.Why != Waits && v.Why != NoRoom && v.Why != NoTime {
				continue
			}
			for t := range int32(p.Types) {
				if p.now.FreeGPUs(t) < int(j.Request.GPUs) || !j.runs(t) || j.Left.Has(t) || !p.set.Busy && !(j.Run[t] <= v.End) {
					continue
				}
				fit := shortest(j.Run) / j.Run[t]
				if fit <= suits {
					continue
				}
				if start, ok := p.earliest(j, t); ok && start == 0 {
					best, to, suits = i, t, fit
				}
			}
		}
		if best < 0 {
			return
		}
		p.move(best, to)
	}
}

// move plans a job on a type where it starts now instead.
func (p *planner) move(i int, t int32) {
	j, v := &p.Jobs[i], &p.verdicts[i]
	if v.Type != Open {
		p.line.Free(p.pooled(j, v.Type), v.Start, v.End)
	}
	v.Other, v.OtherEnd = v.Type, v.End
	v.Type, v.Why, v.Start, v.End, v.Back = t, Takes, 0, j.Run[t], ""
	back := p.release(j, *v).Back
	p.reserve(j, *v)
	v.Back = back
}

func shortest(run []float64) float64 {
	least := math.Inf(1)
	for _, r := range run {
		least = min(least, r)
	}
	return least
}

// compare fills in what the best of the other types would have given.
func (p *planner) compare(i int) {
	j, v := &p.Jobs[i], &p.verdicts[i]
	if v.Type == Open {
		return
	}
	if v.Why != Takes {
		v.Other, v.OtherEnd = Open, math.Inf(1)
	}
	for t := range int32(p.Types) {
		if t == v.Type || !j.runs(t) {
			continue
		}
		start, ok := p.earliest(j, t)
		if !ok {
			continue
		}
		v.Idle = v.Idle || v.Start > 0 && start == 0
		if end := start + j.Run[t]; v.Why != Takes && end < v.OtherEnd {
			v.Other, v.OtherEnd = t, end
		}
	}
	v.NotGiven = v.Other != Open && !p.allocated(j, v.Other)
}

// boundless is a time, in s, that no time limit bounds: Slurm and the allocation count a
// year for none, of which some may have passed.
const boundless = 180 * 24 * 3600

// Explain says a verdict in words for a person; name gives a type's.
func (v *Verdict) Explain(name func(int32) string) string {
	minutes := func(s float64) string { return fmt.Sprintf("%.0f min", s/60) }
	in := func(s float64) string {
		if s >= boundless {
			return "at no known time"
		}
		return "in " + minutes(s)
	}
	text := ""
	switch v.Why {
	case Starts:
		text = fmt.Sprintf("%s is allocated to it and free", name(v.Type))
	case Waits:
		text = fmt.Sprintf("waits %s for %s, where it ends %s", minutes(v.Start), name(v.Type), in(v.End))
		if v.Start >= boundless {
			text = fmt.Sprintf("waits for %s, where jobs without a time limit run", name(v.Type))
		}
		if v.Other != Open {
			given := ""
			if v.NotGiven {
				given = ", where nothing is allocated to it,"
			}
			text += fmt.Sprintf("; on %s%s it would end %s", name(v.Other), given, in(v.OtherEnd))
		}
	case Takes:
		text = fmt.Sprintf("takes %s, which is free and where it ends %s", name(v.Type), in(v.End))
		if v.Other != Open {
			text += fmt.Sprintf("; waiting for %s it would end %s", name(v.Other), in(v.OtherEnd))
		}
	default:
		text = map[Why]string{
			Far: "too far from the head of the queue", NoConsent: "its tag gives no speed or workload: it may not be steered",
			OneType: "what it asks for leaves one GPU type", NoRoom: "no GPU type has room for it, now or later", NoTime: "the allocation gives it no time now: left open",
			Unbound: "it is not to wait: left open, to start on the first type that is free",
			Stuck:   "it could start on the type that it was given, and Slurm did not start it: left open",
		}[v.Why]
	}
	switch v.Back {
	case Changed:
		text += "; the type before is taken back: the allocation has changed"
	case Full:
		text += "; the type before is taken back: it does not start there now"
	case Down:
		text += "; the type before is taken back: its nodes are down"
	case Better:
		text += "; the type before is taken back: this is better"
	}
	return text
}
