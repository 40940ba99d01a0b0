package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/yield"
	"slurmprio/priod/simulate/ideal/policies"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/steer"
	"slurmprio/slurmplug"
)

// steerer asks priod's steering before each pass of the virtual Slurm, and
// remembers between passes what the daemon keeps of each job.
type steerer struct {
	solver
	set     steer.Rule
	account *allocate.Account
	jobs    map[int]*steered // in the system, by order of arrival

	yield     *yield.Settings // nil: jobs keep the order of the queue
	overheads Overheads
	next      float64 // end of the round
	failed    error   // of an allocation at the end of a round
}

// steered is what is remembered of a job.
type steered struct {
	speed []float64 // steps/s by type
	time  []float64 // its allocation
	given float64   // of it on the type that it is bound to, when it was
	seen  float64   // when it was last in the system
	bound float64   // when it was last bound to another type
	older []float64 // by type, when it left that
	owed  float64   // with rounds: s on its fastest type
	since float64   // of its present run; -1 while it waits
	on    int32     // type of that
}

func newSteerer(policy policies.Policy, spec Spec, trouble func(now float64, err error, p *policies.Problem)) *steerer {
	r := &steerer{solver: solver{policy: policy, trouble: trouble}, set: spec.Steering, account: allocate.NewAccount(), jobs: map[int]*steered{}, overheads: spec.Overheads}
	if spec.Cycle == 0 {
		r.set.Keep, r.set.Away = 0, 0 // each choice is made for the pass that follows: nothing comes between, and none is written in vain
	}
	if spec.Order == "owed" {
		r.yield, r.next = &spec.Yield, spec.Round
	}
	return r
}

func jobID(index int) cluster.JobID { return slurmplug.Plain(uint32(index) + 1) }

