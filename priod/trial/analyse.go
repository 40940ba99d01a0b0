package trial

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Job is what a trial has to know of a job with GPUs.
type Job struct {
	Submit  time.Time
	Ready   time.Time     // since when it could run; zero: since then
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
	// Exposure is by how much more jobs of on blocks saw of priod than those of off blocks: 1 where nothing is carried over.
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
	Jobs       int      `json:"jobs"`       // that count
	WashedOut  int      `json:"washed_out"` // submitted in a wash-out
	LeftOut    int      `json:"left_out"`   // submitted in blocks that are left out, or whose other block is
	Open       int      `json:"open"`       // of those that count, not ended yet: they count with what they have come to
	MemoryS    float64  `json:"memory_s"`   // for how long priod's work is felt in an off block
	Pairs      int      `json:"pairs"`      // complete ones
	AllPairs   int      `json:"all_pairs"`
}

// seen is a job that counts.
type seen struct {
	*Job
	block, slot int       // indices
	until       time.Time // its end, or now
}

type analysis struct {
	t      *Trial
	blocks []Block
	slots  int      // parts of each block
	pairs  [][2]int // indices of the on and the off block
	jobs   []seen
	views  []view // the likely one first
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
	a.slots = max(leastSlots/len(a.blocks), 1)
	complete := a.pair(now)
	r.AllPairs, r.Pairs = len(a.blocks)/2, len(a.pairs)
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
		at := int(j.Submit.Sub(t.Start) / a.slot())
		s := seen{Job: j, block: b.Number - 1, slot: min(at, len(a.blocks)*a.slots-1), until: j.End}
		if j.End.IsZero() {
			s.until = now
			r.Open++
		}
		a.jobs = append(a.jobs, s)
	}
	r.Jobs = len(a.jobs)
	a.remember()
	r.MemoryS = (time.Duration(a.views[0].memory) * a.slot()).Seconds()
	return a, r
}

// leastSlots are the parts of a trial in which what jobs see of priod is told apart.
const leastSlots = 336

func (a *analysis) slot() time.Duration { return a.t.Block / time.Duration(a.slots) }

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

func (s *seen) waited() time.Duration {
	return max(cmp.Or(s.Start, s.until).Sub(cmp.Or(s.Ready, s.Submit)), 0)
}

func (s *seen) completion() time.Duration { return max(s.until.Sub(s.Submit), time.Second) }

// slowdown is 1 + wait / run time, of a job that ran for a minute at least.
func (s *seen) slowdown() float64 {
	ran := max(s.Ran, time.Minute)
	return 1 + max(s.completion()-ran, 0).Seconds()/ran.Seconds()
}

// unit is an outcome of a job, or of the jobs of a block.
type unit struct {
	block       int
	first, last int // slots in which it was submitted
	outcome     float64
	weight      float64
	by          []float64 // what explains it beside priod
}

// typical is the effect on the geometric mean of completion of the jobs that are of interest. What their class, size and limit explain
// is taken off before.
func (a *analysis) typical(name string, of func(*seen) bool) Effect {
	var units []unit
	for i := range a.jobs {
		s := &a.jobs[i]
		if !of(s) {
			continue
		}
		te, gpus, limit := 0.0, math.Log(float64(s.GPUs)), math.Log(max(s.Limit.Hours(), 1.0/60))
		if s.TE {
			te = 1
		}
		by := []float64{1, te, gpus, limit, limit * limit, te * limit, te * gpus}
		units = append(units, unit{s.block, s.slot, s.slot, math.Log(s.completion().Seconds()), 1, by})
	}
	return a.effect(Effect{Name: name, Unit: Seconds, Jobs: len(units)}, units, true)
}

