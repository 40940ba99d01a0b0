package evict

import (
	"cmp"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
)

// Fragmented is a waiting job of several GPUs, a gang, for which enough are free, but not
// in the shape that it asks for, and which jobs would have to move for it.
type Fragmented struct {
	Job     cluster.JobID  `json:"job"`
	User    string         `json:"user"`
	GPUs    int            `json:"gpus"`
	Free    int            `json:"free_gpus"` // of one type, on nodes that it may have
	Why     preemption.Why `json:"why"`
	Waited  float64        `json:"waited_s"` // because of fragmentation
	Nodes   []string       `json:"nodes"`    // on which it would lie; none unless others move
	Victims []Leaver       `json:"victims"`
	Cost    float64        `json:"cost_gpu_s"`
	WaitS   float64        `json:"wait_s"` // until the last one has left
}

// Leaver is a small job that would leave.
type Leaver struct {
	Job  cluster.JobID `json:"job"`
	User string        `json:"user"`
	GPUs int           `json:"gpus"`
	Node string        `json:"node"`
	Cost float64       `json:"cost_gpu_s"` // GPU-seconds of work lost
}

// Moves says which jobs move for which gang. Changes holds the rows of new claims and
// evictions, which have no numbers yet.
type Moves struct {
	Gangs   []Fragmented // in the order of the queue
	Changes Changes
}

// Pays reports whether the gang's GPUs have waited as long as the GPU time that moving
// others for it loses. Who so waits until waiting has cost as much as acting, pays at most
// twice what a scheduler would that knew the future (ski rental: Karlin et al., Competitive
// snoopy caching, Algorithmica 1988).
func (f *Fragmented) Pays() bool { return float64(f.GPUs)*f.Waited >= f.Cost }

// moving is one decision on gangs.
type moving struct {
	Choice
	m     *nodemap.Map
	gangs []gang
	after *placement.Nodes // what is free once all that has a place, and all waiting jobs that fit, have started
}

// gang is a gang that others might move for.
type gang struct {
	job     *cluster.Job
	at      int // among Moves.Gangs
	trial   preemption.Trial
	verdict preemption.Verdict
}

// Defragment says which small jobs move for gangs that wait though enough GPUs are free,
// with the least work lost: among jobs that agreed to evictions, were never evicted, hold a
// part of one node, and have room elsewhere at once, within the limits of evictions.
// waited is how long a job has waited for that (plan.Cycle.Fragmented); nil: unknown.
// vetoed are jobs that a closer look ruled out.
func Defragment(s *cluster.Snapshot, m *nodemap.Map, held *Holders, p *plan.Plan, j *Journal, set *Settings, waited func(cluster.JobID) time.Duration, vetoed map[cluster.JobID]preemption.Why) *Moves {
	d := &moving{m: m, Choice: Choice{set: set.Policy}}
	d.set.Limits = set.limits(s)
	d.set.Policy, d.set.MaxEvictions = preemption.LeastLoss, 1
	d.set.Urgency, d.set.Each = 1, 0 // as in Pays
	d.snapshot.Nodes = m.Nodes
	d.addCandidates(held, set, vetoed)
	d.excludeUnmovable(vetoed)
	d.countRecent(s, j)
	r := &Moves{Gangs: []Fragmented{}}
	d.addGangs(r, s, p, j, set, waited, vetoed)
	if len(d.gangs) == 0 {
		return r
	}
	claims := j.claimsByJob()
	d.excludeWithoutRoom()
	d.setTrials(d.gangs, claims)
	d.setShadowTimes(m, set)
	for i := range d.gangs {
		d.gangs[i].trial.Start = d.snapshot.Trials[i].Start
	}
	for _, g := range d.settle(r, claims) {
		f := &r.Gangs[g.at]
		d.addRows(s, m, g.job, Claim{Purpose: ForGang, Job: f.Job, RawID: g.job.RawID, User: f.User, GPUs: f.GPUs, Wait: seconds(f.WaitS)}, g.verdict.Shares, g.verdict.Victims, set)
	}
	r.Changes = d.Changes
	return r
}

// excludeUnmovable lets those stay that hold whole nodes, or several: to move them would
// open no node. Those that name nodes stay, too.
func (d *moving) excludeUnmovable(vetoed map[cluster.JobID]preemption.Why) {
	for i := range d.snapshot.Candidates {
		x := &d.snapshot.Candidates[i]
		if len(x.Shares) > 1 || x.Shares[0].GPUs >= d.m.Nodes.Size(x.Shares[0].Node).GPUs || vetoed[d.running[i].ID] == Bound {
			x.Consent = x.Leaving
		}
	}
}

