package virtual

import (
	"maps"
	"math"
	"slices"

	"slurmprio/priod/trace"
)

// Weights are those of Slurm's priority/multifactor that a trace has data
// for, under Slurm's names. The zero value stands for DefaultWeights.
type Weights struct {
	Age, JobSize, FairShare int64
	Partition               int64   // times PriorityJobFactor, of the largest one
	MaxAge                  float64 // s at which age counts in full
	DecayHalfLife           float64 // s after which past use counts half
	CalcPeriod              float64 // s between two computations
	ByNodes                 bool    // job size is in nodes and CPUs, and use in what Slurm bills; else both in GPUs
	FairTree                bool    // fair share ranks users by Fair Tree, Slurm's default; else accounts by their use
	FavorSmall              bool    // then small jobs are preferred: PriorityFavorSmall
}

// DefaultWeights let fair share decide first; times are Slurm's own defaults.
var DefaultWeights = Weights{Age: 1000, JobSize: 1000, FairShare: 10000, MaxAge: 7 * 86400, DecayHalfLife: 7 * 86400, CalcPeriod: 300}

// FIFOWeights let age alone decide: first come, first served.
var FIFOWeights = Weights{Age: 1000}

// multifactor is Slurm's priority of jobs, with fair share: an account has the shares that Options.Shares gives it or, with
// Fair Tree, the cluster's accounts, else 1 as by Slurm's default, and use is in what Slurm billed for a job, else in
// GPU-seconds. A job without GPUs is billed for the GPUs whose share of CPUs it holds.
type multifactor struct {
	w        Weights
	accounts map[string]*account
	users    map[[2]string]*account // by account and name, of Fair Tree
	all      account
	decayed  float64 // when use was last brought up to date

	nodes, cpus, widest int // of the cluster; GPUs of its largest node
}

// account is the decayed use of one account, of a user in it, or of all.
type account struct {
	use    float64 // s, times what is billed
	billed float64 // now
	shares float64
	up     *account // nil: all
	tree   branch
}

func newMultifactor(opt *Options, c trace.Cluster) *multifactor {
	w := opt.Multifactor
	if w == (Weights{}) {
		w = DefaultWeights
	}
	for _, d := range []struct{ to, from *float64 }{
		{&w.MaxAge, &DefaultWeights.MaxAge}, {&w.DecayHalfLife, &DefaultWeights.DecayHalfLife}, {&w.CalcPeriod, &DefaultWeights.CalcPeriod},
	} {
		if *d.to == 0 {
			*d.to = *d.from
		}
	}
	m := &multifactor{w: w, accounts: map[string]*account{}, users: map[[2]string]*account{}}
	for i := range c.Nodes {
		g := &c.Nodes[i]
		m.nodes, m.cpus, m.widest = m.nodes+g.Count, m.cpus+g.Count*g.CPUs, max(m.widest, g.GPUs)
	}
	if w.FairTree {
		m.grow(c.Accounts)
	}
	for _, name := range slices.Sorted(maps.Keys(opt.Shares)) {
		a, n := m.of(name), float64(opt.Shares[name])
		m.all.shares += n - a.shares
		a.shares = n
	}
	return m
}

func (m *multifactor) period() float64 {
	if m == nil {
		return DefaultWeights.CalcPeriod
	}
	return m.w.CalcPeriod
}

func (m *multifactor) of(name string) *account {
	a := m.accounts[name]
	if a == nil {
		a = m.all.add(false)
		m.accounts[name] = a
		m.all.shares++
	}
	return a
}

func (m *multifactor) starts(j *job, now float64) { m.holds(j, j.bill, now) }
func (m *multifactor) stops(j *job, now float64)  { m.holds(j, -j.bill, now) }

// holds books, ahead of the next decay, that what is billed changes hands now.
func (m *multifactor) holds(j *job, billed, now float64) {
	if m == nil {
		return
	}
	for a := m.owner(j); a != nil; a = a.up {
		a.billed += billed
		a.use -= billed * (now - m.decayed) // decay adds the whole period
	}
}

// owner is the account of a job, with Fair Tree its user in there.
func (m *multifactor) owner(j *job) *account {
	if j.owner == nil && m.w.FairTree {
		j.owner = m.user(j.Account, j.User)
	} else if j.owner == nil {
		j.owner = m.of(j.Account)
	}
	return j.owner
}

// decay brings all use up to date.
func (m *multifactor) decay(now float64) {
	if m == nil {
		return
	}
	passed := now - m.decayed
	keep := math.Exp2(-passed / m.w.DecayHalfLife)
	m.all.each(func(a *account) { a.use = a.use*keep + a.billed*passed })
	m.decayed = now
	m.rank()
}

// fairShare is the factor of Fair Tree, or Slurm's classic 2^-(use / share) between 0 and 1 (priority_multifactor.c); fresh
// accounts have 1.
func (m *multifactor) fairShare(a *account) float64 {
	if m.w.FairTree {
		return a.tree.factor
	}
	if !(a.use > 0) || !(m.all.use > 0) {
		return 1
	}
	return math.Exp2(-a.use / m.all.use * (m.all.shares / a.shares))
}

// factors is the sum of Slurm's own factors for a job.
func (m *multifactor) factors(j *job, now, size float64) int64 {
	age := min(max(now-j.since, 0)/m.w.MaxAge, 1)
	return int64(float64(m.w.Age)*age + float64(m.w.JobSize)*size + float64(m.w.FairShare)*m.fairShare(m.owner(j)))
}

// partition is what a PriorityJobFactor adds to the priority of jobs, beside those of all partitions.
func (m *multifactor) partition(factor int, all []trace.Partition) int64 {
	most := 0
	for i := range all {
		most = max(most, all[i].JobFactor)
	}
	if m == nil || most == 0 {
		return 0
	}
	return int64(float64(m.w.Partition) * float64(factor) / float64(most))
}

// span is the most that the factors can make between two jobs.
func (m *multifactor) span() int64 { return m.w.Age + m.w.JobSize + m.w.FairShare + m.w.Partition }

// bill is what a job's owner is billed for, in GPUs where it is not known what Slurm billed.
func (e *engine) bill(j *job) float64 {
	if j.Billing > 0 && e.factors != nil && e.factors.w.ByNodes {
		return float64(j.Billing)
	}
	if j.GPUs > 0 || e.cpus == 0 {
		return float64(j.GPUs)
	}
	return float64(max(j.CPUs, j.Nodes, 1)) / e.cpus
}

// size is the factor of a job's size (_get_priority_internal in priority_multifactor.c).
func (e *engine) size(j *job) float64 {
	m := e.factors
	if !m.w.ByNodes {
		return min(j.bill/float64(e.gpus), 1)
	}
	nodes := max(int(j.request.Nodes), (j.GPUs+m.widest-1)/m.widest, 1)
	size := float64(nodes) / float64(m.nodes)
	if m.cpus > 0 {
		size = (size + float64(j.CPUs)/float64(m.cpus)) / 2
	}
	if m.w.FavorSmall {
		return 1 - min(size, 1)
	}
	return min(size, 1)
}

// priority is what Slurm orders a job by, without what its partition adds.
func (e *engine) priority(j *job) int64 {
	const most = 1<<32 - 3 // NO_VAL
	return min(max(e.factors.factors(j, e.now, e.size(j))+j.site, 1), most)
}

// shown is the priority that Slurm shows: that in the first partition of the job's list.
func (e *engine) shown(j *job) int64 { return e.priority(j) + j.line.parts[0].bonus }