func instant(seconds float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// decide allocates, and binds the waiting jobs.
func (r *steerer) decide(s *virtual.System) error {
	waiting, running := slices.Collect(s.Waiting()), slices.Collect(s.Running())
	if err := cmp.Or(r.failed, r.allocate(s, waiting, running)); err != nil {
		return err
	}
	r.plan(s, waiting, running)
	return nil
}

// plan binds the waiting jobs, and says when each will start.
func (r *steerer) plan(s *virtual.System, waiting, running []virtual.InSystem) []steer.Verdict {
	if r.yield != nil {
		slices.SortStableFunc(waiting, func(a, b virtual.InSystem) int { return cmp.Compare(r.jobs[b.Index].owed, r.jobs[a.Index].owed) })
	}
	types := s.Types()
	snap := steer.Snapshot{Nodes: s.Nodes(), Types: len(types)}
	for i := range running {
		snap.Running = append(snap.Running, steer.Running{Shares: running[i].Shares, End: running[i].End - s.Now()})
	}
	for i := range waiting {
		w := &waiting[i]
		known := r.jobs[w.Index]
		j := steer.Job{Request: w.Request, Consent: true, Time: known.time, Steered: steer.Open, Given: known.given}
		j.Request.Types = w.Types
		for t := range types {
			j.Run = append(j.Run, w.Left/known.speed[t]) // infinite where it does not run
			j.Received = append(j.Received, r.account.Fraction(jobID(w.Index), types[t]))
			if w.Request.Types == 1<<uint(t) && w.Types != w.Request.Types {
				j.Steered = int32(t)
			}
			if known.older != nil && s.Now()-known.older[t] < r.set.Away {
				j.JustLeft |= 1 << uint(t)
			}
		}
		if j.Held = s.Now() - known.bound; j.Steered != steer.Open {
			j.JustLeft &^= 1 << uint(j.Steered)
		}
		snap.Jobs = append(snap.Jobs, j)
	}
	verdicts := steer.Decide(&snap, r.set)
	for i, v := range verdicts {
		known := r.jobs[waiting[i].Index]
		if was := snap.Jobs[i].Steered; v.Type != was {
			known.bind(was, v.Type, s.Now(), len(types))
		}
		rank := 0.0
		if r.yield != nil {
			rank = float64(i - len(waiting)) // those not ranked yet stand behind
		}
		s.Bind(&waiting[i], v.Type, rank)
	}
	return verdicts
}

// bind remembers that a job is bound to another type, or to none.
func (k *steered) bind(was, to int32, now float64, types int) {
	if k.bound = now; to != steer.Open {
		k.given = k.time[to]
	}
	if was == steer.Open {
		return
	}
	if k.older == nil {
		k.older = slices.Repeat([]float64{math.Inf(-1)}, types)
	}
	k.older[was] = now
}

// yields ends a round when it is time.
func (r *steerer) yields(s *virtual.System) (told []virtual.Eviction) {
	if s.Now() < r.next {
		return nil
	}
	r.next = (math.Floor(s.Now()/r.yield.Round) + 1) * r.yield.Round
	waiting, running := slices.Collect(s.Waiting()), slices.Collect(s.Running())
	if len(waiting) == 0 {
		return nil
	}
	if r.failed = r.allocate(s, waiting, running); r.failed != nil {
		return nil
	}
	snap := yield.Snapshot{Nodes: s.Nodes()}
	for i, v := range r.plan(s, waiting, running) {
		w := &waiting[i]
		if v.Type == steer.Open {
			continue
		}
		request := w.Request
		request.Types = 1 << uint(v.Type)
		snap.Waiting = append(snap.Waiting, yield.Waiting{Request: request, Owed: r.jobs[w.Index].owed, Start: v.Start, Run: v.End - v.Start})
	}
	for i := range running {
		a := &running[i]
		grace := a.Job.Grace
		if grace == 0 {
			grace = r.overheads.Grace
		}
		snap.Running = append(snap.Running, yield.Running{
			Shares: a.Shares, Consent: a.Job.Class == cluster.BE, Leaving: a.Leaving, Owed: r.jobs[a.Index].owed,
			Elapsed: s.Now() - a.Start, Left: a.End - s.Now(), Cost: grace + r.overheads.Restart + r.overheads.Prolog + r.overheads.Epilog,
		})
	}
	for i, why := range yield.Decide(&snap, *r.yield).Running {
		if why == yield.Yields {
			told = append(told, virtual.Eviction{Job: running[i].Index, Restore: true})
		}
	}
	return told
}

// allocate solves the policy for all jobs in the system.
func (r *steerer) allocate(s *virtual.System, waiting, running []virtual.InSystem) error {
	now, types := s.Now(), s.Types()
	r.begin()
	total := 0
	for t, name := range types {
		up := 0
		for n := range s.Nodes().Len() {
			if s.Nodes().Type(int32(n)) == int32(t) && !s.Nodes().Down(int32(n)) {
				up += int(s.Nodes().Size(int32(n)).GPUs)
			}
		}
		r.gpuType(name, up)
		total += up
	}
	all := slices.Concat(waiting, running)
	for i := range all {
		a := &all[i]
		known := r.jobs[a.Index]
		if known == nil {
			known = &steered{speed: make([]float64, len(types)), since: -1, seen: now}
			for t := range types {
				if a.Types.Has(int32(t)) {
					known.speed[t] = s.Speed(a, int32(t))
				}
			}
			r.jobs[a.Index] = known
		}
		for t, x := range known.time {
			r.account.Promise(jobID(a.Index), types[t], x, instant(now).Sub(instant(known.seen)))
		}
		known.seen = now
		r.book(s, a, known)
		total := a.Job.Duration
		if total == 0 {
			total = a.Job.Steps
		}
		r.job(now, a.Index, a.Job, known.speed, total-a.Left, a.Left)
	}
	for index, known := range r.jobs {
		if known.seen != now {
			delete(r.jobs, index)
			r.account.Forget(jobID(index))
		}
	}
	if total == 0 {
		return nil // every node is down: what was allocated stays
	}
	time, err := r.solve(now, func(i int) int { return all[i].Index })
	if err != nil {
		return err
	}
	for i, row := range time {
		known := r.jobs[all[i].Index]
		known.time = row
		if r.yield == nil {
			continue
		}
		owed, run := make([]float64, len(types)), make([]float64, len(types))
		for t := range types {
			owed[t], run[t] = r.account.Owed(jobID(all[i].Index), types[t]), all[i].Left/known.speed[t]
		}
		known.owed = r.yield.Lead.Owed(owed, run)
	}
	return nil
}

// book puts the run that a job is in, or was in, into the account.
func (r *steerer) book(s *virtual.System, a *virtual.InSystem, known *steered) {
	if known.since < 0 && a.Shares == nil {
		return
	}
	types := s.Types()
	if known.since >= 0 && (a.Shares == nil || a.Start != known.since) {
		known.since = -1
	}
	if a.Shares != nil {
		known.since, known.on = a.Start, s.Nodes().Type(a.Shares[0].Node)
	}
	if known.since >= 0 {
		r.account.Observe(cluster.Stay{
			Job: jobID(a.Index), GPUType: types[known.on], GPUs: a.Job.GPUs, Start: instant(known.since), End: instant(math.Max(s.Now(), known.since)),
		})
	}
}