// addGangs goes through the queue: a job that fits takes its place, and of those that do
// not fit, the gangs for which enough GPUs are left are fragmented.
func (d *moving) addGangs(r *Moves, s *cluster.Snapshot, p *plan.Plan, j *Journal, set *Settings, waited func(cluster.JobID) time.Duration, vetoed map[cluster.JobID]preemption.Why) {
	claims, released, spent, owners := j.claimsByJob(), j.releasedUntil(s.At, set.Retry), j.spentByUser(s.At), map[string]int{}
	taught := j.lessons()
	d.after = d.whenUnderwayIsDone(s, j, claims)
	looked := 0
	for _, q := range p.Queue {
		job := &s.Jobs[q.Job]
		types, understood := allowedTypes(d.m, job)
		dec := &p.Decisions[q.Decision]
		if job.GPUs == 0 || job.HetLeader != 0 || !job.WantsRoom() || !understood || claims[job.FirstTask()] != nil {
			continue
		}
		if looked++; looked > maxTrials {
			return
		}
		request := d.m.Request(job, types)
		if d.start(job, request) {
			continue
		}
		free := d.freeOfOneType(types)
		if job.GPUs < 2 || free < job.GPUs || !dec.Ranked || set.Enabled && dec.Class == cluster.TE {
			continue
		}
		f := Fragmented{Job: job.FirstTask(), User: job.User, GPUs: job.GPUs, Free: free, Nodes: []string{}, Victims: []Leaver{}}
		if waited != nil {
			f.Waited = waited(job.ID).Seconds()
		}
		types, vain := taught.apply(s, d.m, job, types)
		request.Types = types
		switch {
		case !job.AllowsWaiting():
			f.Why = NoTag
		case vain != nil && types == 0:
			f.Why = InVain
		case vetoed[f.Job] != "":
			f.Why = vetoed[f.Job]
		case within(d.doubtful, s.At, set.Since):
			f.Why = TookOver
		case !released(f.Job).IsZero():
			f.Why = TooSoon
		default:
			owner, known := owners[f.User]
			switch {
			case f.User == "": // as in some traces: such jobs share no limit
				owner = preemption.NoOwner
			case !known:
				owner = len(owners)
				owners[f.User] = owner
				d.snapshot.PastOwner = append(d.snapshot.PastOwner, spent[f.User])
			}
			d.gangs = append(d.gangs, gang{job: job, at: len(r.Gangs), trial: preemption.Trial{Request: request, Alike: d.m.Together(job, types), Owner: owner, Start: math.Inf(1)}})
		}
		r.Gangs = append(r.Gangs, f)
	}
}

// whenUnderwayIsDone is what is free once all open claims have their places, and all
// victims that are on their way run again.
func (d *moving) whenUnderwayIsDone(s *cluster.Snapshot, j *Journal, claims map[cluster.JobID]*Claim) *placement.Nodes {
	free := d.m.Nodes.Clone()
	for i := range d.snapshot.Candidates {
		if x := &d.snapshot.Candidates[i]; x.Leaving {
			free.Release(x.Shares)
		}
	}
	for _, c := range claims {
		free.Take(c.places(d.m))
	}
	_, evictions := j.live()
	returning := map[cluster.JobID]bool{}
	for e := range evictions {
		returning[e.Job] = true
	}
	for i := range s.Jobs {
		if job := &s.Jobs[i]; returning[job.ID] && (job.State == cluster.Pending || d.isLeaving(job)) {
			d.restart(job, free)
		}
	}
	return free
}

func (d *moving) isLeaving(job *cluster.Job) bool {
	i := slices.Index(d.running, job)
	return i >= 0 && d.snapshot.Candidates[i].Leaving
}

// restart gives a job that left a place for its own request, and reports whether there is
// one.
func (d *moving) restart(job *cluster.Job, free *placement.Nodes) bool {
	types, understood := d.m.Types(job)
	if !understood {
		return false
	}
	shares, fits := free.Fit(d.m.Request(job, types), nil)
	if fits {
		free.Take(shares)
	}
	return fits
}

// excludeWithoutRoom lets those stay that fit on no other node, whatever job gets their place.
func (d *moving) excludeWithoutRoom() {
	for i, job := range d.running {
		x := &d.snapshot.Candidates[i]
		if !x.Consent || x.Leaving {
			continue
		}
		types, understood := d.m.Types(job)
		node := x.Shares[0].Node
		down := d.after.Down(node)
		d.after.SetDown(node, true)
		_, fits := d.after.Fit(d.m.Request(job, types), nil)
		d.after.SetDown(node, down)
		x.Consent = understood && fits
	}
}

