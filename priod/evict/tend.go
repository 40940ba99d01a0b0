package evict

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

const (
	// maxTransitions is how many steps one Tend takes at most: pin, signal, requeue, begin.
	maxTransitions = 5
	// maxEndedLooks is how many pinned jobs that have ended one Tend looks at. One that comes back is in the queue, and needs no look.
	maxEndedLooks = 8
)

// Event is one row that changed, a claim or an eviction, with its state before.
type Event struct {
	Claim    *Claim
	Eviction *Eviction
	Of       *Claim // the claim of Eviction
	Before   string // the row's state; "": it is new
}

// save saves rows, takes them over into the journal and reports each change. failing is what it means when they could not be saved.
func (e *Feature) save(ctx context.Context, t *Changes, failing string) error {
	if t.Empty() {
		return nil
	}
	if err := e.Recorder.SaveEvictions(ctx, t); err != nil {
		return fmt.Errorf("record the evictions (%s): %w", failing, err)
	}
	for _, event := range e.Journal.Update(t) {
		if e.OnChange != nil {
			e.OnChange(event)
		}
	}
	return nil
}

func (e *Feature) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

// Tend takes the evictions under way as far as they go now. The snapshot and the plan are those of the cycle, nil between two cycles. When
// priod is paused nothing new is begun.
func (e *Feature) Tend(ctx context.Context, s *cluster.Snapshot, p *plan.Plan, paused bool) error {
	if e.Journal == nil || e.Journal.Blank() {
		return nil
	}
	seen := Observation{Hold: e.Settings.Hold, Paused: paused}
	var queue *cluster.JobMap[*cluster.Job]
	if s != nil {
		queue = e.addCycle(s, p, &seen)
	}
	var doubts error
	first := uint64(e.now().UnixNano()) * 0x9e3779b97f4a7c15 >> 32 // other jobs each time
	for range maxTransitions {
		targets, statuses := e.Journal.Urgent(), map[cluster.JobID]plan.JobStatus{}
		if s != nil {
			targets = append(targets, e.idleTargets(queue, first, statuses)...)
		}
		if len(targets) > 0 {
			looked, err := e.Slurm.Look(ctx, targets)
			if err != nil {
				doubts = fmt.Errorf("look at the evictions under way: %w", err)
			}
			maps.Copy(statuses, looked)
		}
		if len(statuses) == 0 {
			return doubts
		}
		seen.At, seen.Statuses = e.now(), statuses
		changes := Advance(e.Journal, seen)
		if err := e.save(ctx, &changes, "no command was sent"); err != nil {
			return err
		}
		if len(changes.Commands) == 0 {
			return doubts
		}
		acting := context.WithoutCancel(ctx) // what is recorded is carried out
		results := e.Slurm.Do(acting, changes.Commands)
		outcome := ApplyResults(e.Journal, results, e.now())
		if err := e.save(acting, &outcome, "the commands are sent"); err != nil {
			return err
		}
		if !slices.ContainsFunc(results, func(r plan.Result) bool { return r.Status == slurmplug.Applied }) {
			return doubts // the next Tend tries again
		}
	}
	return doubts
}

// unpinUnsatisfied takes nodes out of the requests of jobs that Slurm has put into BadConstraints since the nodes were written: Slurm no
// longer starts such a job, whatever becomes of its claim.
func (e *Feature) unpinUnsatisfied(ctx context.Context, s *cluster.Snapshot, paused bool) error {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Pending && j.Unsatisfied() && e.Journal.Pins(j.FirstTask()) {
			return e.Tend(ctx, nil, nil, paused)
		}
	}
	return nil
}

// idleTargets returns those jobs of the other rows that need a closer look: victims that wait in the queue, where that does not show them,
// and jobs that are pinned to a place that no claim keeps any more. What the queue shows goes into statuses. Slurm may remember for days a
// pinned job that has ended: of these a few are looked at in each call, beginning with number first.
func (e *Feature) idleTargets(queue *cluster.JobMap[*cluster.Job], first uint64, statuses map[cluster.JobID]plan.JobStatus) (targets []plan.Target) {
	claims, evictions := e.Journal.live()
	for _, x := range evictions {
		if x.State != Restored {
			continue
		}
		if j := queue.Get(x.Job); j != nil && j.State != cluster.Unread {
			statuses[x.Job] = plan.JobStatus{Job: *j}
		} else {
			targets = append(targets, plan.Target{Job: x.Job, RawID: x.RawID})
		}
	}
	var ended []plan.Target
	for _, c := range claims {
		t := plan.Target{Job: c.Job, RawID: c.RawID}
		switch j := queue.Get(c.Job); {
		case c.Open() || c.Pin == "":
		case j == nil:
			ended = append(ended, t)
		case j.State == cluster.Pending:
			targets = append(targets, t)
		}
	}
	ended = unique(ended)
	for i := range min(maxEndedLooks, len(ended)) {
		targets = append(targets, ended[(first+uint64(i))%uint64(len(ended))])
	}
	return unique(targets)
}

