package steer

import (
	"math"
	"math/bits"

	"slurmprio/priod/placement"
)

// Snapshot is what Decide decides on. Times are in seconds from now; GPU types go by number, from 0 to Types-1.
type Snapshot struct {
	Nodes *placement.Nodes // what is free now; Decide does not change it
	Types int
	// Unlabelled are nodes that lack the feature of their GPU type, so that no bound job starts on them; jobs that are not steered may. Nodes
	// calls them types of their own, Types, Types+1 and so on: here is the GPU type of each.
	Unlabelled []int32
	Unknown    placement.Types // on which GPUs were in use by unknown jobs in the cycle before; by Nodes' types
	Running    []Running
	Jobs       []Job // pending, in the order of the queue
}

// Running is a job that holds GPUs.
type Running struct {
	Shares []placement.Share
	End    float64 // expected: by the work that is left, else by the time limit
	Sure   float64 // for so long End is the same moment; then it is put off as time passes
}

// Job is a pending job. Its slices go by GPU type.
type Job struct {
	Request  placement.Request // with the types that its own constraint allows, also of Snapshot.Unlabelled
	Consent  bool              // it may be steered
	Alone    placement.Types   // of these, those on which it starts while it is bound to none; none: all
	NoWait   bool              // it is bound only where it starts now: a TE job
	Run      []float64         // expected run time, s; infinite: it does not run there
	Time     []float64         // fraction of its time that is allocated to each type (X in Gavel); nil: none
	Received []float64         // fraction of each type's time that it has received; nil: none
	Steered  int32             // the type that an earlier decision bound it to, or Open
	Given    float64           // Time on that type when it was bound
	Held     float64           // s since then
	JustLeft placement.Types   // types that it was bound to until less than Rule.Away ago
	Ready    int               // cycles since it was bound in which it could have started there and did not
}

// unbound are the types on which a job starts while it is bound to none.
func (j *Job) unbound() placement.Types {
	if j.Alone != 0 {
		return j.Alone
	}
	return j.Request.Types
}

// runs reports whether a job may and can run on a type.
func (j *Job) runs(t int32) bool { return j.Request.Types.Has(t) && !math.IsInf(j.Run[t], 1) }

// Decide gives one verdict for each job. It is pure.
func Decide(s *Snapshot, rule Rule) []Verdict {
	verdicts, _ := decide(s, rule)
	return verdicts
}

// decide is Decide, and for how long, s, the verdicts stand if no job and no node changes: see standing.go.
func decide(s *Snapshot, rule Rule) (verdicts []Verdict, stands float64) {
	p := &planner{shadow: newShadow(s), rule: rule, verdicts: make([]Verdict, len(s.Jobs))}
	for i := range s.Jobs {
		p.verdicts[i] = p.choose(&s.Jobs[i], i)
	}
	p.fillIdle()
	p.standsFor(p.standing())
	stands = p.stands
	for i := range s.Jobs {
		p.compare(i)
	}
	return p.verdicts, stands
}

// planner chooses a type for each job, in the order of the queue.
type planner struct {
	shadow
	rule     Rule
	verdicts []Verdict
}

// open is the verdict that binds a job to no type and does not say when it starts.
func open(why Why) Verdict {
	return Verdict{Type: Open, Why: why, Start: math.Inf(1), End: math.Inf(1), Other: Open}
}

// to is a verdict that binds the job to a type.
func (v Verdict) to(t int32, why Why, start, run float64) Verdict {
	v.Type, v.Why, v.Start, v.End = t, why, start, start+run
	return v
}

// choose decides for the i-th job, and puts it into the schedule: bound to a type, or where Slurm would start it by itself.
func (p *planner) choose(j *Job, i int) Verdict {
	choices := bits.OnesCount64(uint64(j.Request.Types) << (placement.MaxTypes - p.Types)) // without Unlabelled
	switch {
	case p.rule.Depth > 0 && i >= p.rule.Depth:
		return p.withBack(j, open(Far))
	case !j.Consent:
		return p.leaveToSlurm(j, open(NoConsent))
	case j.Steered == Open && choices < 2:
		return p.leaveToSlurm(j, open(OneType))
	case p.stuck(j):
		v := p.leaveToSlurm(j, open(Stuck))
		v.Back = Stuck
		return v
	case j.NoWait:
		return p.startNow(j)
	}
	best := p.bestAllocated(j)
	if best.Type == Open && j.Steered != Open && j.Held < p.rule.Away && j.runs(j.Steered) {
		// It would go back to open, which it was less than Away ago: it keeps its type.
		if start, ok := p.earliest(j, j.Steered); ok {
			best = best.to(j.Steered, Waits, start, j.Run[j.Steered])
		}
	}
	if best.Type == Open {
		if v, bound := p.bar(j); bound {
			return v
		}
		if !p.hasRoom(j) {
			best.Why = NoRoom
		}
		return p.withBack(j, best)
	}
	p.reserve(j, best)
	if best.Start == 0 {
		best.Why = Starts
	} else {
		p.awaited |= 1 << uint(best.Type)
	}
	return p.withBack(j, best)
}

