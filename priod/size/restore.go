package size

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// raisedJob is a waiting job that has more than it asked for and may start on any node.
type raisedJob struct {
	pinnedJob
	fits    bool // it finds a place in its turn
	ownFits bool // it finds none, but would with what its owner asked for
}

// pinnedJob is a waiting job with a size on a node that priod chose.
type pinnedJob struct {
	job *cluster.Job
	dec *plan.Decision
	r   cluster.Requested
}

// restoreStale gives jobs their own requests back that did not start with their new
// size in time, or no longer agree, or that a limit now leaves less.
func (d *decider) restoreStale() {
	d.kept, d.foreign, d.ahead = map[cluster.JobID]bool{}, map[cluster.JobID]bool{}, map[cluster.JobID]*pinnedJob{}
	if len(d.h.Requests) == 0 {
		return
	}
	decisions := sync.OnceValue(func() map[cluster.JobID]*plan.Decision {
		of := make(map[cluster.JobID]*plan.Decision, len(d.p.Decisions))
		for i := range d.p.Decisions {
			of[d.p.Decisions[i].Job] = &d.p.Decisions[i]
		}
		return of
	})
	for i := range d.s.Jobs {
		j := &d.s.Jobs[i]
		if j.State != cluster.Pending || j.Asked == nil {
			continue
		}
		r, written := d.h.Requests[j.ID][slurmplug.Size]
		if !written {
			continue
		}
		dec := decisions()[j.ID]
		if dec == nil {
			continue
		}
		late := d.isLate(j, r)
		switch {
		case r.Theirs(j.Asked.Holds) && d.h.Claiming[j.ID]:
			d.kept[j.ID] = true // it was pinned to its claim's node
		case r.Theirs(j.Asked.Holds):
			d.foreign[j.ID] = true
			if size, pinned := r.Freed(j.Asked.Holds); pinned {
				d.addRestore(j, dec, cluster.Requested{Was: size}, plan.SizeRests, "changed by another program or its user after priod wrote it; only the node was priod's")
				continue
			}
			d.explain(dec, "size: changed by another program or its user after priod wrote it; not touched since")
		case !r.Ours(j.Asked.Holds):
			// The write never arrived, or the job has its own request again.
		case !d.set.Enabled, !isOrdered(dec, j, d.s.At), !j.AllowsSize():
			d.addRestore(j, dec, r, reasonSize, "sizing is off for it")
		case j.Prefer != "":
			d.addRestore(j, dec, r, reasonSize, prefersNodes)
		case j.Asked.Fixed != "":
			d.addRestore(j, dec, r, reasonSize, "it now "+j.Asked.Fixed)
		case exceededLimit(j.Asked) != "":
			d.addRestore(j, dec, r, reasonSize, "a limit leaves less than it has now: "+exceededLimit(j.Asked))
		case j.Asked.Nodes != "" && d.h.Sizes[j.ID].Ahead:
			d.kept[j.ID] = true
			d.waitsAhead(j, dec, r)
		case j.Asked.Nodes != "" && late:
			d.addRestore(j, dec, r, plan.SizeRests, fmt.Sprintf("it did not start within %s on %s", d.set.Within, j.Asked.Nodes))
		case j.Asked.Nodes == "" && asksMore(j.Asked, r.Was):
			d.kept[j.ID] = true
			d.waitsAhead(j, dec, r)
			d.raised = append(d.raised, &raisedJob{pinnedJob: pinnedJob{j, dec, r}})
		case late && !d.isEnough(j, r.Was):
			d.addRestore(j, dec, r, reasonSize, fmt.Sprintf("it did not start within %s with less than it can use", d.set.Within))
		default:
			d.kept[j.ID] = true
			if j.Asked.Nodes != "" {
				d.pinned = append(d.pinned, pinnedJob{j, dec, r})
				continue
			}
			d.waitsAhead(j, dec, r)
			d.explainKept(j, dec, r)
		}
	}
}

