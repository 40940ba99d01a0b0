package guarantee

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// tell adds to the plan's decisions what each waiting job may do, and why.
func (f *Feature) tell(c *plan.Cycle) {
	if len(f.result.Jobs) == 0 {
		return
	}
	at := make(map[cluster.JobID]int, len(c.Plan.Decisions))
	for i := range c.Snapshot.Jobs {
		if j := &c.Snapshot.Jobs[i]; j.State == cluster.Pending && j.Right != cluster.NoShares {
			at[j.ID] = i
		}
	}
	lenders := f.lenders()
	for i := range c.Plan.Decisions {
		d := &c.Plan.Decisions[i]
		k, has := at[d.Job]
		if !has {
			continue
		}
		x := f.choice(&c.Snapshot.Jobs[k], f.result.Jobs[k].Share)
		switch x.Right {
		case cluster.Entitled.String():
			x.Since = f.Memory.since(&c.Snapshot.Jobs[k])
		case cluster.Borrows.String():
			x.From = lenders
		case cluster.Withheld.String():
			if since := c.History.FirstEligible.Get(d.Job); !since.IsZero() {
				x.Until = since.Add(f.Settings.After)
			}
		}
		d.Choices.Share = &x
	}
}

// choice is what a job may do that draws on a share; -1: its account has none.
func (f *Feature) choice(j *cluster.Job, share int) plan.ShareChoice {
	x := plan.ShareChoice{Right: j.Right.String(), Account: j.Account, GPUs: float64(j.GPUs)}
	if share >= 0 {
		state := &f.result.Shares[share]
		x.Account, x.GPUType, x.Owned, x.Used, x.Down = state.Share.Account, state.Share.GPUType, state.Owned, state.Used, state.Down
	}
	grace, leaves := f.Settings.Leaves(j)
	soonest := f.Settings.soonest()
	x.WithinS = soonest.Seconds()
	switch {
	case f.Settings.Lend == None:
		x.Stays = "lends-none"
	case j.TimeLimit != slurmplug.Unlimited && j.TimeLimit <= soonest:
	case !leaves && !f.Settings.Trial(j):
		x.Stays = "no-consent"
	case leaves && grace > soonest && !f.Settings.Trial(j):
		x.Stays, x.GraceS = "long-grace", grace.Seconds()
	}
	return x
}

// mostLenders is how many are named.
const mostLenders = 3

// lenders are the shares that have most to lend, by name.
func (f *Feature) lenders() string {
	var lend []*State
	for i := range f.result.Shares {
		if s := &f.result.Shares[i]; s.Lent() >= 1 {
			lend = append(lend, s)
		}
	}
	slices.SortStableFunc(lend, func(a, b *State) int { return cmp.Compare(b.Lent(), a.Lent()) })
	var names []string
	for _, s := range lend[:min(len(lend), mostLenders)] {
		names = append(names, s.Share.Name())
	}
	return strings.Join(names, ", ")
}

// soonest is the shortest time in which a share has to come back.
func (set *Settings) soonest() (least time.Duration) {
	for i := range set.Shares {
		if within := set.Shares[i].ReturnWithin; i == 0 || within < least {
			least = within
		}
	}
	return least
}