// effect fills in what the units say.
func (a *analysis) effect(e Effect, units []unit, logs bool) Effect {
	has, sums := map[int]bool{}, map[bool]*struct{ weight, y, d float64 }{true: {}, false: {}}
	for _, u := range units {
		s, seen := sums[a.blocks[u.block].Off], mean(a.views[0].orders[0][u.first:u.last+1])
		s.weight, s.y, s.d, has[u.block] = s.weight+u.weight, s.y+u.weight*u.outcome, s.d+u.weight*seen, true
	}
	for _, p := range a.pairs {
		if has[p[0]] && has[p[1]] {
			e.Pairs++
		}
	}
	if e.Pairs == 0 {
		return e
	}
	on, off := sums[false], sums[true]
	e.On, e.Off, e.Exposure = on.y/on.weight, off.y/off.weight, on.d/on.weight-off.d/off.weight
	likely := invert(a.views[0].sums(units))
	low, high, told := likely.low, likely.high, likely.bounded && e.Exposure > leastExposure && e.Pairs >= fewestPairs
	for _, v := range a.views[1:] {
		x := invert(v.sums(units))
		low, high, told = min(low, x.low), max(high, x.high), told && x.bounded
	}
	if e.Told = told; told {
		e.Change, e.Low, e.High = likely.estimate, low, high
	}
	if logs {
		e.On, e.Off, e.Change, e.Low, e.High = math.Exp(e.On), math.Exp(e.Off), math.Expm1(e.Change), math.Expm1(e.Low), math.Expm1(e.High)
	}
	return e
}

const (
	leastExposure = 0.3 // else too much is carried over
	fewestPairs   = 5   // fewer have too few orders for 90 %
)

// adjust takes off outcomes and exposures what the rows explain, by least squares.
func adjust(rows [][]float64, lists ...[]float64) {
	k := len(rows[0])
	x := mat.NewDense(len(rows), k, nil)
	for i, row := range rows {
		x.SetRow(i, row)
	}
	var square mat.SymDense
	square.SymOuterK(1, x.T())
	for i := range k {
		square.SetSym(i, i, square.At(i, i)+1e-6*float64(len(rows))) // of what does not vary
	}
	var c mat.Cholesky
	if !c.Factorize(&square) {
		return
	}
	for _, list := range lists {
		var product, beta, fitted mat.VecDense
		y := mat.NewVecDense(len(list), list)
		product.MulVec(x.T(), y)
		if c.SolveVecTo(&beta, &product) != nil {
			continue
		}
		fitted.MulVec(x, &beta)
		y.SubVec(y, &fitted)
	}
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
	return a.ofBlocks(Effect{Name: name, Unit: unit}, of, func(s *seen) float64 { return max(value(s), least[unit]) }, func(_ int, list []float64) (y, weight float64) {
		return math.Log(sum(list)), float64(len(list))
	}, true)
}

// ofBlocks is the effect on what comes of the values of each block's jobs.
func (a *analysis) ofBlocks(e Effect, of func(*seen) bool, value func(*seen) float64, sum func(block int, list []float64) (y, weight float64), logs bool) Effect {
	lists := make([][]float64, len(a.blocks))
	for i := range a.jobs {
		if s := &a.jobs[i]; of(s) {
			lists[s.block] = append(lists[s.block], value(s))
			e.Jobs++
		}
	}
	var units []unit
	for i, list := range lists {
		if len(list) > 0 {
			y, weight := sum(i, list)
			units = append(units, unit{i, i * a.slots, (i+1)*a.slots - 1, y, weight, []float64{1}})
		}
	}
	return a.effect(e, units, logs)
}

// least is what figures count at least: below, differences are no matter.
var least = map[Unit]float64{Seconds: 30, Factor: 1}

// lost is the effect on GPU-hours lost a day by jobs, in the blocks in which they were submitted.
func (a *analysis) lost() Effect {
	all := func(*seen) bool { return true }
	return a.ofBlocks(Effect{Name: "GPU-hours lost", Unit: GPUHours}, all, func(s *seen) float64 { return s.LostS / 3600 }, func(block int, list []float64) (y, weight float64) {
		b := a.blocks[block]
		return floats.Sum(list) / b.Until.Sub(b.Counts).Hours() * 24, 1
	}, false)
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
