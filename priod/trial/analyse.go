package trial

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Job is what a trial has to know of a job with GPUs.
type Job struct {
	Submit  time.Time
	Start   time.Time     // of its first run; zero: it waits
	End     time.Time     // zero: it has not ended
	Ran     time.Duration // on GPUs, in all of its runs
	TE      bool
	Account string
	GPUs    int
	Limit   time.Duration // 0: not known
	LostS   float64       // GPU-seconds without progress: lost work
}

// Effect is what priod does to one figure.
type Effect struct {
	Name    string  `json:"name"`
	Unit    Unit    `json:"unit"`
	Class   string  `json:"class,omitempty"`   // te, be; "": both
	Account string  `json:"account,omitempty"` // "": all
	On      float64 `json:"on"`                // in blocks in which priod was on, as it was seen
	Off     float64 `json:"off"`
	Change  float64 `json:"change"` // a part of the figure without priod, -0.3 is 30 % less; of GPU-hours a difference. For jobs that see priod alone, against jobs that never do
	Low     float64 `json:"low"`    // of the interval of 90 %
	High    float64 `json:"high"`
	Told    bool    `json:"told"` // false: the blocks do not tell; Low and High are 0
	Jobs    int     `json:"jobs"`
	Pairs   int     `json:"pairs"`
	// Exposure is the difference between jobs of on and of off blocks in the part of their time that they saw priod on: 1 where
	// nothing is carried over from one block to the next.
	Exposure float64 `json:"exposure"`
}

// Unit says what a figure is.
type Unit string

// The units.
const (
	Seconds  Unit = "s"
	Factor   Unit = "factor"
	GPUHours Unit = "GPU-hours a day"
)

// Helps reports whether the whole interval says that there is less of what is counted.
func (e *Effect) Helps() bool { return e.Told && e.High < 0 }

// Harms is the opposite.
func (e *Effect) Harms() bool { return e.Told && e.Low > 0 }

// Analysis is what a trial says.
type Analysis struct {
	Completion Effect   `json:"completion"` // typical: the geometric mean, of which a few long jobs are not all
	Effects    []Effect `json:"effects"`
	Accounts   []Effect `json:"accounts"`
	Jobs       int      `json:"jobs"`        // that count
	WashedOut  int      `json:"washed_out"`  // submitted in a wash-out
	LeftOut    int      `json:"left_out"`    // submitted in blocks that are left out, or whose other block is
	Open       int      `json:"open"`        // of those that count, not ended yet: they count with what they have come to
	CarriedPct float64  `json:"carried_pct"` // of the time that jobs waited, spent in blocks of the other kind
	Pairs      int      `json:"pairs"`       // complete ones
	AllPairs   int      `json:"all_pairs"`
}

// seen is a job that counts, with its block.
type seen struct {
	*Job
	block    int // index
	exposure float64
	until    time.Time // its end, or now
}

type analysis struct {
	t      *Trial
	blocks []Block
	pairs  [][2]int // indices of the on and the off block
	jobs   []seen
}

// Analyse says what a trial tells by now.
func Analyse(t *Trial, jobs []Job, now time.Time) *Analysis {
	a, r := begin(t, jobs, now)
	r.Completion = a.typical(typical, func(*seen) bool { return true })
	r.Effects = a.effects(r.Completion)
	r.Accounts = a.accounts()
	return r
}

const typical = "completion, typical"

