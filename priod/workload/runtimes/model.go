package runtimes

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Found on the first part of a log of MetaCentrum and on Philly (docs/evidence/run-times.md); half or twice of each changes little.
const (
	kept      = 80  // ended runs of a group that count
	span      = 800 // runs of a group among which these are looked for
	decay     = 0.9 // weight of a run for each later one of its group that ended
	narrow    = 3.0 // weights of a group that count as much as all wider groups together
	smear     = 0.5 // half width, in natural logs, of what one run says of the next
	scored    = 800 // the last ended runs on which intervals are calibrated, together with unfinished ones
	fewScored = 30  // with fewer they are not
	recheck   = 50  // submissions after which they are calibrated anew
)

// Model learns. Submit, Start and End take in one job's life each, in the order of time.
type Model struct {
	of      map[string]*group
	jobs    map[uint64]*life
	last    []*life // the last runs that started and were predicted, for calibration
	ended   int     // of these
	submits int
	levels  []point // level that was said by how many of the last runs were below it; nil: as said
	scores  int
	longest float64 // run that ended, natural log of s
	holds   bool    // intervals that were said lately did
	plain   bool    // a plain median was nearer lately
}

// group are the last runs of one group, in the order of their starts.
type group struct{ started []*life }

// life is one job from its submission to its end.
type life struct {
	kind   Kind
	groups [groups]*group
	said   *Distribution // at its submission; nil: not kept
	told   told          // the same in figures
	start  time.Time
	over   bool
	cut    bool
	log    float64
}

// point has a weight.
type point struct{ x, weight float64 }

// NewModel knows nothing.
func NewModel() *Model { return &Model{of: map[string]*group{}, jobs: map[uint64]*life{}} }

// Learn takes in all runs, as they were submitted, started and ended until now.
func Learn(runs []Run, now time.Time) *Model {
	const submit, start, end = 0, 1, 2
	type event struct {
		at   time.Time
		kind int
		run  int
	}
	var events []event
	horizon := 6 * scored // events back to which runs are predicted
	for i := range runs {
		r := &runs[i]
		if r.Start.IsZero() || r.Start.After(now) {
			continue
		}
		if r.End.IsZero() {
			horizon += 4
		}
		events = append(events, event{r.Submit, submit, i}, event{r.Start, start, i})
		if !r.End.IsZero() && !r.End.After(now) {
			events = append(events, event{r.End, end, i})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.run, b.run), cmp.Compare(a.kind, b.kind))
	})
	m := NewModel()
	for i, e := range events {
		r, id := &runs[e.run], uint64(e.run)
		switch e.kind {
		case submit:
			m.submit(id, r.Kind, e.at, len(events)-i <= horizon)
		case start:
			m.Start(id, e.at)
		case end:
			m.End(id, e.at, r.Cut)
		}
	}
	m.calibrate(now)
	return m
}

// Submit takes in a job that begins to wait.
func (m *Model) Submit(id uint64, k Kind, at time.Time) { m.submit(id, k, at, true) }

func (m *Model) submit(id uint64, k Kind, at time.Time, scores bool) {
	l := &life{kind: k}
	for i, name := range k.groups() {
		if name == "" {
			continue
		}
		if l.groups[i] = m.of[name]; l.groups[i] == nil {
			l.groups[i] = &group{}
			m.of[name] = l.groups[i]
		}
	}
	m.jobs[id] = l
	if !scores {
		return
	}
	if m.submits++; m.submits%(1+len(m.jobs)/(2*scored)) == 0 { // a sample of very many jobs, as most are unfinished
		if l.said = m.raw(l.groups, k.Limit, at); l.said != nil {
			l.told = m.tell(l.said, l.groups)
		}
	}
	if m.submits%recheck == 0 {
		m.calibrate(at)
	}
}

// Start takes in that a job begins to run.
func (m *Model) Start(id uint64, at time.Time) {
	l := m.jobs[id]
	if l == nil {
		return
	}
	l.start = at
	for _, g := range l.groups {
		if g != nil {
			if g.started = append(g.started, l); len(g.started) > 2*span {
				g.started = slices.Delete(g.started, 0, span)
			}
		}
	}
	if l.said != nil {
		m.last = append(m.last, l)
		for m.ended > scored || len(m.last) > 8*scored {
			if m.last[0].over {
				m.ended--
			}
			m.last[0].said = nil
			m.last = m.last[1:]
		}
	}
}

// End takes in that a run is over; cut as in Run. One that never started is forgotten.
func (m *Model) End(id uint64, at time.Time, cut bool) {
	l := m.jobs[id]
	delete(m.jobs, id)
	if l == nil || l.start.IsZero() {
		return
	}
	l.over, l.cut, l.log = true, cut, logOf(at.Sub(l.start))
	m.longest = max(m.longest, l.log)
	if l.said != nil {
		m.ended++
	}
}

// logOf is the natural log of a run time, at least of one second.
func logOf(d time.Duration) float64 { return math.Log(max(d.Seconds(), 1)) }

