package order

import (
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// What the TE jobs of a user or an account use is charged against the shares of [te_budget]: the GPUs that they hold at a
// time, the GPU time of a day, and each job's time limit. How many times a share is used once a job has started is the price
// of its start. Up to 1 it is free. Above, the trial may evict only for that much less (preemption.Trial), and each
// doubling puts it behind the trials of others that are cheaper. From plan.Worth on a second of its wait is worth no more
// than one of a BE job's: it stands among these.

// charge is what a job costs of one share. Its unit is that of the limit.
type charge struct {
	limit   string  // gpus, gpu_hours, time_limit_s
	used    float64 // of the share, by the owner's jobs that run and that are next
	each    float64 // of it, by each task of the job
	allowed float64
}

// times is how many times the share is used once so many tasks of the job have started.
func (c *charge) times(tasks float64) float64 { return (c.used + tasks*c.each) / c.allowed }

// within is how many tasks may start before the share is used so many times.
func (c *charge) within(times float64) float64 {
	if c.each == 0 {
		return math.Inf(1)
	}
	return math.Ceil((times*c.allowed-c.used)/c.each*(1-rounding)) - 1
}

// rounding is the relative difference of two sums of the same numbers.
const rounding = 1e-9

// level is in which doubling of the price a job stands: trials of a level go in the order of their time.
func level(times float64) int { return max(int(math.Floor(math.Log2(max(times, 1))*(1+rounding))), 0) }

// admit goes through the TE jobs in their order, puts a price on each, and makes those BE whose price is too high. Pending
// jobs before a job count as if they ran, so that many small trials at once cannot all go first. A job that room alone
// cannot start takes no part of a share.
func (r *ranker) admit(verdicts []Verdict, te []int) []int {
	te = sortTE(te, verdicts, r.s, r.h)
	if r.set.Boundless() {
		return te
	}
	arrays, levels := map[uint32]int{}, false // tasks admitted so far, of arrays with a limit
	for _, i := range te {
		v := &verdicts[i]
		j := &r.s.Jobs[v.Job]
		tasks := j.TasksNow()
		if j.AtOnce > 0 {
			tasks = max(min(tasks, j.AtOnce-j.ArrayRuns-arrays[j.ID.ID]), 0)
		}
		gpus, seconds := r.weigh(j)
		fit := min(r.price(v, j, gpus, seconds), tasks)
		if levels = levels || level(v.Budget.Factor()) > 0; v.Class != cluster.TE || r.stuck(j) {
			continue
		}
		if v.Tasks = 0; fit < tasks {
			v.Tasks = fit
		}
		if j.AtOnce > 0 {
			arrays[j.ID.ID] += fit
		}
		r.use().hold(j, float64(fit)*gpus, float64(fit)*seconds)
	}
	te = slices.DeleteFunc(te, func(i int) bool { return verdicts[i].Class != cluster.TE })
	if levels {
		te = sortTE(te, verdicts, r.s, r.h)
	}
	return te
}

// stuck reports whether Slurm says that something else than room keeps a job from starting, now and in the next minute.
// Where room is being made for it, it says so of the nodes that are kept for it.
func (r *ranker) stuck(j *cluster.Job) bool {
	return !j.WantsRoom() && !j.Begins(r.s.At) && !r.h.Claiming[j.ID] && !(len(r.h.Claiming) > 0 && r.h.Claiming[j.FirstTask()])
}

// price puts the price of its first task on a TE job, whose tasks weigh so much, makes it BE where that is too high, and
// returns how many of its tasks stand on the same level.
func (r *ranker) price(v *Verdict, j *cluster.Job, gpus, seconds float64) (tasks int) {
	var dearest charge
	var owner *budgetHolder
	holders := r.holders(j)
	all := r.scratch[:0]
	for k := range holders {
		before := len(all)
		all = holders[k].charges(all, j, gpus, seconds)
		for _, c := range all[before:] {
			if owner == nil || c.times(1) > dearest.times(1) {
				dearest, owner = c, &holders[k]
			}
		}
	}
	r.scratch = all
	if owner == nil {
		return math.MaxInt32
	}
	times := dearest.times(1)
	if times > 1+rounding {
		v.Budget = &plan.BudgetLimit{Of: owner.of, Name: owner.name, Limit: dearest.limit, Allowed: dearest.allowed, Asks: dearest.each, Times: plan.RoundedTimes(times)}
	}
	if times > plan.Worth*(1+rounding) {
		v.Class, v.Why = cluster.BE, plan.OverBudget
		if r.s.Jobs[v.Job].Right == cluster.Entitled {
			v.Why = plan.InShare
		}
		v.Detail = ""
		return 0
	}
	if level(times) > 0 {
		v.Detail = ""
	}
	bound, most := min(math.Exp2(float64(level(times)+1)), plan.Worth*(1+2*rounding)), math.Inf(1)
	for k := range all {
		most = min(most, all[k].within(bound))
	}
	return int(max(min(most, math.MaxInt32), 1))
}

// charges adds what a task of a job costs of the shares of one owner.
func (a *budgetHolder) charges(all []charge, j *cluster.Job, gpus, seconds float64) []charge {
	if a.budget.GPUs > 0 && gpus > 0 {
		all = append(all, charge{"gpus", a.use.gpus, gpus, float64(a.budget.GPUs)})
	}
	if a.budget.GPUHours > 0 && gpus > 0 {
		all = append(all, charge{"gpu_hours", a.use.seconds / 3600, seconds / 3600, a.budget.GPUHours})
	}
	if l := a.budget.TimeLimit; l > 0 {
		limit := j.TimeLimit.Seconds()
		if j.TimeLimit == slurmplug.Unlimited {
			limit = math.Inf(1)
		}
		if limit > l.Seconds() {
			all = append(all, charge{"time_limit_s", limit, 0, l.Seconds()})
		}
	}
	return all
}

// weigh is what a task of a job costs: GPUs held at a time, of which a job shorter than plan.Burst takes that much less,
// and GPU-seconds, up to its time limit.
func (r *ranker) weigh(j *cluster.Job) (gpus, seconds float64) {
	run := cluster.UsePeriod
	if j.TimeLimit != slurmplug.Unlimited {
		run = min(run, j.TimeLimit)
	}
	gpus = r.charge(j)
	return gpus * min(run.Seconds()/plan.Burst.Seconds(), 1), gpus * run.Seconds()
}

// holders are the user and the account whose shares a job draws on.
func (r *ranker) holders(j *cluster.Job) [2]budgetHolder {
	user := budgetHolder{of: "user", name: j.User, budget: r.on(r.set.OfUser(j.User), j)}
	acct := budgetHolder{of: "account", name: j.Account, budget: r.on(r.set.OfAccount(j.Account), j)}
	if user.budget.Counts() || acct.budget.Counts() {
		user.use, acct.use = r.use().users[j.User], r.use().accounts[j.Account]
	}
	return [2]budgetHolder{user, acct}
}

// budgetHolder is a user or an account.
type budgetHolder struct {
	of     string // user, account
	name   string
	budget plan.Budget
	use    used
}

// on is a budget on what a job can reach.
func (r *ranker) on(b plan.Budget, j *cluster.Job) plan.Budget {
	if b.Share == 0 && b.HourShare == 0 {
		return b
	}
	return b.On(r.reachOf(r.h.Reaches(j)))
}

// reachOf is what jobs of one or more partitions can reach.
func (r *ranker) reachOf(partitions string) plan.Reach {
	known, is := r.reach[partitions]
	if !is {
		if r.reach == nil {
			r.reach = map[string]plan.Reach{}
		}
		known = plan.ReachOf(r.s.Nodes, partitions)
		r.reach[partitions] = known
	}
	return known
}
