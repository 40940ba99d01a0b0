package evict

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Vet returns why a closer look rules a victim out before its eviction is recorded; "":
// it does not. Whether its owner agrees is what the snapshot says: see History.KeepTags.
func (e *Eviction) Vet(s plan.JobStatus) preemption.Why {
	switch {
	case !e.isRun(&s) || s.State != cluster.Running:
		return preemption.IsLeaving
	case !s.CanRequeue:
		return Vetoed
	case s.Expedites:
		return Expedited
	case s.OnHold:
		return Held
	}
	return ""
}

// Vet returns why a closer look rules a claim out: the waiting job names nodes itself,
// or excludes nodes of the claim, or does not wait any more; "": it does not.
func (c *Claim) Vet(s plan.JobStatus, place cluster.Place) preemption.Why {
	refused, err := slurmplug.ExpandHosts(place.Excluded)
	switch {
	case s.Gone || s.State != cluster.Pending:
		return Unhelpful
	case s.ReqNodes != "", place.Excluded != "" && err != nil:
		return Constraint
	case place.Bounds.Most > 0 && place.Bounds.Most < len(c.Nodes()):
		return OneNode
	case place.Bounds.Open != "", place.Bounds.Binds, !tasksAllow(place.Bounds, len(c.Nodes())):
		return Uncountable
	case slices.ContainsFunc(c.Nodes(), func(n string) bool { return slices.Contains(refused, n) }):
		return Constraint
	}
	return ""
}

// tasksAllow reports whether the tasks of each node let a job run on so many nodes, to which it is bound. Bound to
// fewer nodes than its range has at most, Slurm gives such a job BadConstraints (seen on 22.05.8).
func tasksAllow(b slurmplug.Bounds, nodes int) bool {
	return b.TasksPerNode == 0 || b.Tasks <= b.TasksPerNode*nodes && b.Most <= nodes
}

// node is a node of the last cycle's snapshot; nil: it had none of that name.
func (j *Journal) node(name string) *cluster.Node {
	at := slices.IndexFunc(j.nodes, func(n cluster.Node) bool { return n.Name == name })
	if at < 0 {
		return nil
	}
	return &j.nodes[at]
}

// Allows reports whether a waiting job's constraint and preference, which its owner can change at any time, still allow its claim's place.
// Pinned to nodes that they exclude, the job would get the reason BadConstraints and never start.
func (j *Journal) Allows(c *Claim, s *plan.JobStatus) bool {
	constraint, err := slurmplug.ParseConstraint(s.Features)
	preferred, unread := slurmplug.ParseConstraint(s.Prefer)
	return err == nil && unread == nil && !slices.ContainsFunc(c.Nodes(), func(name string) bool {
		n := j.node(name)
		return n != nil && !(constraint.Allows(n.Features) && preferred.Allows(n.Features))
	})
}

// counts reports whether a claim counts what its job asks of each node that no poll shows: disk for temporary files, all
// memory, and memory for each CPU and GPU that Slurm gives it there; and whether Slurm can spread its tasks over these nodes. Where whole sockets are taken these are as many as
// the GPUs lie on (26.05); and where a job asks for GPUs in all, and for tasks on any number of nodes, it gets CPUs of
// the sockets of these GPUs alone (26.05).
func (j *Journal) counts(c *Claim, asks slurmplug.Bounds, s *plan.JobStatus) bool {
	return !slices.ContainsFunc(c.Shares, func(share ClaimShare) bool {
		n := j.node(share.Node)
		if n == nil {
			return false
		}
		sockets := n.Together > max(n.Threads, 1)
		if asks.Fills && len(c.Shares) > 1 && asks.Tasks > len(c.Shares) && share.GPUs < n.GPUs {
			return true
		}
		short := share.MemMB < max(asks.MemPerCPU*int64(share.CPUs), asks.MemPerGPU*int64(share.GPUs)) || asks.MemPerCPU > 0 && sockets || asks.LosesThread && n.Threads > 1
		apart := sockets && share.GPUs*n.CPUs > n.GPUs*share.CPUs || asks.OfJob && 2*share.CPUs > n.CPUs && share.GPUs < n.GPUs
		return n.TmpMB < asks.TmpMB || apart || !j.memShared && (short || asks.AllMem && !s.AllMem)
	})
}

