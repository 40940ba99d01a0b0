package guarantee

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// rounding is the difference of two sums of the same charges.
const rounding = 1e-6

// decider makes one Result.
type decider struct {
	s       *cluster.Snapshot
	h       *cluster.History
	set     *Settings
	memory  *Memory
	owners  *owners
	charges *cluster.Charges
	result  Result
	runs    []float64 // by share, GPUs of running jobs within it
	bound   []float64 // by share, GPUs of running jobs that do not agree to leave, and of such that may start next
	pools   *pools    // what is owned, and used by jobs that stay
	uses    *uses
	soonest time.Duration
}

// Decide says which jobs are entitled, which borrow, and which wait because they may not borrow.
//
// An account's running jobs and those with a claim are packed into its share, those first that do not agree to leave, last
// those that do not work (cluster.Job.Idle), else by their start; the others are in excess. A waiting job is entitled where these and its own GPUs fit the share, asked in
// the order of the queue, so that an account that submits many jobs has as many entitled as its share holds. GPUs are what
// Slurm allocates (cluster.Charges). A waiting job that
// was entitled in an earlier cycle is packed as if it had started then. Jobs that wait for something else than room, but for
// those whose begin time priod moved, have no right.
func Decide(s *cluster.Snapshot, h *cluster.History, set *Settings, memory *Memory) Result {
	if len(set.Shares) == 0 {
		return Result{}
	}
	d := &decider{s: s, h: h, set: set, memory: memory, pools: newPools(s), charges: cluster.NewCharges(s), runs: make([]float64, len(set.Shares)), bound: make([]float64, len(set.Shares))}
	d.owners = newOwners(set, d.pools)
	d.uses = newUses(len(set.Shares), len(d.pools.gpus))
	d.result = Result{make([]State, len(set.Shares)), make([]Standing, len(s.Jobs)), d.owners.of}
	for i := range d.result.Jobs {
		d.result.Jobs[i].Share = -1
	}
	d.size()
	d.pack()
	d.lend()
	for i := range d.result.Shares { // what is not used yet may lie on any of its nodes
		d.pools.promise(d.owners.covers[i], d.result.Shares[i].Owned-d.runs[i])
	}
	d.ask()
	return d.result
}

// size finds what each share amounts to. Where nodes are out of service, a share shrinks as its part of the cluster does.
func (d *decider) size() {
	d.soonest = d.set.soonest()
	for k := range d.set.Shares {
		share, state := &d.set.Shares[k], &d.result.Shares[k]
		all, up := share.On(d.s.Nodes)
		full := float64(share.GPUs)
		if share.GPUs == 0 {
			full = math.Floor(share.Part*float64(all) + rounding)
		}
		if state.Share = share; all > 0 { // a type that is gone has none
			state.Owned = full * float64(up) / float64(all)
		}
		state.Down = full - state.Owned
	}
}