// begin finds the jobs that count.
func begin(t *Trial, jobs []Job, now time.Time) (*analysis, *Analysis) {
	a, r := &analysis{t: t, blocks: t.Blocks()}, &Analysis{}
	complete := a.pair(now)
	r.AllPairs, r.Pairs = len(a.blocks)/2, len(a.pairs)
	var other, waited float64
	for i := range jobs {
		j := &jobs[i]
		b, on := t.At(j.Submit)
		switch {
		case !on || j.GPUs == 0:
			continue
		case j.Submit.Before(b.Counts):
			r.WashedOut++
			continue
		case !complete[b.Number-1]:
			r.LeftOut++
			continue
		}
		s := seen{Job: j, block: b.Number - 1, until: j.End}
		if j.End.IsZero() {
			s.until = now
			r.Open++
		}
		s.exposure = a.exposure(&s)
		a.jobs = append(a.jobs, s)
		wait := s.waited().Seconds()
		waited += wait
		if b.Off {
			other += wait * s.exposure
		} else {
			other += wait * (1 - s.exposure)
		}
	}
	r.Jobs = len(a.jobs)
	if waited > 0 {
		r.CarriedPct = 100 * other / waited
	}
	return a, r
}

// pair finds the pairs of which both blocks are over and count; complete says of each block whether it is in one.
func (a *analysis) pair(now time.Time) (complete []bool) {
	complete = make([]bool, len(a.blocks))
	left := map[int]bool{}
	for _, x := range a.t.Touched {
		left[x.Block] = true
	}
	end, by := a.t.End(), map[int][]int{}
	for i, b := range a.blocks {
		if !b.Until.After(now) && !b.Until.After(end) && !left[b.Number] {
			by[b.Pair] = append(by[b.Pair], i)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(by)) {
		if two := by[p]; len(two) == 2 {
			if a.blocks[two[0]].Off {
				two[0], two[1] = two[1], two[0]
			}
			a.pairs = append(a.pairs, [2]int{two[0], two[1]})
			complete[two[0]], complete[two[1]] = true, true
		}
	}
	return complete
}

func (s *seen) waited() time.Duration { return max(cmp.Or(s.Start, s.until).Sub(s.Submit), 0) }

func (s *seen) completion() time.Duration { return max(s.until.Sub(s.Submit), time.Second) }

// slowdown is 1 + wait / run time, of a job that ran for a minute at least.
func (s *seen) slowdown() float64 {
	ran := max(s.Ran, time.Minute)
	return 1 + max(s.completion()-ran, 0).Seconds()/ran.Seconds()
}

// exposure is the part of its time in which a job saw priod on. The half of a block before its submission counts with it: by the
// queue that it left, the time before bears on a job.
func (a *analysis) exposure(s *seen) float64 {
	from, to := s.Submit.Add(-a.t.Block/2), s.until
	if !to.After(from) {
		to = from.Add(time.Second)
	}
	off := time.Duration(0)
	for _, b := range a.blocks {
		if b.Off {
			off += max(min(to.Sub(b.From), b.Until.Sub(b.From))-max(from.Sub(b.From), 0), 0)
		}
	}
	return 1 - off.Seconds()/to.Sub(from).Seconds()
}

// typical is the effect on the geometric mean of completion of the jobs that are of interest. Jobs and blocks differ by what was
// submitted and when: what their class, size, limit and time explain is taken off before.
func (a *analysis) typical(name string, of func(*seen) bool) Effect {
	var jobs []*seen
	for i := range a.jobs {
		if of(&a.jobs[i]) {
			jobs = append(jobs, &a.jobs[i])
		}
	}
	e := Effect{Name: name, Unit: Seconds, Jobs: len(jobs)}
	y, d := make([]float64, len(jobs)), make([]float64, len(jobs))
	for i, s := range jobs {
		y[i], d[i] = math.Log(s.completion().Seconds()), s.exposure
	}
	sums := make([]struct{ n, raw, seen, y, d float64 }, len(a.blocks))
	raw, exposed := slices.Clone(y), slices.Clone(d)
	a.adjust(jobs, y, d)
	for i, s := range jobs {
		x := &sums[s.block]
		x.n, x.raw, x.seen, x.y, x.d = x.n+1, x.raw+raw[i], x.seen+exposed[i], x.y+y[i], x.d+d[i]
	}
	var pairs []difference
	var on, off, weight float64
	for _, p := range a.pairs {
		if n, f := sums[p[0]], sums[p[1]]; n.n > 0 && f.n > 0 {
			w := n.n * f.n / (n.n + f.n)
			pairs = append(pairs, difference{w * (n.y/n.n - f.y/f.n), w * (n.d/n.n - f.d/f.n)})
			weight, on, off = weight+w, on+w*n.raw/n.n, off+w*f.raw/f.n
			e.Exposure += w * (n.seen/n.n - f.seen/f.n)
		}
	}
	e.Exposure /= weight
	e.On, e.Off = math.Exp(on/weight), math.Exp(off/weight)
	return e.by(pairs, weight, a.t.Seed, true)
}

// by fills in what the pairs say.
func (e Effect) by(pairs []difference, weight float64, seed uint64, logs bool) Effect {
	x := invert(pairs, seed)
	e.Pairs, e.Told = len(pairs), x.bounded
	if e.Exposure == 0 {
		for _, p := range pairs {
			e.Exposure += p.exposure / weight
		}
	}
	if e.Told = e.Told && e.Exposure > leastExposure; !e.Told {
		if weight == 0 {
			e.On, e.Off, e.Exposure = 0, 0, 0
		}
		return e
	}
	e.Change, e.Low, e.High = x.estimate, x.low, x.high
	if logs {
		e.Change, e.Low, e.High = math.Expm1(x.estimate), math.Expm1(x.low), math.Expm1(x.high)
	}
	return e
}

// leastExposure is how much more of priod jobs of on blocks have to see than those of off blocks: else too much is carried over.
const leastExposure = 0.3

// adjust takes off outcomes and exposures what the jobs themselves explain, by least squares.
func (a *analysis) adjust(jobs []*seen, lists ...[]float64) {
	const hats = 2 // functions of time, which a slow rise and fall of the queue follow
	k := 5 + hats
	if len(jobs) < 4*k {
		return
	}
	x := mat.NewDense(len(jobs), k, nil)
	for i, s := range jobs {
		te, gpus, limit := 0.0, math.Log(float64(s.GPUs)), math.Log(max(s.Limit.Hours(), 1.0/60))
		if s.TE {
			te = 1
		}
		x.SetRow(i, append([]float64{1, te, gpus, limit, limit * limit}, hatsAt(s.Submit.Sub(a.t.Start).Seconds()/a.t.Length.Seconds(), hats)...))
	}
	for _, list := range lists {
		var square mat.SymDense
		square.SymOuterK(1, x.T())
		for i := range k {
			square.SetSym(i, i, square.At(i, i)+1e-6*float64(len(jobs))) // of what does not vary
		}
		var product, beta, fitted mat.VecDense
		y := mat.NewVecDense(len(list), list)
		product.MulVec(x.T(), y)
		var c mat.Cholesky
		if !c.Factorize(&square) || c.SolveVecTo(&beta, &product) != nil {
			continue
		}
		fitted.MulVec(x, &beta)
		y.SubVec(y, &fitted)
	}
}

// hatsAt are so many hat functions at a part of the time; the first falls to none from its beginning on, and is left out.
func hatsAt(at float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = max(1-math.Abs(at*float64(n)-float64(i+1)), 0)
	}
	return all
}