// inParts reports whether a node beside the one of a claim has GPUs free and not all that the claim takes, or not within its
// partition's CPUs of a node: where Slurm adds them up, it may not see that the one has all.
func (j *Journal) inParts(c *Claim, partitions []cluster.Partition) bool {
	home := j.node(c.Shares[0].Node)
	return len(c.Shares) == 1 && home != nil && slices.ContainsFunc(j.nodes, func(n cluster.Node) bool {
		free, holds := n.GPUs-n.GPUsUsed, n.CPUs-n.CPUsUsed >= c.Shares[0].CPUs && n.MemMB-n.MemUsedMB >= c.Shares[0].MemMB
		holds = holds && !slices.ContainsFunc(partitions, func(p cluster.Partition) bool {
			return p.NodeCPUs > 0 && n.In(p.Name) && n.CPUsUsed+c.Shares[0].CPUs > p.NodeCPUs
		})
		return n.Name != home.Name && n.Usable && free > 0 && (free < c.GPUs || !holds) && n.In(strings.Join(home.Partitions, ","))
	})
}

// Vetoes are the jobs that a closer look ruled out lately for something that no poll shows.
type Vetoes map[cluster.JobID]veto

type veto struct {
	why preemption.Why
	at  time.Time
}

// vetoLasts is how long a veto holds: the owner can change what it is about, and a task of a full array may end soon.
func vetoLasts(why preemption.Why) time.Duration {
	if why == ArrayLimit {
		return time.Minute
	}
	return 10 * time.Minute
}

// current returns the vetoes that still hold, and drops the others.
func (v Vetoes) current(at time.Time) map[cluster.JobID]preemption.Why {
	hold := map[cluster.JobID]preemption.Why{}
	for id, x := range v {
		if at.Sub(x.at).Abs() >= vetoLasts(x.why) {
			delete(v, id)
			continue
		}
		hold[id] = x.why
	}
	return hold
}

// add takes over what a closer look has found and the next snapshot would not show.
func (v Vetoes) add(vetoed map[cluster.JobID]preemption.Why, at time.Time) {
	for id, why := range vetoed {
		switch why {
		case Vetoed, Expedited, Constraint, Uncountable, ArrayLimit, Bound, OneNode:
			if _, known := v[id]; v != nil && !known {
				v[id] = veto{why, at}
			}
		}
	}
}

// forgetSized drops vetoes of waiting jobs that have a size of priod's: that may name a node, which is not what their owners asked for.
func (v Vetoes) forgetSized(h *cluster.History) {
	for id, x := range v {
		_, sized := h.Requests[id][slurmplug.Size]
		_, array := h.Requests[slurmplug.Plain(id.ID)][slurmplug.Size]
		if x.why == Constraint && (sized || array) {
			delete(v, id)
		}
	}
}

// check looks closer at the jobs of these changes, and adds those to vetoed that are ruled out: a poll does not show whether a job can be
// requeued, nor which nodes a TE job names or excludes. So it does at trials that fit and have not started.
func (e *Feature) check(ctx context.Context, s *cluster.Snapshot, t *Changes, vetoed map[cluster.JobID]preemption.Why) error {
	var targets []plan.Target
	claims, raw := slices.Concat(t.Claims, t.fit), map[cluster.JobID]uint32{}
	for i := range claims {
		targets = append(targets, plan.Target{Job: claims[i].Job, RawID: claims[i].RawID})
		raw[claims[i].Job] = claims[i].RawID
	}
	for i := range t.Evictions {
		targets = append(targets, plan.Target{Job: t.Evictions[i].Job, RawID: t.Evictions[i].RawID})
	}
	if len(targets) == 0 {
		return nil
	}
	statuses, err := e.Slurm.Look(ctx, targets)
	if err != nil {
		return fmt.Errorf("look at the jobs to evict: %w", err)
	}
	places, err := e.Slurm.Places(ctx, raw)
	if err != nil {
		return fmt.Errorf("look at the jobs that others leave for: %w", err)
	}
	for i := range claims {
		claim := &claims[i]
		status := statuses[claim.Job]
		why := claim.Vet(status, places[claim.Job])
		if why == "" && !e.Journal.counts(claim, places[claim.Job].Bounds, &status) {
			why = Uncountable
		}
		if fits := i >= len(t.Claims); why == "" && fits && places[claim.Job].Bounds.AddsUp && e.Journal.inParts(claim, s.Partitions) {
			why = InParts
		}
		if why == "" && !e.Journal.Allows(claim, &status) {
			why = Unhelpful // the request has changed since the poll: the next cycle shows it
		}
		if why == Constraint && e.Journal.Pins(claim.Job) {
			why = Unhelpful // an earlier claim wrote that constraint, and this cycle takes it out
		}
		if why != "" {
			vetoed[claim.Job] = why
		}
	}
	for i := range t.Evictions {
		x := &t.Evictions[i]
		if why := x.Vet(statuses[x.Job]); why != "" {
			vetoed[x.Job] = why
		}
	}
	if err := e.checkGangs(ctx, t, statuses, vetoed); err != nil {
		return err
	}
	return e.checkArrays(ctx, s, t, vetoed)
}