// pack finds out which running jobs, and which with a claim, lie within the shares of their accounts.
func (d *decider) pack() {
	type job struct {
		at, share int
		leaves    bool
		start     time.Time
		gpus      float64
	}
	var jobs []job
	for i := range d.s.Jobs {
		j := &d.s.Jobs[i]
		x, promised := job{at: i, share: -1, start: j.Start}, false
		switch {
		case j.State == cluster.Pending && d.promised(j):
			x.start, promised = cmp.Or(d.memory.since(j), d.s.At), true
			if shares := d.owners.candidates(j); len(shares) > 0 {
				x.share = shares[0]
			}
		case j.State == cluster.Running, j.State == cluster.Completing, j.State == cluster.Suspended:
			x.share = d.owners.holder(j)
		default:
			continue
		}
		if x.gpus = d.charge(j); x.gpus == 0 {
			continue
		}
		if !promised { // until it starts, no other of its account takes its place
			_, x.leaves = d.set.Leaves(j)
		}
		jobs = append(jobs, x)
	}
	slices.SortStableFunc(jobs, func(a, b job) int {
		after := func(x bool) int {
			if x {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(after(a.leaves), after(b.leaves)), cmp.Compare(after(a.leaves && d.s.Jobs[a.at].Idle), after(b.leaves && d.s.Jobs[b.at].Idle)), a.start.Compare(b.start),
			d.s.Jobs[a.at].ID.Compare(d.s.Jobs[b.at].ID))
	})
	for _, x := range jobs {
		standing := &d.result.Jobs[x.at]
		standing.Share = x.share
		j := &d.s.Jobs[x.at]
		if standing.Right = d.place(j, x.share, x.gpus, x.leaves); j.State == cluster.Pending && j.TasksNow() > 1 {
			standing.Tasks = 1
		}
	}
}

// place is the right of a job that runs or was promised its GPUs. One that waits, and no longer fits, is asked like others.
func (d *decider) place(j *cluster.Job, share int, gpus float64, leaves bool) cluster.Right {
	runs, right := j.State != cluster.Pending, cluster.Borrows
	if !runs && (share < 0 || d.result.Shares[share].Entitled+gpus > d.result.Shares[share].Owned+rounding) {
		return cluster.NoShares
	}
	if runs {
		d.use(j, share, gpus)
	}
	if share >= 0 {
		state := &d.result.Shares[share]
		if !leaves {
			d.bound[share] += gpus
		}
		if state.Entitled+gpus <= state.Owned+rounding {
			right = cluster.Entitled
			if state.Entitled += gpus; !runs {
				state.Promised += gpus
			}
		} else {
			state.Excess += gpus
		}
		if runs && right == cluster.Entitled {
			d.runs[share] += gpus
		}
	}
	if runs && (right == cluster.Entitled || !leaves) {
		d.pools.promise(d.pools.on(j), gpus)
	}
	return right
}

// charge is what one task of a job takes; of one that runs, what it was charged when it started.
func (d *decider) charge(j *cluster.Job) float64 {
	if j.State != cluster.Pending {
		if held, runs := d.h.Charged(j.ID); runs {
			return held
		}
	}
	return d.charges.Of(j)
}

// promised reports whether a waiting job has a claim, or was entitled in an earlier cycle. The record of an array stands for other
// tasks then: those that were entitled may run by now.
func (d *decider) promised(j *cluster.Job) bool {
	if d.h.Claiming[j.ID] {
		return true
	}
	return j.Tasks == "" && !d.memory.since(j).IsZero() && d.forRoom(j)
}

// forRoom reports whether a job waits for room, or because priod moved its begin time.
func (d *decider) forRoom(j *cluster.Job) bool {
	if j.Held() || j.Dependency || j.Reserved() {
		return false
	}
	if slurmplug.WaitsFor(j.Reason) != slurmplug.ForTime || j.Eligible.IsZero() {
		return j.WantsRoom()
	}
	return !j.Eligible.After(d.s.At) || kept(j, d.h) // where that time has passed, Slurm has not looked again
}

// ask goes through the waiting jobs in the order of the queue.
func (d *decider) ask() {
	var queue []int
	for i := range d.s.Jobs {
		if j := &d.s.Jobs[i]; j.State == cluster.Pending && d.result.Jobs[i].Right == cluster.NoShares && d.forRoom(j) {
			queue = append(queue, i)
		}
	}
	slices.SortFunc(queue, func(a, b int) int {
		x, y := &d.s.Jobs[a], &d.s.Jobs[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.ID.ID, y.ID.ID), cmp.Compare(len(x.Tasks), len(y.Tasks)), x.ID.Compare(y.ID))
	})
	for _, i := range queue { // an array's record after those of its tasks
		j := &d.s.Jobs[i]
		if gpus := d.charge(j); gpus > 0 {
			d.result.Jobs[i] = d.waiting(j, gpus)
		}
	}
}

// waiting is the standing of a waiting job of which each task takes so many GPUs.
func (d *decider) waiting(j *cluster.Job, gpus float64) Standing {
	tasks := max(j.TasksNow(), 1)
	first := -1
	for _, k := range d.owners.candidates(j) {
		if first < 0 {
			first = k
		}
		state := &d.result.Shares[k]
		fit := min(int((state.Owned+rounding-state.Entitled-state.Wanted)/gpus), tasks)
		if fit < 1 {
			continue
		}
		x := Standing{cluster.Entitled, k, fit}
		if fit == tasks {
			x.Tasks = 0
		}
		state.Wanted += float64(fit) * gpus
		state.Waiting += fit
		d.bound[k] += float64(fit) * gpus
		return x
	}
	right, has := d.beyond(j, gpus, first, tasks)
	if has == tasks {
		has = 0
	}
	return Standing{right, first, has}
}

// beyond is the right of a waiting job that is not entitled, and how many of its tasks have it.
func (d *decider) beyond(j *cluster.Job, gpus float64, share, tasks int) (cluster.Right, int) {
	grace, leaves := d.set.Leaves(j)
	reach, fit := d.pools.reach(j), 0
	if !leaves && share >= 0 {
		fit = min(int((d.result.Shares[share].Owned+rounding-d.bound[share])/gpus), tasks)
	}
	switch {
	case d.set.Lend == All:
		return cluster.Borrows, tasks
	case fit > 0: // It takes the place of jobs of its account that leave: these borrow from then on.
		d.bound[share] += float64(fit) * gpus
		return cluster.Within, fit
	case d.set.Lend == Returnable && (leaves && grace <= d.soonest || d.set.Trial(j) || j.TimeLimit != slurmplug.Unlimited && j.TimeLimit <= d.soonest):
		return cluster.Borrows, tasks
	}
	if fit = sort.Search(tasks, func(n int) bool { return !d.pools.keeps(reach, float64(n+1)*gpus) }); fit > 0 {
		d.pools.promise(reach, float64(fit)*gpus)
		return cluster.Borrows, fit
	}
	if d.waited(j) >= d.set.After {
		return cluster.Borrows, tasks
	}
	return cluster.Withheld, tasks
}

// waited is how long a job has waited since it could first have run.
func (d *decider) waited(j *cluster.Job) time.Duration {
	since := d.h.FirstEligible.Get(j.ID)
	if since.IsZero() {
		return 0
	}
	return d.s.At.Sub(since)
}
