package locality

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Slurm is what locality asks of a cluster.
type Slurm interface {
	// Topology is the tree of switches; without leaves where Slurm knows none.
	Topology(context.Context) (cluster.Topology, error)
	// AskSwitches reads what waiting jobs ask of switches, into their Switches. Jobs that wait no more are left as they are.
	AskSwitches(context.Context, []*cluster.Job) error
}

// Feature has jobs of several nodes wait for few switches.
type Feature struct {
	plan.PlanOnly
	Settings Settings
	Memory   *Memory // nil: no job is looked at
	Slurm    Slurm
}

// work is one cycle's.
type work struct {
	set      *Settings
	c        *plan.Cycle
	memory   *Memory
	topology cluster.Topology
	actions  []plan.Action
	lever    slurmplug.Lever
	quota    plan.Quota

	up     []cluster.Node                  // usable nodes; nil: not needed yet, as perGPU
	perGPU func(partitions string) float64 // jobs that wait for each of their GPUs
}

// Plan says of each job that may lie on several switches, near the head of the queue, how many
// it accepts, and writes that where it has changed.
func (f *Feature) Plan(ctx context.Context, c *plan.Cycle) error {
	if f.Memory == nil || f.Slurm == nil || c.Paused != "" || !f.Settings.Enabled && !anyRequest(c.History, slurmplug.Switches) {
		return nil
	}
	w := &work{set: &f.Settings, c: c, memory: f.Memory, lever: slurmplug.Switches, quota: plan.Quota{Most: f.Settings.WritesPerCycle}}
	var err error
	if w.topology, err = f.Slurm.Topology(ctx); err != nil {
		return fmt.Errorf("read the switches: %w", err)
	}
	if f.Settings.Enabled && len(w.topology.Leaves) == 0 {
		c.Plan.Note(plan.NoSwitches, 1, "no switch topology (priod check): no job waits for few switches")
	}
	x := newCell(c.Nodes(), w.topology.Leaves)
	gangs := w.gangs(x)
	if err := f.ask(ctx, w, gangs); err != nil {
		c.Plan.Note(plan.LocalityUnread, len(gangs), "what some jobs ask of switches could not be read: %.300s", err)
	}
	f.Memory.begin()
	for _, g := range gangs {
		w.decide(x, g)
	}
	f.Memory.end()
	w.quota.Note(c.Plan, plan.LocalityWrites, "jobs' switches")
	c.Plan.Ask(w.actions)
	return nil
}

// ask reads what jobs ask of switches.
func (f *Feature) ask(ctx context.Context, w *work, gangs []*gang) error {
	var ask []*cluster.Job
	for _, g := range gangs {
		if _, written := w.c.History.Requests[g.job.ID][w.lever]; written || g.request.Nodes != 1 {
			ask = append(ask, g.job)
		}
	}
	return f.Slurm.AskSwitches(ctx, ask)
}

// anyRequest reports whether what priod wrote by a lever may stand in any job.
func anyRequest(h *cluster.History, lever slurmplug.Lever) bool {
	for _, requests := range h.Requests {
		if _, written := requests[lever]; written {
			return true
		}
	}
	return false
}

// wrote tells of each job of the snapshot whether priod wrote into it by the lever.
func (w *work) wrote() []bool {
	var by cluster.JobMap[bool]
	for id, requests := range w.c.History.Requests {
		if _, written := requests[w.lever]; written {
			by.Set(id, true)
		}
	}
	all := make([]bool, len(w.c.Snapshot.Jobs))
	for i := range all {
		if by.Len() > 0 {
			all[i] = by.Get(w.c.Snapshot.Jobs[i].ID)
		}
	}
	return all
}

// gangs are the jobs at the head of the queue that wait for room, in its order, and all others into which priod wrote. Of those
// that may lie on one switch only, or of which no more is known, only the request is of use: they take room from the others.
func (w *work) gangs(x *cell) (gangs []*gang) {
	looked, bound, wrote := 0, w.boundNow(), w.wrote()
	for _, q := range w.c.Plan.Queue {
		written := wrote[q.Job]
		if !written && w.set.Depth > 0 && looked >= w.set.Depth {
			continue
		}
		j, d := &w.c.Snapshot.Jobs[q.Job], &w.c.Plan.Decisions[q.Decision]
		waits := j.GPUs > 0 && d.Ranked && (j.WantsRoom() || j.Begins(w.c.Snapshot.At))
		if waits {
			looked++
		}
		if waits = waits && (w.set.Depth == 0 || looked <= w.set.Depth); !waits && !written {
			continue
		}
		asks := *j
		if to, now := bound[j.ID]; now {
			asks.Features = to
		}
		r, ok := x.request(&asks)
		if !ok && !written {
			continue
		}
		g := &gang{job: j, decision: d, request: r}
		if !waits {
			g.excluded = "it is not near the head of the queue, or does not wait for room"
		}
		gangs = append(gangs, g)
	}
	return gangs
}

// boundNow are the constraints that this cycle writes into jobs, to bind them to a GPU type
// or to take that back: that decides how many switches a job can come to lie on.
func (w *work) boundNow() map[cluster.JobID]string {
	bound := map[cluster.JobID]string{}
	for i := range w.c.Plan.Actions {
		if a := &w.c.Plan.Actions[i]; a.Lever == slurmplug.Features && !a.Part {
			bound[a.Job] = a.After.String()
		}
	}
	return bound
}

