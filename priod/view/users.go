package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
)

// Owners is what users and accounts had of a week.
type Owners struct {
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Users    []Owner   `json:"users"` // those with the most GPU-hours first
	Accounts []Owner   `json:"accounts"`
}

// Owner is a user or an account.
type Owner struct {
	Name        string   `json:"name"`
	GPUHours    float64  `json:"gpu_h"`
	GPUs        int      `json:"gpus_in_use"`
	Waiting     int      `json:"waiting_jobs"`
	WaitingGPUs int      `json:"waiting_gpus"`
	Started     int      `json:"started_jobs"`
	WaitP50     *float64 `json:"wait_p50_s"` // of the jobs that started; null: none has
	WaitP95     *float64 `json:"wait_p95_s"`
	Evicted     int      `json:"evicted_runs"`     // of its jobs
	LostGPUH    float64  `json:"lost_gpu_h"`       // work that these lost
	Evictions   int      `json:"runs_evicted_for"` // jobs of others that left for its jobs
	TEGPUHours  float64  `json:"te_gpu_h_of_the_day"`
	TEBudget    float64  `json:"te_budget_gpu_h"`      // of a day, the largest of a job that runs or waits; 0: none
	BudgetLeft  float64  `json:"te_budget_left_gpu_h"` // of it, before the price of TE jobs rises
	With        *float64 `json:"completion_s"`         // mean, as it happened; null: not replayed, or among neither those that gained most nor those that lost
	Without     *float64 `json:"completion_without_priod_s"`

	waits      []float64
	partitions map[string]bool // lists of those of its jobs that run or wait
}

// mostOwners are listed.
const mostOwners = 200

func (a *Asked) users(ctx context.Context) (shown, error) {
	v, r := &Owners{Since: a.Last.Until.Add(-week), Until: a.Last.Until}, a.Store
	seen, err := r.Activity(ctx, v.Since, week)
	holders, err2 := r.Holders(ctx)
	keys, _, err3 := a.waiting(ctx)
	gone, err4 := r.EvictionsSince(ctx, v.Since)
	all, err5 := r.Nodes(ctx)
	if err := cmp.Or(err, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	users, accounts := owners{}, owners{}
	both := func(user, account string, add func(o *Owner)) {
		add(groupOf(users, user, Owner{Name: user}))
		add(groupOf(accounts, account, Owner{Name: account}))
	}
	for i := range seen.Stays {
		s := &seen.Stays[i]
		hours := func(since time.Time) float64 {
			return float64(s.GPUs) * max(cluster.Earlier(s.End, v.Until).Sub(cluster.Later(s.Start, since)).Hours(), 0)
		}
		both(s.User, s.Account, func(o *Owner) {
			o.GPUHours += hours(v.Since)
			if s.Class == cluster.TE {
				o.TEGPUHours += hours(v.Until.Add(-cluster.UsePeriod))
			}
		})
	}
	for i := range seen.Starts {
		if s := &seen.Starts[i]; !s.Ready.IsZero() {
			both(s.User, s.Account, func(o *Owner) { o.waits = append(o.waits, max(s.Start.Sub(s.Ready).Seconds(), 0)) })
		}
	}
	for i := range holders {
		h := &holders[i]
		both(h.User, h.Account, func(o *Owner) { o.GPUs += h.GPUs; o.asks(h.Partition) })
	}
	for i := range keys {
		k := &keys[i]
		both(k.User, k.Account, func(o *Owner) { o.Waiting, o.WaitingGPUs = o.Waiting+1, o.WaitingGPUs+k.GPUs; o.asks(k.Partition) })
	}
	for i := range gone {
		x := &gone[i]
		if x.Left.IsZero() {
			continue
		}
		both(x.VictimUser, x.VictimAccount, func(o *Owner) {
			o.Evicted++
			if x.Paid != nil {
				o.LostGPUH += *x.Paid / 3600
			}
		})
		both(x.ForUser, x.ForAccount, func(o *Owner) { o.Evictions++ })
	}
	if value, _ := r.Value(); value != nil {
		for _, x := range slices.Concat(value.Gained, value.Lost) {
			if o := users[x.User]; o != nil {
				o.With, o.Without = &x.With, &x.Without
			}
		}
	}
	classes := a.Config.Decide().Ranking
	v.Users, v.Accounts = users.list(all, classes.OfUser), accounts.list(all, classes.OfAccount)
	return v, nil
}

// asks notes the partitions of a job that runs or waits.
func (o *Owner) asks(partitions string) {
	if o.partitions == nil {
		o.partitions = map[string]bool{}
	}
	o.partitions[cluster.PartitionSet(partitions)] = true
}

// budget is the largest that counts for a job of those that run or wait; where there is none, that of a job in any partition.
func (o *Owner) budget(reaches func(partitions string) plan.Reach, of plan.Budget) (most float64) {
	if len(o.partitions) == 0 {
		return of.On(reaches("")).GPUHours
	}
	for p := range o.partitions {
		most = max(most, of.On(reaches(p)).GPUHours)
	}
	return most
}

type owners map[string]*Owner

func (all owners) list(nodes []cluster.Node, budget func(name string) plan.Budget) []Owner {
	known := map[string]plan.Reach{}
	for i := range nodes { // "": in any partition
		known[""] = plan.Reach{GPUs: known[""].GPUs + nodes[i].GPUs, Node: max(known[""].Node, nodes[i].GPUs)}
	}
	reaches := func(partitions string) plan.Reach {
		r, is := known[partitions]
		if !is {
			if r = plan.ReachOf(nodes, partitions); r.GPUs == 0 { // they are gone
				r = known[""]
			}
			known[partitions] = r
		}
		return r
	}
	list := ranked(all, func(o *Owner) float64 { return o.GPUHours })
	for i := range list {
		o := &list[i]
		o.Started, o.WaitP50, o.WaitP95 = len(o.waits), percentile(o.waits, 50), percentile(o.waits, 95)
		o.TEBudget = o.budget(reaches, budget(o.Name))
		o.BudgetLeft = max(o.TEBudget-o.TEGPUHours, 0)
	}
	return list[:min(len(list), mostOwners)]
}

// Figure draws the GPU-hours of users.
func (v *Owners) Figure() *report.Figure {
	f := &report.Figure{Title: "GPU-hours of the last week, by user", YLabel: "GPU-hours", XLabel: "user"}
	for i := range v.Users[:min(len(v.Users), 15)] {
		if o := &v.Users[i]; o.GPUHours > 0 {
			f.Bars = append(f.Bars, report.Bar{Name: report.Name(o.Name), Value: o.GPUHours})
		}
	}
	return f
}

func (v *Owners) only(user string) {
	v.Users = slices.DeleteFunc(v.Users, func(o Owner) bool { return o.Name != user })
	v.Accounts = []Owner{} // they have others' use in them
}
