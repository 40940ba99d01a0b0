package rounds

import (
	"fmt"
	"slices"
)

// Sharer divides the time of the types among jobs that run alone and pairs of
// jobs on the same GPUs: Gavel's space sharing (section 3.1).
type Sharer interface {
	Share(now float64, jobs []*Active, types []Type) (Shares, error)
	// Together is the work per second of two jobs that run side by side now,
	// whatever Share took it for; 0: they do nothing.
	Together(a, b *Active, gpuType int) (speedA, speedB float64)
}

// Shares is an allocation with space sharing. Time is given to kinds: jobs of
// the same speeds, gang and partners, which may stand in for each other.
type Shares struct {
	Kind  []int     // of each job, from 0
	Rate  []float64 // work per second that each job is promised
	Mixes []Mix     // those of the same kinds and type add up; those of kinds without jobs do not count
}

// Mix is the time of one kind on a type, or of two kinds side by side.
type Mix struct {
	A, B int     // kinds, may be the same; B is Alone when nobody is beside A
	Type int     // index of the type
	Time float64 // how many run so at once, on average
}

// Alone is the B of a mix that is no pair.
const Alone = -1

// sharing is the part of a run that knows of pairs. In each round the mixes run
// that are owed most. Who of a kind runs is another question: those first who
// are furthest behind the work that they were promised, whether they did it
// alone or beside somebody, with a lead for those that are nearly done.
type sharing struct {
	known map[[3]int]*owed // by kinds and type
	mixes []*owed          // those that have time, in the order of the allocation
	queue []queue          // by kind: who is not chosen yet
	kinds []int            // those of the active jobs
}

// owed is a mix and what it still has to get.
type owed struct {
	Mix
	gang   int
	rounds float64 // promised and not run, at most mostOwed
	shut   bool    // nobody is left for it in this round, or no GPUs
}

// mostOwed bounds what a mix can save up while others have its jobs: their
// claims do not depend on it.
const mostOwed = 10

// share makes a new allocation.
func (r *mechanism) share() error {
	s, err := r.Sharer.Share(r.now, r.active, r.engine.types)
	if err != nil {
		return err
	}
	h := &r.sharing
	for i, a := range r.active {
		a.kind, a.promised = s.Kind[i], s.Rate[i]
	}
	h.line(r)
	if h.known == nil {
		h.known = map[[3]int]*owed{}
	}
	for key, m := range h.known {
		if m.Time = 0; !h.there(m) {
			delete(h.known, key)
		}
	}
	h.mixes = h.mixes[:0]
	for _, m := range s.Mixes {
		if m.A >= len(h.queue) || m.B >= len(h.queue) || !h.there(&owed{Mix: m}) {
			continue
		}
		first := h.queue[m.A][0].job
		if !(m.Time > 0 && (m.B != Alone || first.Speed[m.Type] > 0)) {
			return fmt.Errorf("the policy allocates %v GPUs of %s to jobs like %s, whose speed there is %v", m.Time, r.engine.types[m.Type].Name, first.Job.ID, first.Speed[m.Type])
		}
		if m.B != Alone && m.B < m.A {
			m.A, m.B = m.B, m.A
		}
		key := [3]int{m.A, m.B, m.Type}
		k := h.known[key]
		if k == nil {
			k = &owed{}
			h.known[key] = k
		}
		if k.Time == 0 {
			h.mixes = append(h.mixes, k)
		}
		m.Time += k.Time
		k.Mix, k.gang = m, h.queue[m.A][0].job.Job.GPUs
	}
	return nil
}

// line puts everybody in the queue of their kind.
func (h *sharing) line(r *mechanism) {
	for _, k := range h.kinds {
		h.queue[k] = h.queue[k][:0]
	}
	h.kinds = h.kinds[:0]
	for i, a := range r.active {
		for len(h.queue) <= a.kind {
			h.queue = append(h.queue, nil)
		}
		if len(h.queue[a.kind]) == 0 {
			h.kinds = append(h.kinds, a.kind)
		}
		due := a.owed + a.promised*(r.now-r.lastAllocation+r.lead(a)) - a.Done
		h.queue[a.kind] = append(h.queue[a.kind], want{job: a, rank: int32(i), first: due * a.best})
	}
	for _, k := range h.kinds {
		h.queue[k].heapify()
	}
}