// decide says how many places a job accepts. Jobs come in the order of the queue: those
// that would start now take their room from those behind.
func (w *work) decide(x *cell, g *gang) {
	far := g.excluded != ""
	if g.request.Nodes == 1 {
		if _, written := w.c.History.Requests[g.job.ID][w.lever]; !written {
			if !far {
				x.take(g.job, g.request)
			}
			return
		}
	}
	if why := w.excluded(g.job); why != "" {
		g.excluded = why
	} else if far {
		return // it keeps what it has until it is its turn
	}
	w.measure(x, g)
	if g.excluded != "" {
		if g.state != nil && w.field(g.job).Ours {
			g.state.accepts = anyNumber
		}
		w.write(g, 0)
		if !far {
			x.take(g.job, g.request)
		}
	} else {
		w.wait(x, g)
	}
	if g.excluded != noConsent && g.rule.Most != 1 { // else no job asks
		if g.decision.Choices.Switches = w.choice(g); g.decision.Choices.Switches == nil {
			g.decision.Locality = plan.Joined(g.decision.Locality, w.words(g))
		}
	}
}

// measure finds what the rule goes by.
func (w *work) measure(x *cell, g *gang) {
	if g.excluded != "" {
		return
	}
	j := &g.rule
	if j.Fewest, j.Most = x.switches(g.request); j.Fewest == 0 {
		g.excluded = "no usable nodes hold it"
		return
	}
	j.Run = w.expected(g.job)
	j.Delayed = w.delayed(g.job)
	state, known := w.memory.of(g.job, w.c.Snapshot.At)
	g.state = state
	rule := w.rule()
	f := w.field(g.job)
	at := f.Last.At
	again := at.Before(g.job.Submit) || at.Before(g.job.Eligible) // since then it has run
	if count, _, err := slurmplug.ParseSwitches(g.job.Switches); !known && err == nil && count > 0 && f.Ours && !again {
		// priod was started after it had written this, or a task has left its array.
		state.waited = rule.waitedFor(j, count) + max(w.c.Snapshot.At.Sub(at).Seconds(), 0)
		state.accepts = count
	}
	j.Waited = state.waited
	switch {
	case !f.Refused.At.IsZero():
		g.excluded = fmt.Sprintf("left alone: %.200s", f.Refused.Words)
	case j.Run == 0 && j.Most > j.Fewest:
		g.excluded = runUnknown
	case !w.unknown() && j.Most > j.Fewest && rule.Budget(j) < Shortest.Seconds():
		g.excluded = "its run is too short to wait for few switches"
	}
}

// rule is that of the settings, within what Slurm itself allows.
func (w *work) rule() *Rule {
	r := w.set.Rule
	if most := w.topology.MaxWait; most >= 0 {
		r.Longest = min(r.Longest, most.Truncate(time.Minute).Seconds())
	}
	return &r
}

// wait has a job accept what the rule says, and counts whether it waits for that.
func (w *work) wait(x *cell, g *gang) {
	rule := w.rule()
	accepts := rule.Accepts(&g.rule)
	switch was := g.state.accepts; {
	case w.unknown():
		accepts = 0
	case was == anyNumber, accepts == 0:
		accepts, g.state.accepts = 0, anyNumber
	default: // although fewer jobs may wait than before
		accepts = max(accepts, was)
		g.state.accepts = accepts
	}
	g.accepts = accepts
	g.request.Switches = int32(accepts)
	starts := x.take(g.job, g.request)
	if accepts == 0 {
		w.write(g, 0)
		return
	}
	if !starts {
		anywhere := g.request
		anywhere.Switches = 0
		_, g.state.ticking = x.fit(anywhere)
	}
	if g.state.ticking {
		w.c.Keep(g.job.ID, plan.FewSwitches)
		w.c.Plan.Stands(rule.relaxes(&g.rule))
	}
	if !starts || w.field(g.job).Ours { // Slurm itself takes the fewest switches that are free
		w.write(g, accepts)
	}
}

// write puts the number of places into a job's request, unless that stands there.
func (w *work) write(g *gang, accepts int) {
	j, f := g.job, w.field(g.job)
	now, _, err := slurmplug.ParseSwitches(j.Switches)
	after := f.Own
	switch {
	case accepts == 0 && !f.Ours:
		return
	case accepts > 0 && f.Ours && err == nil && now == accepts:
		return
	case accepts > 0:
		after = slurmplug.Text(slurmplug.SwitchesText(accepts, time.Duration(w.rule().Longest)*time.Second/time.Minute*time.Minute))
	}
	if w.quota.Take() {
		w.actions = append(w.actions, plan.Change(j, &f, after, w.words(g)))
	}
}

// words say what was decided, in the same words while that stands.
func (w *work) words(g *gang) string {
	if c := w.choice(g); c != nil {
		return c.Words()
	}
	return "switches: " + cmp.Or(g.excluded, "no switch topology")
}

// choice is what was decided; nil where the rule was not asked.
func (w *work) choice(g *gang) *plan.PlacesChoice {
	j, rule := &g.rule, w.rule()
	if g.excluded != "" || w.unknown() {
		return nil
	}
	minutes := func(s float64) float64 { return math.Round(s/60) * 60 }
	c := &plan.PlacesChoice{
		Accepts: g.accepts, Fewest: j.Fewest, Most: j.Most, RunS: minutes(j.Run), RunOnMostS: minutes(j.Run + rule.longer(j, j.Most)), WaitsAtMost: minutes(rule.Budget(j)),
	}
	if was := g.state.places; was == nil || was.Accepts != c.Accepts || was.Fewest != c.Fewest || was.Most != c.Most {
		g.state.places = c
	}
	return g.state.places
}
