package evict

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Feature makes room for TE jobs, and for jobs that are owed their GPUs at the end of a
// round. It takes part in a cycle three times: see Parts. The zero value makes none.
type Feature struct {
	Settings Settings
	Slurm    Slurm
	Journal  *Journal // as the Recorder knows it; nil: nobody is ever evicted
	Recorder interface {
		// SaveEvictions returns once the rows are safe; on error no command is sent.
		SaveEvictions(context.Context, *Turn) error
	}
	Told   func(Event) // hears of each step; nil: nobody does
	Vetoes Vetoes      // from one cycle to the next; nil: each looks anew
	Rounds *Rounds     // nil: no round ever ends

	// What the cycle decided.
	Choice *Choice // who leaves for whom; nil when that was not asked
	Round  *Round  // who yields to whom; nil when no round ended
	failed bool    // nobody new is told to leave
}

// Parts are what evictions do in a cycle: before the order is made, after it, and after
// jobs have been given GPU types.
func (e *Feature) Parts() (earlier, trials, rounds plan.Feature) {
	return earlierPlaces{e, plan.PlanOnly{}}, forTrials{e}, forRounds{e}
}

// earlierPlaces marks the jobs for which earlier cycles made room: they stand before
// others.
type earlierPlaces struct {
	*Feature
	plan.PlanOnly
}

func (e earlierPlaces) Plan(ctx context.Context, c *plan.Cycle) error {
	e.Choice, e.Round, e.failed = nil, nil, false
	if e.Journal == nil {
		return nil
	}
	e.Journal.See(c.Snapshot.Nodes)
	err := error(nil)
	if !c.DryRun {
		err = e.free(ctx, c.Snapshot, c.Paused != "")
		e.failed = err != nil
	}
	e.Journal.Mark(c.History)
	c.Pinned = e.Journal.Pins
	return err
}

// forTrials chooses who leaves for TE jobs.
type forTrials struct{ *Feature }

func (e forTrials) Plan(ctx context.Context, c *plan.Cycle) error {
	waits := func(d plan.Decision) bool { return d.Ranked && d.Class == cluster.TE }
	if e.Journal == nil || e.failed || !e.Settings.Enabled || c.Paused != "" || !slices.ContainsFunc(c.Plan.Decisions, waits) {
		return nil
	}
	choice, err := e.choose(ctx, c.Snapshot, c.Plan)
	if err != nil {
		e.failed = true
		return err
	}
	e.begin(&choice.Turn, c)
	choice.Annotate(c.Plan)
	e.Choice = choice
	return nil
}

// Heard does nothing: evictions are commands, and no writes of the plan.
func (forTrials) Heard(*plan.Cycle) {}

func (e forTrials) Act(ctx context.Context, _ *plan.Cycle) error {
	if e.Choice == nil || e.failed {
		return nil
	}
	err := e.save(ctx, &e.Choice.Turn, "none was begun")
	e.failed = err != nil
	return err
}

// begin numbers the rows of new claims, and puts their jobs before others.
func (e *Feature) begin(t *Turn, c *plan.Cycle) {
	if t.Empty() {
		return
	}
	e.Journal.Number(t)
	for i := range t.Claims {
		c.History.Claiming[t.Claims[i].Job] = true
	}
	c.Reorder()
}

// Vetoes are the jobs that a closer look ruled out lately for what no poll shows.
type Vetoes map[cluster.JobID]veto

type veto struct {
	why preemption.Why
	at  time.Time
}

const (
	// believed is for how long a veto holds: its owner can change what is behind it.
	believed = 10 * time.Minute
	// throttled is that of one for the limit of an array: one of its tasks may end.
	throttled = time.Minute
)

// lasts is for how long a veto holds.
func (v veto) lasts() time.Duration {
	if v.why == ArrayLimit {
		return throttled
	}
	return believed
}

// now are those that still hold.
func (v Vetoes) now(at time.Time) map[cluster.JobID]preemption.Why {
	hold := map[cluster.JobID]preemption.Why{}
	for id, x := range v {
		if at.Sub(x.at).Abs() >= x.lasts() {
			delete(v, id)
			continue
		}
		hold[id] = x.why
	}
	return hold
}

// keep takes in what the next snapshot would not tell.
func (v Vetoes) keep(vetoed map[cluster.JobID]preemption.Why, at time.Time) {
	for id, why := range vetoed {
		switch why {
		case Vetoed, Expedited, Constraint, ArrayLimit:
			if _, known := v[id]; v != nil && !known {
				v[id] = veto{why, at}
			}
		}
	}
}

// except drops what was found of waiting jobs with a size of priod's: it names a node
// for a while, which is no wish of their owners'.
func (v Vetoes) except(h *cluster.History) {
	for id, x := range v {
		_, sized := h.Requests[id][slurmplug.Size]
		_, array := h.Requests[slurmplug.Plain(id.ID)][slurmplug.Size]
		if x.why == Constraint && (sized || array) {
			delete(v, id)
		}
	}
}