// bestAllocated finds, among the types allocated to a job, that with the least weighted completion time, Rule.Wait times its waiting and
// its run. The type that it has gets a discount (Rule.Change), and for Rule.Keep only a type where it starts now is better.
func (p *planner) bestAllocated(j *Job) Verdict {
	best, least := open(NoTime), score{now: math.Inf(1)}
	keeps := p.keepsType(j)
	discount := j.Steered != Open && (keeps || !p.allocationFell(j))
	for t := range int32(p.Types) {
		stays := keeps && t == j.Steered
		if !stays && (!p.allocated(j, t) || j.JustLeft.Has(t)) {
			continue
		}
		start, ok := p.earliest(j, t)
		if !ok || keeps && !stays && start > 0 {
			continue
		}
		score := p.score(start, j.Run[t])
		if discount && t == j.Steered {
			score = score.less(1 + p.rule.Change)
		}
		p.standsFor(least.until(score))
		if score.now < least.now || score.now == least.now && gavelPriority(j, t) > gavelPriority(j, best.Type) {
			least, best = score, best.to(t, Waits, start, j.Run[t])
		}
	}
	return best
}

// keepsType reports whether a job was bound less than Rule.Keep ago, to a type that still has nodes for it.
func (p *planner) keepsType(j *Job) bool {
	return j.Steered != Open && j.Held < p.rule.Keep && j.runs(j.Steered) && p.hasNodes(j, j.Steered)
}

// allocated reports whether a job's allocation gives it time on a type.
func (p *planner) allocated(j *Job, t int32) bool {
	return j.Time != nil && j.Time[t] >= p.rule.Least && j.runs(t)
}

// allocationFell reports whether a job has lost so much of its time on its type since it was bound to it that the binding is out of date.
func (p *planner) allocationFell(j *Job) bool {
	return j.Time == nil || j.Given-j.Time[j.Steered] > p.rule.Change
}

// gavelPriority is Gavel's priority of a job on a type (OSDI'20, section 5), time allocated over time received. It breaks ties: a job that
// was requeued takes the type on which it has received less than was allocated.
func gavelPriority(j *Job, t int32) float64 {
	if t == Open || j.Time == nil {
		return 0
	}
	if j.Received == nil || j.Received[t] == 0 {
		return j.Time[t] * 1e9
	}
	return j.Time[t] / j.Received[t]
}

// patience is the number of cycles that a NoWait job gets where stuck gives others Rule.Cycles. It is not one, because the first write may
// come after Slurm's last scheduling pass.
const patience = 2

// stuck reports whether Slurm has not started a job on its type for long although there was room.
func (p *planner) stuck(j *Job) bool {
	if j.NoWait {
		return j.Steered != Open && j.Ready >= min(p.rule.Cycles, patience)
	}
	return j.Steered != Open && j.Ready >= p.rule.Cycles && j.Held >= max(p.rule.Keep, p.rule.Away, p.longer(j))
}

// longer is how much longer, s, a job that is bound to none may run than on the type that it has. It stays bound for so long
// (ski rental, as evict's gangs): Slurm may keep free GPUs for a job ahead of it for hours, and would start it on any others.
func (p *planner) longer(j *Job) (s float64) {
	for t := range int32(p.Types) {
		if j.unbound().Has(t) && j.runs(t) {
			s = max(s, j.Run[t]-j.Run[j.Steered])
		}
	}
	return s
}

// startNow decides for a job that is not to wait. When it starts now on two types or more, it is bound to the fastest, and of equal ones
// to an allocated one. Else it is left open, and Slurm starts it on the first type that is free. A type for which a job before it waits
// does not count: Slurm's backfill may keep what is free for that.
func (p *planner) startNow(j *Job) Verdict {
	free, best := 0, Open
	for t := range int32(p.Types) {
		switch {
		case j.Steered != Open && t != j.Steered, j.JustLeft.Has(t), !j.runs(t), !p.startsNow(j, t):
			continue
		case j.Steered == Open && p.awaited.Has(t):
			continue
		}
		free++
		if best == Open || j.Run[t] < j.Run[best] || j.Run[t] == j.Run[best] && p.allocated(j, t) && !p.allocated(j, best) {
			best = t
		}
	}
	if best == Open || free < 2 && best != j.Steered && j.unbound().Has(best) {
		if v, bound := p.bar(j); bound {
			return v
		}
		v := p.leaveToSlurm(j, open(Unbound))
		if v.Back != "" {
			v.Back = Full
		}
		return v
	}
	v := open(Unbound).to(best, Starts, 0, j.Run[best])
	p.reserve(j, v)
	return v
}