// restoreAhead gives a job its own request back that waits for a node with a size that it
// is not to have any more.
func (d *decider) restoreAhead(c *resizable, why string) {
	if c.ahead != nil && c.ahead.job.Asked.Nodes != "" {
		d.addRestore(c.job, c.dec, c.ahead.r, reasonSize, why)
	}
}

// waitsAhead takes down a job whose size was written while no node had room for it:
// planAhead may give it another one.
func (d *decider) waitsAhead(j *cluster.Job, dec *plan.Decision, r cluster.Requested) {
	if d.h.Sizes[j.ID].Ahead {
		d.ahead[j.ID] = &pinnedJob{j, dec, r}
	}
}

// isLate reports whether a job could have started with its new size for longer than
// Within.
func (d *decider) isLate(j *cluster.Job, r cluster.Requested) bool {
	age := d.s.At.Sub(r.At)
	if r.At.Before(j.Eligible) { // it could not start earlier
		age = max(d.s.At.Sub(j.Eligible), 0)
		d.byTheClock(j.Eligible.Add(d.set.Within))
	}
	d.byTheClock(r.At.Add(d.set.Within))
	return age >= d.set.Within || age < 0
}

// restoreRaised gives raised jobs their own requests back where the raise keeps them
// from starting: with its own request the job finds a place now, or the job was raised
// for a place and has not started for a reason that priod does not see.
func (d *decider) restoreRaised() {
	for _, x := range d.raised {
		switch {
		case x.ownFits:
			d.addRestore(x.job, x.dec, x.r, plan.SizeRests, "it fits with its own request now")
		case d.isLate(x.job, x.r) && !d.h.Sizes[x.job.ID].Ahead:
			d.addRestore(x.job, x.dec, x.r, plan.SizeRests, fmt.Sprintf("it did not start within %s with more than it asked for", d.set.Within))
		default:
			d.explainKept(x.job, x.dec, x.r)
		}
	}
}

// restoreOverShare takes back what a pinned job has above its share where a free GPU of
// the node would now lack its own share: a neighbour that would have left enough has
// gone, or another job has come.
func (d *decider) restoreOverShare() {
	if len(d.pinned) == 0 {
		return
	}
	d.nodes = nodemap.New(d.s)
	left := map[int32]placement.Amount{} // free on each node once all jobs that are pinned to it have started
	hold := func(at int32, a *slurmplug.Asked, times int32) {
		f, known := left[at]
		if !known {
			f = d.nodes.Nodes.FreeOn(at)
		}
		core := max(d.nodes.Kinds[d.nodes.Nodes.Type(at)].Threads, 1)
		left[at] = placement.Amount{GPUs: f.GPUs - times*int32(a.GPUs), CPUs: f.CPUs - times*int32(roundUp(a.CPUs, core)), MemMB: f.MemMB - int64(times)*a.MemMB}
	}
	for _, p := range d.pinned {
		if at, known := d.nodes.Index[p.job.Asked.Nodes]; known {
			hold(at, p.job.Asked, 1)
		}
	}
	// takesShare reports whether a job has more than its share of what free GPUs lack.
	takesShare := func(p pinnedJob) bool {
		a := p.job.Asked
		at, known := d.nodes.Index[a.Nodes]
		if !known {
			return false
		}
		size, f := d.nodes.Nodes.Size(at), left[at]
		above := func(has, free, all int64) bool {
			return has*int64(size.GPUs) > all*int64(a.GPUs) && free < all*int64(f.GPUs)/int64(size.GPUs)
		}
		return f.GPUs > 0 && (above(int64(a.CPUs), int64(f.CPUs), int64(size.CPUs)) || above(a.MemMB, f.MemMB, size.MemMB))
	}
	for again := true; again; { // the GPUs of one that goes may lack what another one has
		again = false
		d.pinned = slices.DeleteFunc(d.pinned, func(p pinnedJob) bool {
			if !takesShare(p) {
				return false
			}
			hold(d.nodes.Index[p.job.Asked.Nodes], p.job.Asked, -1)
			d.addRestore(p.job, p.dec, p.r, reasonSize, "a free GPU of "+p.job.Asked.Nodes+" would lack its share because of it now")
			again = true
			return true
		})
	}
	for _, p := range d.pinned {
		d.explainKept(p.job, p.dec, p.r)
	}
}