// Event is one row that changed, with what it was before: one of both pairs.
type Event struct {
	Claim    *Claim
	Eviction *Eviction
	Of       *Claim // the claim of Eviction
	Before   string // the row's state; "": it is new
}

const (
	// turns is how many steps one Tend goes at most: pin, signal, requeue, begin.
	turns = 5
	// vetoes is how often a choice is made anew because a closer look ruled out a job.
	vetoes = 4
	// few is how many of the jobs that have ended where they were pinned one Tend looks
	// at: Slurm may remember them for days, and one that comes back is in the queue.
	few = 8
)

// choose decides who leaves for whom. Nobody does before a closer look, which
// tells what a poll does not: whether a job can be requeued, and which nodes
// the TE job asks for or refuses.
func (e *Feature) choose(ctx context.Context, s *cluster.Snapshot, p *plan.Plan) (*Choice, error) {
	var choice *Choice
	_, err := e.vetted(ctx, s, func(vetoed map[cluster.JobID]preemption.Why) *Turn {
		choice = Choose(s, p, e.Journal, &e.Settings, vetoed)
		return &choice.Turn
	})
	return choice, err
}

// vetted asks until a closer look rules out nobody more; false when there were too
// many surprises: then nobody leaves, and the next cycle knows of these.
func (e *Feature) vetted(ctx context.Context, s *cluster.Snapshot, ask func(vetoed map[cluster.JobID]preemption.Why) *Turn) (bool, error) {
	vetoed := e.Vetoes.now(s.At)
	for range vetoes {
		turn, before := ask(vetoed), len(vetoed)
		if err := e.vet(ctx, s, turn, vetoed); err != nil {
			return false, err
		}
		if len(vetoed) == before {
			return true, nil
		}
		e.Vetoes.keep(vetoed, s.At)
	}
	*ask(vetoed) = Turn{}
	return false, nil
}

func (e *Feature) vet(ctx context.Context, s *cluster.Snapshot, t *Turn, vetoed map[cluster.JobID]preemption.Why) error {
	var targets []Target
	for i := range t.Claims {
		targets = append(targets, Target{Job: t.Claims[i].Job, RawID: t.Claims[i].RawID})
	}
	for i := range t.Evictions {
		targets = append(targets, Target{Job: t.Evictions[i].Job, RawID: t.Evictions[i].RawID})
	}
	if len(targets) == 0 {
		return nil
	}
	sights, err := e.Slurm.Look(ctx, targets)
	if err != nil {
		return fmt.Errorf("look at the jobs to evict: %w", err)
	}
	for i := range t.Claims {
		claim := &t.Claims[i]
		excluded, err := e.Slurm.Excluded(ctx, Target{Job: claim.Job, RawID: claim.RawID})
		if err != nil {
			return fmt.Errorf("look at the jobs that others leave for: %w", err)
		}
		sight := sights[claim.Job]
		why := claim.Vet(sight, excluded)
		if why == "" && !e.Journal.Allows(claim, &sight) {
			why = Unhelpful // since the poll: the next cycle knows
		}
		if why == Constraint && e.Journal.Pins(claim.Job) {
			why = Unhelpful // for this cycle, which takes out what an earlier claim wrote
		}
		if why != "" {
			vetoed[claim.Job] = why
		}
	}
	for i := range t.Evictions {
		x := &t.Evictions[i]
		if why := x.Vet(sights[x.Job], &e.Settings); why != "" {
			vetoed[x.Job] = why
		}
	}
	return e.throttle(ctx, s, t, vetoed)
}

// throttle rules out tasks of arrays beyond those that may run at a time: all that have
// no place in this turn, so that no other choice brings up the next of them.
func (e *Feature) throttle(ctx context.Context, s *cluster.Snapshot, t *Turn, vetoed map[cluster.JobID]preemption.Why) error {
	left, placed := map[uint32]int{}, map[cluster.JobID]bool{}
	for i := range t.Claims {
		c := &t.Claims[i]
		if c.Job.Task == slurmplug.NoTask || vetoed[c.Job] != "" {
			continue
		}
		if _, known := left[c.Job.ID]; !known {
			most, err := e.Slurm.AtOnce(ctx, Target{Job: c.Job, RawID: c.RawID})
			if err != nil {
				return fmt.Errorf("look at the array of a job that others leave for: %w", err)
			}
			if left[c.Job.ID] = math.MaxInt; most > 0 {
				left[c.Job.ID] = most - e.Journal.Taken(c.Job.ID, s)
			}
		}
		if left[c.Job.ID] > 0 {
			placed[c.Job] = true
			left[c.Job.ID]--
			continue
		}
		vetoed[c.Job] = ArrayLimit
		for k := range s.Jobs {
			j := &s.Jobs[k]
			if id := j.FirstTask(); j.State == cluster.Pending && id.ID == c.Job.ID && !placed[id] && vetoed[id] == "" {
				vetoed[id] = ArrayLimit
			}
		}
	}
	return nil
}