// bar binds a job that would be left open, and that Slurm could start on a type where it cannot run, to one
// where it can: the one that it has, else that on which it ends first.
func (p *planner) bar(j *Job) (v Verdict, bound bool) {
	barred := false
	for t := range int32(p.Types) {
		barred = barred || j.Request.Types.Has(t) && !j.runs(t)
	}
	if !barred {
		return v, false
	}
	v = open(Barred)
	for t := range int32(p.Types) {
		start, ok := 0.0, false
		if j.runs(t) {
			start, ok = p.earliest(j, t)
		}
		if ok && (t == j.Steered || v.Type == Open || v.Type != j.Steered && start+j.Run[t] < v.End) {
			v = v.to(t, Barred, start, j.Run[t])
		}
	}
	if v.Type == Open {
		return v, false
	}
	p.reserve(j, v)
	return p.withBack(j, v), true
}

// hasRoom reports whether a job could start on any type, allocated or not.
func (p *planner) hasRoom(j *Job) bool {
	for t := range int32(p.Types) {
		if j.runs(t) && p.hasNodes(j, t) {
			return true
		}
	}
	return false
}

// leaveToSlurm completes the verdict on a job that is bound to no type: it goes into the
// schedule where it would start first, because later jobs have to take it into account.
func (p *planner) leaveToSlurm(j *Job, v Verdict) Verdict {
	first := v
	for t := range int32(p.Types + len(p.Unlabelled)) {
		run := j.Run[p.gpuType(t)]
		if !j.unbound().Has(t) || math.IsInf(run, 1) {
			continue
		}
		if start, ok := p.earliest(j, t); ok && start < first.Start {
			first = first.to(t, v.Why, start, run)
		}
	}
	if first.Type != Open {
		p.reserve(j, first)
		v.Start, v.End = first.Start, first.End
	}
	if first.Start > 0 { // on whichever of its types becomes free first
		p.awaited |= j.unbound()
	}
	return p.withBack(j, v)
}

// withBack adds to a verdict why the type written earlier is taken back, if it is.
func (p *planner) withBack(j *Job, v Verdict) Verdict {
	switch {
	case j.Steered == Open || j.Steered == v.Type:
	case !p.hasNodes(j, j.Steered):
		v.Back = Down
	case p.allocationFell(j):
		v.Back = Changed
	default:
		v.Back = Better
	}
	return v
}

// fillIdle gives GPUs on which no job is planned now to jobs that end no later on them than where they are planned, the best match first:
// that with the least slowdown against its fastest type.
func (p *planner) fillIdle() {
	for {
		job, to, match := -1, Open, 0.0
		for i := range p.Jobs {
			j, v := &p.Jobs[i], &p.verdicts[i]
			if v.Why != Waits && v.Why != NoRoom && v.Why != NoTime {
				continue
			}
			for t := range int32(p.Types) {
				if p.free.FreeGPUs(t) < int(j.Request.GPUs) || !j.runs(t) || j.JustLeft.Has(t) || !(j.Run[t] <= v.End) {
					continue
				}
				if m := shortest(j.Run) / j.Run[t]; m > match && p.startsNow(j, t) {
					job, to, match = i, t, m
				}
			}
		}
		if job < 0 {
			return
		}
		p.moveTo(job, to)
	}
}

// moveTo plans a job on a type where it starts now, instead of a later start.
func (p *planner) moveTo(i int, t int32) {
	j, v := &p.Jobs[i], &p.verdicts[i]
	if v.Type != Open { // it does not start now: only the timeline has it
		p.timeline.Free(p.taken(j, v.Type), v.Start, v.End)
	}
	v.Other, v.OtherEnd, v.Back = v.Type, v.End, ""
	moved := v.to(t, Takes, 0, j.Run[t])
	*v = p.withBack(j, moved)
	p.reserve(j, moved)
}

func shortest(run []float64) float64 {
	least := math.Inf(1)
	for _, r := range run {
		least = min(least, r)
	}
	return least
}

// compare adds to the verdict on a bound job what the best of the other types would have given it.
func (p *planner) compare(i int) {
	j, v := &p.Jobs[i], &p.verdicts[i]
	if v.Type == Open {
		return
	}
	if v.Why != Takes { // moveTo knows the other one
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