// explainKept says of a job that it keeps the size that it has.
func (d *decider) explainKept(j *cluster.Job, dec *plan.Decision, r cluster.Requested) {
	own := j.Asked.Of(r.Was)
	d.explain(dec, "%s", cmp.Or(d.explained[j.ID], fmt.Sprintf("size: requested %s; has %s since %s",
		amountText(own.CPUs, own.MemMB), amountText(j.Asked.CPUs, j.Asked.MemMB), r.At.Format(time.RFC3339))))
}

// asksMore reports whether a job now asks for more than its owner did.
func asksMore(a *slurmplug.Asked, was slurmplug.Value) bool {
	own := a.Of(was)
	return a.CPUs > own.CPUs || a.MemMB > own.MemMB && !nearlyEqual(a.MemMB, own.MemMB)
}

// isEnough reports whether some kind of nodes gives the job, with its present size, all
// that it can use of what its owner asked for. Where that is not known the size stays.
func (d *decider) isEnough(j *cluster.Job, was slurmplug.Value) bool {
	if d.nodes == nil {
		d.nodes = nodemap.New(d.s)
	}
	types, known := d.nodes.Types(j)
	if types &= d.nodes.OneType(); !known || j.Asked.GPUs == 0 {
		return true
	}
	a, own := j.Asked, j.Asked.Of(was)
	gpus, less := float64(a.GPUs), false
	for t, n := range d.nodes.Kinds {
		if !types.Has(int32(t)) || n.GPUs == 0 {
			continue
		}
		s := d.sensitivity(j, &own, n)
		if s.Curve == nil {
			return true
		}
		best := s.Curve.Relative(float64(a.CPUs)/gpus, float64(a.MemMB)/gpus) >= s.Curve.Best()*(1-1e-9)
		cpus := !s.CPU || float64(a.CPUs) >= min(float64(own.CPUs), s.Curve.DemandCPUs*gpus)
		mem := !s.Mem || float64(a.MemMB) >= min(float64(own.MemMB), float64(s.Curve.DemandMemMB)*gpus)
		if best || cpus && mem {
			return true
		}
		less = true
	}
	return !less
}

// retryFactor is how many times Settings.Within passes before a job that got its own
// request back is sized again.
const retryFactor = 10

// retriesAt is when a job that did not start with another size may be sized again;
// zero: now.
func (d *decider) retriesAt(id cluster.JobID) time.Time {
	since := d.h.Sizes[id].Rests
	if since.IsZero() || since.After(d.s.At) { // the clock was set back
		return time.Time{}
	}
	then := since.Add(retryFactor * d.set.Within)
	d.byTheClock(then)
	return then
}

// reasonSize is the reason of a write after which the job may be sized again at once.
const reasonSize = "size"

// addRestore adds the write that gives a job its own request back.
func (d *decider) addRestore(j *cluster.Job, dec *plan.Decision, r cluster.Requested, reason, why string) {
	d.kept[j.ID] = true // for this cycle: until it has its own request again
	if past := d.h.Refusal(j, j.ID, slurmplug.Size); !past.At.IsZero() {
		if next := past.At.Add(d.set.Within); d.s.At.Before(next) && !past.At.After(d.s.At) {
			d.byTheClock(next)
			d.explain(dec, "size: %q, instead of its own %q, because restoring it was refused: %s; priod tries again after %s",
				r.Value, r.Was, past.Words, next.Format(time.RFC3339))
			return
		}
	}
	d.actions = append(d.actions, plan.Change(j, &cluster.Field{Lever: slurmplug.Size, Now: j.Asked.Holds, Own: r.Was}, r.Was, reason))
	d.explain(dec, "size: its own request restored, because %s", why)
}