// effects are those on figures of blocks.
func (a *analysis) effects(completion Effect) []Effect {
	all := []Effect{completion}
	for _, class := range []string{"te", "be"} {
		of := func(s *seen) bool { return s.TE == (class == "te") }
		part := []Effect{
			a.typical(typical, of),
			a.figure("completion, mean", Seconds, of, func(s *seen) float64 { return s.completion().Seconds() }, mean),
			a.figure("wait, mean", Seconds, of, func(s *seen) float64 { return s.waited().Seconds() }, mean),
			a.figure("slowdown, p50", Factor, of, (*seen).slowdown, quantile(0.5)),
			a.figure("slowdown, p95", Factor, of, (*seen).slowdown, quantile(0.95)),
		}
		for i := range part {
			part[i].Class = class
		}
		all = append(all, part...)
	}
	return append(all, a.lost())
}

// figure is the effect on a figure of each block, on a scale of logarithms.
func (a *analysis) figure(name string, unit Unit, of func(*seen) bool, value func(*seen) float64, sum func([]float64) float64) Effect {
	lists, exposures := make([][]float64, len(a.blocks)), make([][]float64, len(a.blocks))
	e := Effect{Name: name, Unit: unit}
	for i := range a.jobs {
		if s := &a.jobs[i]; of(s) {
			lists[s.block], exposures[s.block] = append(lists[s.block], max(value(s), least[unit])), append(exposures[s.block], s.exposure)
			e.Jobs++
		}
	}
	var pairs []difference
	var on, off, weight float64
	for _, p := range a.pairs {
		n, f := float64(len(lists[p[0]])), float64(len(lists[p[1]]))
		if n == 0 || f == 0 {
			continue
		}
		w, x, y := n*f/(n+f), math.Log(sum(lists[p[0]])), math.Log(sum(lists[p[1]]))
		pairs = append(pairs, difference{w * (x - y), w * (mean(exposures[p[0]]) - mean(exposures[p[1]]))})
		weight, on, off = weight+w, on+w*x, off+w*y
	}
	e.On, e.Off = math.Exp(on/weight), math.Exp(off/weight)
	return e.by(pairs, weight, a.t.Seed, true)
}