// atOnce is how many tasks of an array may run at a time, as far as the poll told; 0: it did not.
func atOnce(s *cluster.Snapshot, array uint32) (most int) {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.ID.ID == array {
			most = max(most, j.AtOnce)
		}
	}
	return most
}

// checkArrays rules out tasks of arrays beyond those that may run at a time. It rules out all waiting tasks of the array without a place
// in these changes, so that the next choice does not take another one of them.
func (e *Feature) checkArrays(ctx context.Context, s *cluster.Snapshot, t *Changes, vetoed map[cluster.JobID]preemption.Why) error {
	left, placed := map[uint32]int{}, map[cluster.JobID]bool{}
	for i := range t.Claims {
		c := &t.Claims[i]
		if c.Job.Task == slurmplug.NoTask || vetoed[c.Job] != "" {
			continue
		}
		if _, known := left[c.Job.ID]; !known {
			most, err := atOnce(s, c.Job.ID), error(nil)
			if most == 0 { // or the poll did not tell
				most, err = e.Slurm.AtOnce(ctx, plan.Target{Job: c.Job, RawID: c.RawID})
			}
			if err != nil {
				return fmt.Errorf("look at the array of a job that others leave for: %w", err)
			}
			if left[c.Job.ID] = math.MaxInt; most > 0 {
				left[c.Job.ID] = most - e.Journal.CountArrayPlaces(c.Job.ID, s)
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

// checkGangs rules out gangs that ask for few switches, for it is not known which nodes are
// on which, and victims of theirs that name or exclude nodes: those may not fit elsewhere.
func (e *Feature) checkGangs(ctx context.Context, t *Changes, statuses map[cluster.JobID]plan.JobStatus, vetoed map[cluster.JobID]preemption.Why) error {
	var asked []*cluster.Job
	for i := range t.Claims {
		if c := &t.Claims[i]; c.Purpose == ForGang && vetoed[c.Job] == "" {
			job := statuses[c.Job].Job
			job.ID, job.RawID, job.TaskCount = c.Job, c.RawID, 1
			asked = append(asked, &job)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if err := e.Slurm.AskSwitches(ctx, asked); err != nil {
		return fmt.Errorf("look at the switches that gangs ask for: %w", err)
	}
	for _, job := range asked {
		if count, _, err := slurmplug.ParseSwitches(job.Switches); job.Switches != "" && (err != nil || count > 0) {
			vetoed[job.ID] = Constraint
		}
	}
	for i := range t.Evictions {
		x := &t.Evictions[i]
		if vetoed[x.Job] != "" {
			continue
		}
		excluded, err := e.Slurm.Excluded(ctx, plan.Target{Job: x.Job, RawID: x.RawID})
		if err != nil {
			return fmt.Errorf("look at the jobs that would move for gangs: %w", err)
		}
		if excluded != "" || statuses[x.Job].ReqNodes != "" {
			vetoed[x.Job] = Bound
		}
	}
	return nil
}