// Calibrated reports whether enough runs were predicted for intervals to rest on them.
func (m *Model) Calibrated() bool { return m.levels != nil }

// Predict is how long a job would run that is submitted now; nil: no run has ended yet.
func (m *Model) Predict(k Kind, now time.Time) *Distribution {
	var of [groups]*group
	for i, name := range k.groups() {
		of[i] = m.of[name]
	}
	d := m.raw(of, k.Limit, now)
	if d == nil {
		return nil
	}
	if d.levels = m.levels; m.holds {
		d.Scored = m.scores
	}
	if d.median = d.at(0.5); m.plain {
		d.median = min(plainOf(of, d.median), d.highest)
	}
	return d
}

// raw mixes the groups, before calibration: each leaves to the wider ones a part that falls with its runs.
func (m *Model) raw(of [groups]*group, limit time.Duration, now time.Time) *Distribution {
	d := &Distribution{highest: m.longest + smear}
	if limit > 0 {
		d.highest = logOf(limit + limitSlack)
	}
	var found [groups]survival
	widest := -1
	for i, g := range of {
		if g != nil {
			if found[i] = g.survival(i, limit, now, d.highest); found[i].runs > 0 {
				widest = i
			}
		}
	}
	if widest < 0 {
		return nil
	}
	left, edges := 1.0, make([]point, 0, 512)
	for i := range found[:widest+1] {
		f := &found[i]
		if f.runs == 0 {
			continue
		}
		part := left
		if i < widest {
			part *= f.weight / (f.weight + narrow)
		}
		if d.Group == "" {
			d.Group, d.Runs = words[i], f.runs
		}
		for _, p := range f.points {
			edges = append(edges, point{p.x - smear, part * p.weight}, point{p.x + smear, -part * p.weight})
		}
		left -= part
	}
	d.build(edges)
	return d
}

// survival is what the runs of a group say.
type survival struct {
	points []point // natural logs of s, with weight 1 together
	runs   int     // that ended
	weight float64 // of these
}

// survival is the estimate of Kaplan and Meier (1958) from the last runs of a group. What is unfinished or was cut beyond the last end is
// spread evenly, in logs, up to the highest. Of one user unfinished runs count in full, as one submission often is many jobs. In
// the widest group run times count as parts of the time limits.
func (g *group) survival(place int, limit time.Duration, now time.Time, highest float64) (s survival) {
	type seen struct {
		log, weight float64
		cut         bool
	}
	all := make([]seen, 0, 2*kept)
	weight, longest := 1.0, 0.0
	for _, l := range slices.Backward(g.started) {
		if s.runs == kept {
			break
		}
		scale := 0.0
		if place == groups-1 && limit > 0 {
			if l.kind.Limit == 0 {
				continue
			}
			scale = logOf(limit) - logOf(l.kind.Limit)
		}
		if !l.over {
			going := 1.0
			if place >= ofOneUser {
				going = weight
			}
			all = append(all, seen{logOf(now.Sub(l.start)) + scale, going, true})
			continue
		}
		all = append(all, seen{l.log + scale, weight, l.cut})
		s.runs, s.weight = s.runs+1, s.weight+weight
		weight *= decay
	}
	slices.SortFunc(all, func(a, b seen) int {
		switch c := cmp.Compare(a.log, b.log); {
		case c != 0 || a.cut == b.cut:
			return c
		case b.cut: // it was still there when the other ended
			return -1
		}
		return 1
	})
	risk, left := 0.0, 1.0
	for _, x := range all {
		risk, longest = risk+x.weight, x.log
	}
	for _, x := range all {
		if !x.cut {
			part := left * min(x.weight/max(risk, x.weight), 1)
			s.points = append(s.points, point{x.log, part})
			left -= part
		}
		risk -= x.weight
	}
	const parts = 5
	for k := 0; k < parts && left > 1e-9; k++ {
		s.points = append(s.points, point{longest + (float64(k)+0.5)/parts*max(highest-longest, 0), left / parts})
	}
	return s
}

// calibrate finds at which level of the estimate the last runs were: unfinished ones are at least at that of the time
// that they have run.
func (m *Model) calibrate(now time.Time) {
	type score struct {
		level float64
		cut   bool
	}
	scores := make([]score, 0, len(m.last))
	for _, l := range m.last {
		switch {
		case l.over:
			scores = append(scores, score{l.said.level(l.log), l.cut && l.log < l.said.highest-smear})
		default:
			scores = append(scores, score{l.said.level(logOf(now.Sub(l.start))), true})
		}
	}
	m.score(func(l *life) float64 {
		if l.over {
			return l.log
		}
		return logOf(now.Sub(l.start))
	})
	m.levels, m.scores = nil, len(scores)
	slices.SortFunc(scores, func(a, b score) int { return cmp.Compare(a.level, b.level) })
	survive := 1.0
	var levels []point
	for i, s := range scores {
		if !s.cut {
			survive -= survive / float64(len(scores)-i)
			levels = append(levels, point{s.level, 1 - survive})
		}
	}
	if len(levels) >= fewScored {
		m.levels = append(levels, point{1, 1})
	}
}