// least is what figures count at least: below, differences are no matter.
var least = map[Unit]float64{Seconds: 30, Factor: 1}

// lost is the effect on GPU-hours lost a day by jobs, in the blocks in which they were submitted.
func (a *analysis) lost() Effect {
	e := Effect{Name: "GPU-hours lost", Unit: GPUHours}
	hours, exposed, n := make([]float64, len(a.blocks)), make([]float64, len(a.blocks)), make([]float64, len(a.blocks))
	for i := range a.jobs {
		s := &a.jobs[i]
		hours[s.block] += s.LostS / 3600
		exposed[s.block] += s.exposure
		n[s.block]++
		e.Jobs++
	}
	var pairs []difference
	for _, p := range a.pairs {
		if n[p[0]] == 0 || n[p[1]] == 0 {
			continue
		}
		of := func(i int) float64 {
			b := a.blocks[i]
			return hours[i] / b.Until.Sub(b.Counts).Hours() * 24
		}
		pairs = append(pairs, difference{of(p[0]) - of(p[1]), exposed[p[0]]/n[p[0]] - exposed[p[1]]/n[p[1]]})
		e.On, e.Off = e.On+of(p[0]), e.Off+of(p[1])
	}
	weight := float64(len(pairs))
	e.On, e.Off = e.On/max(weight, 1), e.Off/max(weight, 1)
	return e.by(pairs, weight, a.t.Seed, false)
}

// accounts are the effects on typical completion of each account, the one with the most jobs first.
func (a *analysis) accounts() []Effect {
	jobs := map[string]int{}
	for i := range a.jobs {
		jobs[a.jobs[i].Account]++
	}
	names := slices.SortedFunc(maps.Keys(jobs), func(x, y string) int { return cmp.Or(jobs[y]-jobs[x], cmp.Compare(x, y)) })
	var all []Effect
	for _, name := range names {
		e := a.typical(typical, func(s *seen) bool { return s.Account == name })
		e.Account = name
		all = append(all, e)
	}
	return all
}

func mean(list []float64) float64 { return stat.Mean(list, nil) }

func quantile(p float64) func([]float64) float64 {
	return func(list []float64) float64 {
		sorted := slices.Sorted(slices.Values(list))
		return stat.Quantile(p, stat.LinInterp, sorted, nil)
	}
}