// addCycle adds to seen what only a whole cycle knows of the journal's jobs, and returns those that are in the queue.
func (e *Feature) addCycle(s *cluster.Snapshot, p *plan.Plan, seen *Observation) *cluster.JobMap[*cluster.Job] {
	ours := e.Journal.ids()
	var queue cluster.JobMap[*cluster.Job]
	for i := range s.Jobs {
		if j := &s.Jobs[i]; ours[j.ID.ID] {
			queue.Set(j.ID, j)
		}
	}
	seen.Waiting, seen.Unusable = map[cluster.JobID]bool{}, map[string]bool{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if !d.Ranked || !ours[d.Job.ID] {
			continue
		}
		seen.Waiting[d.Job] = d.GetsRoom()
		if j := queue.Get(d.Job); j != nil {
			seen.Waiting[j.FirstTask()] = d.GetsRoom()
		}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; !n.Usable && !n.Silent {
			seen.Unusable[n.Name] = true
		}
	}
	return &queue
}

// Observation is what one look at Slurm showed. At carries the monotonic clock: when the system's clock is set, graces and holds stay as
// long as they were, except over a restart of priod.
type Observation struct {
	At       time.Time
	Statuses map[cluster.JobID]plan.JobStatus // the jobs that were looked at
	Hold     time.Duration                    // how long a place is kept after the last victim left

	// Paused says that priod is paused: recorded evictions are called off, and nothing is begun.
	Paused bool

	// Known in a whole cycle only; nil between cycles.
	Waiting  map[cluster.JobID]bool // each job of the journal that priod ranks, and whether it gets room
	Unusable map[string]bool        // nodes that cannot be used
}

// Advance is the transition: it compares the journal with what Slurm shows now, and returns what has to change. It changes nothing itself.
func Advance(j *Journal, seen Observation) (t Changes) {
	n := transition{j: j, Observation: seen, claims: map[int64]*Claim{}, evictions: map[int64]*Eviction{}, commanded: map[int64]bool{}}
	claims, evictions := j.live()
	for _, c := range claims {
		n.claims[c.Number] = new(*c)
	}
	for _, e := range evictions {
		n.evictions[e.Number] = new(*e)
	}
	for _, e := range evictions {
		n.advanceEviction(n.evictions[e.Number])
	}
	for _, c := range claims {
		n.advanceClaim(n.claims[c.Number])
	}
	for _, e := range evictions {
		if c := n.claims[e.Claim]; c != nil && c.key() != j.Claim(e.Claim).key() && !n.commanded[e.Number] {
			n.advanceEviction(n.evictions[e.Number])
		}
	}
	for _, c := range claims {
		if now := n.claims[c.Number]; now.key() != c.key() {
			now.Changed = n.At
			t.Claims = append(t.Claims, *now)
		}
	}
	for _, e := range evictions {
		if now := n.evictions[e.Number]; *now != *e {
			t.Evictions = append(t.Evictions, *now)
		}
	}
	t.Commands = n.commands
	return t
}

// transition collects the changes of one Advance.
type transition struct {
	j *Journal
	Observation
	claims    map[int64]*Claim    // those that are not done, as they are now
	evictions map[int64]*Eviction // the same
	commanded map[int64]bool      // evictions with a command in this transition
	commands  []plan.Command
}

// current returns an eviction with the changes of this transition.
func (n *transition) current(e *Eviction) *Eviction {
	return cmp.Or(n.evictions[e.Number], e)
}

// claimOf returns an eviction's claim with the changes of this transition.
func (n *transition) claimOf(e *Eviction) *Claim {
	return cmp.Or(n.claims[e.Claim], n.j.Claim(e.Claim))
}

// command adds a command for an eviction's victim.
func (n *transition) command(e *Eviction, verb plan.CommandKind, value slurmplug.Value) {
	n.commanded[e.Number] = true
	n.commands = append(n.commands, plan.Command{Kind: verb, Job: e.Job, SLUID: n.Statuses[e.Job].SLUID, Eviction: e.Number, Value: value})
}

// ApplyResults returns the rows that the results of a turn's commands change.
func ApplyResults(j *Journal, results []plan.Result, at time.Time) Changes {
	var t Changes
	for _, r := range results {
		if r.Eviction != 0 {
			if e := *j.Eviction(r.Eviction); e.applyResult(&r, at) {
				t.Evictions = append(t.Evictions, e)
			}
			continue
		}
		if c := *j.Claim(r.Claim); c.applyResult(&r, at) {
			t.Claims = append(t.Claims, c)
		}
	}
	return t
}