// start lets a waiting job, or as many tasks of an array as fit, take their places. It
// reports whether any did.
func (d *moving) start(job *cluster.Job, request placement.Request) (any bool) {
	for range job.TasksNow() {
		shares, fits := d.after.Fit(request, nil)
		if !fits {
			break
		}
		d.after.Take(shares)
		any = true
	}
	return any
}

// freeOfOneType counts the free GPUs of that type of which most are free.
func (d *moving) freeOfOneType(types placement.Types) (most int) {
	free := map[string]int{}
	for kind, n := range d.m.Kinds {
		if types.Has(int32(kind)) {
			free[n.GPUType] += d.after.FreeGPUs(int32(kind))
			most = max(most, free[n.GPUType])
		}
	}
	return most
}

// setTrials has preemption decide on these gangs, beside the open claims.
func (d *moving) setTrials(gangs []gang, claims map[cluster.JobID]*Claim) {
	d.snapshot.Trials, d.snapshot.Claims = d.snapshot.Trials[:0], d.snapshot.Claims[:0]
	for i := range gangs {
		d.snapshot.Trials = append(d.snapshot.Trials, gangs[i].trial)
	}
	for _, claim := range claims {
		d.snapshot.Trials = append(d.snapshot.Trials, preemption.Trial{Start: math.Inf(1)})
		d.addClaim(len(d.snapshot.Trials)-1, claim, d.m)
	}
}

// maxMoves is how often one cycle decides on its gangs at most.
const maxMoves = 8

// settle decides, and decides again without the victims that have no room elsewhere and
// without the gangs for which it does not pay yet, until neither is left. It returns the
// gangs that others move for. Where that takes too long, those before the first doubtful
// one stand: nothing of them depends on those behind.
func (d *moving) settle(r *Moves, claims map[cluster.JobID]*Claim) []gang {
	open, sound := d.gangs, 0
	for range maxMoves {
		d.setTrials(open, claims)
		d.decision = preemption.Decide(&d.snapshot, d.set)
		after, settled := d.after.Clone(), true
		var kept []gang
		for i, g := range open {
			f := &r.Gangs[g.at]
			g.verdict = d.decision.Verdicts[i]
			d.describe(f, &g.verdict)
			if settled {
				sound = len(kept)
			}
			if g.verdict.Why == preemption.Evicts {
				if !f.Pays() { // nor would it with others, which lose more
					f.Why, settled = NotYet, false
					continue
				}
				moved, stuck := d.move(after, &g.verdict)
				for _, x := range stuck {
					d.snapshot.Candidates[x].Consent, settled = false, false
				}
				after = moved
			}
			kept = append(kept, g)
		}
		open = kept
		if settled {
			sound = len(open)
			break
		}
	}
	for i := range open[sound:] {
		if g := &open[sound+i]; g.verdict.Why == preemption.Evicts {
			d.describe(&r.Gangs[g.at], &preemption.Verdict{Why: preemption.Impossible})
		}
	}
	return slices.DeleteFunc(slices.Clone(open[:sound]), func(g gang) bool { return g.verdict.Why != preemption.Evicts })
}

// describe says what was decided for a gang.
func (d *moving) describe(f *Fragmented, v *preemption.Verdict) {
	f.Why, f.Cost, f.WaitS, f.Nodes, f.Victims = v.Why, 0, 0, []string{}, []Leaver{}
	if v.Why != preemption.Evicts {
		return
	}
	f.Cost, f.WaitS = v.Cost, v.Grace
	for _, share := range v.Shares {
		f.Nodes = append(f.Nodes, d.m.Names[share.Node])
	}
	for _, x := range v.Victims {
		victim := d.running[x]
		f.Victims = append(f.Victims, Leaver{victim.ID, victim.User, victim.GPUs, victim.NodeList, d.snapshot.Candidates[x].Loss()})
	}
}

// move lets the victims of a verdict start elsewhere, the largest first, beside the gang.
// It returns what is free then, and the victims without a place.
func (d *moving) move(free *placement.Nodes, v *preemption.Verdict) (after *placement.Nodes, stuck []int) {
	after = free.Clone()
	for _, x := range v.Victims {
		after.Release(d.snapshot.Candidates[x].Shares)
	}
	after.Take(v.Shares)
	victims := slices.Clone(v.Victims)
	slices.SortStableFunc(victims, func(a, b int) int { return cmp.Compare(d.running[b].GPUs, d.running[a].GPUs) })
	for _, x := range victims {
		if !d.restart(d.running[x], after) {
			stuck = append(stuck, x)
		}
	}
	return after, stuck
}
