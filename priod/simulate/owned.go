package simulate

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// How a Slurm without priod gives accounts what [[share]] tables say that they own.
const (
	FairShare = "fair-share" // Fairshare of the account is its GPUs
	Quotas    = "quotas"     // and so is GrpTRES: it never has more
	Owners    = "owners"     // Fairshare, and a partition of its own nodes whose jobs preempt guests
)

// guests is the partition of all nodes in which jobs run until owners preempt them, and have its GraceTime then, s.
const (
	guests    = "guests"
	graceTime = 60
)

// Owned reports whether the order goes by shares, without priod.
func (s *Spec) Owned() bool { return s.Order == FairShare || s.Order == Quotas || s.Order == Owners }

// own has the virtual Slurm go by the shares. GPUs of all types of an account count together.
func (s *Spec) own(in *Input, opt *virtual.Options) error {
	if in.Config == nil || len(in.Config.Shares) == 0 {
		return virtual.OptionError(fmt.Sprintf("--order %s wants [[share]] tables in the file of --config", s.Order))
	}
	opt.Order, opt.Shares = virtual.Multifactor, map[string]int{}
	for _, x := range in.Config.Shares {
		gpus := x.GPUs
		if gpus == 0 {
			gpus = int(math.Floor(x.Part * float64(in.Cluster.TotalGPUs())))
		}
		opt.Shares[x.Account] += gpus
	}
	for name, gpus := range opt.Shares {
		if s.Order == Quotas {
			in.Cluster.Associations = append(slices.Clip(in.Cluster.Associations), slurmplug.Association{Account: name, All: slurmplug.TRES{{Name: "gres/gpu", Count: int64(gpus)}}})
		}
	}
	if s.Order != Owners {
		return nil
	}
	if in.Cluster.Divided() {
		return virtual.OptionError(fmt.Sprintf("--order %s makes partitions of its own: want nodes without partitions", Owners))
	}
	in.Cluster = in.divide(opt.Shares)
	in.Jobs = submitted(in.Jobs, opt.Shares, virtual.Never(in.Cluster, *opt))
	opt.Evict = virtual.SlurmPartitions
	return nil
}

// divide gives each owner a partition of whole nodes, as many as its GPUs come to, the largest first. Nodes of the type of
// which most are left are given first.
func (in *Input) divide(owners map[string]int) trace.Cluster {
	c := in.Cluster
	c.Nodes, c.Partitions = nil, []trace.Partition{{Name: guests, Tier: 1, JobFactor: 1}}
	left := map[string]int{}
	for _, g := range in.Cluster.Nodes {
		for range g.Count {
			if g.Count, g.Partitions = 1, []string{guests}; g.GPUs > 0 {
				left[g.GPUType]++
			}
			c.Nodes = append(c.Nodes, g)
		}
	}
	for _, name := range byGPUs(owners) {
		given := 0
		for has := 0; has < owners[name]; given++ {
			best := -1
			for i := range c.Nodes {
				g := &c.Nodes[i]
				if g.GPUs > 0 && len(g.Partitions) == 1 && (best < 0 || left[g.GPUType] > left[c.Nodes[best].GPUType]) {
					best = i
				}
			}
			if best < 0 {
				break
			}
			g := &c.Nodes[best]
			g.Partitions = append(g.Partitions, name)
			left[g.GPUType]--
			has += g.GPUs
		}
		if given > 0 {
			c.Partitions = append(c.Partitions, trace.Partition{Name: name, Tier: 2, JobFactor: 1})
		}
	}
	return c
}

// byGPUs are the names of accounts, those with most GPUs first.
func byGPUs(accounts map[string]int) (names []string) {
	for name := range accounts {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.SortStableFunc(names, func(a, b string) int { return accounts[b] - accounts[a] })
	return names
}

// submitted has each job name partitions as its owner would: that of its account, and the guests' beside it where it may be
// requeued: by its tag, or as a trial. Jobs that the own partition cannot hold, and those of other accounts, are guests.
func submitted(jobs iter.Seq2[trace.Job, error], owners map[string]int, never func(*trace.Job) string) iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			j.Partition = j.Account
			switch _, owns := owners[j.Account]; {
			case err != nil:
			case !owns || never(&j) != "":
				j.Partition, j.Grace = guests, graceTime
			case !j.Untagged || j.Class == cluster.TE:
				j.Partition, j.Grace = j.Partition+","+guests, graceTime
			}
			if !yield(j, err) {
				return
			}
		}
	}
}