// there says whether enough jobs for a mix are not chosen yet.
func (h *sharing) there(m *owed) bool {
	switch m.B {
	case Alone:
		return len(h.queue[m.A]) > 0
	case m.A:
		return len(h.queue[m.A]) > 1
	}
	return len(h.queue[m.A]) > 0 && len(h.queue[m.B]) > 0
}

// chooseShared fills chosen: first what is owed, then with those jobs alone
// that suit best the GPUs that are left.
func (r *mechanism) chooseShared() {
	h := &r.sharing
	h.line(r)
	for _, m := range h.mixes {
		m.rounds, m.shut = min(m.rounds+m.Time, mostOwed+m.Time), false
	}
	for {
		var most *owed
		for _, m := range h.mixes {
			if m.shut || most != nil && m.rounds <= most.rounds {
				continue
			}
			if m.shut = m.rounds < 0 || r.free[m.Type] < m.gang || !h.there(m); !m.shut {
				most = m
			}
		}
		if most == nil {
			break
		}
		most.rounds--
		r.takeMix(most)
	}
	for {
		kind, gpuType, best := -1, -1, 0.0
		for _, k := range h.kinds {
			if len(h.queue[k]) == 0 {
				continue
			}
			a := h.queue[k][0].job
			if j := fastestFree(a, r.free); j >= 0 && a.Speed[j]*a.best > best {
				kind, gpuType, best = k, j, a.Speed[j]*a.best
			}
		}
		if kind < 0 {
			r.moveUp()
			return
		}
		r.take(h.queue[kind].pop(), gpuType)
	}
}

// takeMix chooses the next of one kind, or of two side by side. The first of
// the two is the one that gets GPUs (place): rather one that has some.
func (r *mechanism) takeMix(m *owed) {
	a := r.sharing.queue[m.A].pop()
	r.take(a, m.Type)
	if m.B == Alone {
		return
	}
	b := r.sharing.queue[m.B].pop()
	b.run, b.gpuType = r.turn, m.Type
	r.chosen = append(r.chosen, b)
	a.beside, b.beside = b, a
	a.together, b.together = r.Sharer.Together(a, b, m.Type)
	b.guest = !b.ranOn(m.Type, r.turn) || a.ranOn(m.Type, r.turn)
	a.guest = !b.guest
}

// ranOn says whether the job had GPUs of the type in the round before.
func (a *Active) ranOn(gpuType, turn int) bool { return a.placed == turn-1 && a.gpusOf == gpuType }

// join puts a guest on the GPUs of its host.
func (a *Active) join(turn int) {
	on := a.beside.gpus
	a.displaced = !a.ranOn(a.gpuType, turn) || !slices.Equal(a.gpus, on)
	a.gpus = append(a.gpus[:0], on...)
	a.placed, a.gpusOf = turn, a.gpuType
}

// runPair runs a host and its guest for a round. When one of them is done, the
// other has the GPUs to itself. It returns when the last of the two stopped.
func (r *mechanism) runPair(a *Active, start float64) (end float64) {
	both := min(r.length, a.Left()/a.together, a.beside.Left()/a.beside.together)
	for _, m := range [2]*Active{a, a.beside} {
		m.Done += both * m.together
		ran, speed := both, m.Speed[m.gpuType]
		if !m.over() {
			alone := min(r.length-both, m.Left()/speed)
			m.Done += alone * speed
			ran += alone
		}
		r.ran(m, m.gpuType, start, ran)
		r.outcomes[m.Index].Shared += both
		if m.over() {
			r.finish(m, start+ran)
		}
		end = max(end, start+ran)
	}
	return end
}

// over says whether nothing but a rounding error is left to do.
func (a *Active) over() bool { return a.Left() <= 1e-12*a.work }