// save makes rows safe, tells of them and takes them in. meaning is what it means
// that it could not.
func (e *Feature) save(ctx context.Context, t *Turn, meaning string) error {
	if t.Empty() {
		return nil
	}
	if err := e.Recorder.SaveEvictions(ctx, t); err != nil {
		return fmt.Errorf("record the evictions (%s): %w", meaning, err)
	}
	events := make([]Event, 0, len(t.Claims)+len(t.Evictions))
	for i := range t.Claims {
		event := Event{Claim: &t.Claims[i]}
		if old := e.Journal.Claim(event.Claim.Number); old != nil {
			event.Before = string(old.State)
		}
		events = append(events, event)
	}
	for i := range t.Evictions {
		event := Event{Eviction: &t.Evictions[i]}
		if old := e.Journal.Eviction(event.Eviction.Number); old != nil {
			event.Before = string(old.State)
		}
		events = append(events, event)
	}
	e.Journal.Take(t)
	for _, event := range events {
		if event.Eviction != nil {
			event.Of = e.Journal.Claim(event.Eviction.Claim)
		}
		if e.Told != nil {
			e.Told(event)
		}
	}
	return nil
}

// Tend takes the evictions under way as far as they go now. The snapshot and the
// plan are those of the cycle, nil between two cycles; paused says that nothing
// new may be begun.
func (e *Feature) Tend(ctx context.Context, s *cluster.Snapshot, p *plan.Plan, paused bool) error {
	if e.Journal == nil || e.Journal.Blank() {
		return nil
	}
	seen := Seen{Hold: e.Settings.Hold, Consents: e.Settings.Consents, ZeroEnds: e.Settings.ZeroEnds, Paused: paused}
	var queue map[cluster.JobID]*cluster.Job
	if s != nil {
		queue = whole(s, p, &seen)
		e.Journal.Forget(s.At, func(id cluster.JobID) bool { return queue[id] != nil })
	}
	var doubts error
	some := rand.Uint64()
	for range turns {
		targets, sights := e.Journal.Urgent(), map[cluster.JobID]Sight{}
		if s != nil {
			targets = append(targets, e.idle(queue, some, sights)...)
		}
		if len(targets) > 0 {
			looked, err := e.Slurm.Look(ctx, targets)
			if err != nil {
				doubts = fmt.Errorf("look at the evictions under way: %w", err)
			}
			maps.Copy(sights, looked)
		}
		if len(sights) == 0 {
			return doubts
		}
		seen.At, seen.Sights = time.Now(), sights
		turn := Next(e.Journal, seen)
		if err := e.save(ctx, &turn, "no command was sent"); err != nil {
			return err
		}
		if len(turn.Commands) == 0 {
			return doubts
		}
		acting := context.WithoutCancel(ctx) // what is recorded is carried through
		results := e.Slurm.Do(acting, turn.Commands)
		settled := Settle(e.Journal, results, time.Now())
		if err := e.save(acting, &settled, "the commands are sent"); err != nil {
			return err
		}
		if !slices.ContainsFunc(results, func(r Result) bool { return r.Status == slurmplug.Applied }) {
			return doubts // later
		}
	}
	return doubts
}

// free takes nodes out of the requests of jobs that Slurm put into BadConstraints since
// they were written: it starts such a job no more, whatever becomes of its claim.
func (e *Feature) free(ctx context.Context, s *cluster.Snapshot, paused bool) error {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Pending && j.Unsatisfied() && e.Journal.Pins(j.FirstTask()) {
			return e.Tend(ctx, nil, nil, paused)
		}
	}
	return nil
}

// idle takes from the queue what it shows of the jobs that can wait, and returns
// those that want a closer look: of the pinned ones that ended, which Slurm may
// remember for days, a few from the some-th on.
func (e *Feature) idle(queue map[cluster.JobID]*cluster.Job, some uint64, sights map[cluster.JobID]Sight) (targets []Target) {
	waiting, pinned := e.Journal.Idle()
	for _, t := range waiting {
		if j := queue[t.Job]; j != nil {
			sights[t.Job] = Sight{Job: *j}
		} else {
			targets = append(targets, t)
		}
	}
	var ended []Target
	for _, t := range pinned {
		if j := queue[t.Job]; j == nil {
			ended = append(ended, t)
		} else if j.State == cluster.Pending {
			targets = append(targets, t)
		}
	}
	for i := range min(few, len(ended)) {
		targets = append(targets, ended[(some+uint64(i))%uint64(len(ended))])
	}
	return targets
}

// whole takes in what only a whole cycle knows.
func whole(s *cluster.Snapshot, p *plan.Plan, seen *Seen) map[cluster.JobID]*cluster.Job {
	queue := make(map[cluster.JobID]*cluster.Job, len(s.Jobs))
	for i := range s.Jobs {
		queue[s.Jobs[i].ID] = &s.Jobs[i]
	}
	seen.Waiting, seen.Unusable = map[cluster.JobID]cluster.Class{}, map[string]bool{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if !d.Ranked {
			continue
		}
		seen.Waiting[d.Job] = d.Class
		if j := queue[d.Job]; j != nil {
			seen.Waiting[j.FirstTask()] = d.Class
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		seen.Unusable[n.Name] = !n.Usable && !n.Silent
	}
	return queue
}
