package speed_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/workload/speed"
)

var types = []string{"a100", "t4", "v100"}

// site is a made-up truth: speeds of programs on types.
type site struct {
	programs int
	speed    func(program int, gpuType string) float64
}

func program(i int) speed.Program { return speed.Program{Workload: fmt.Sprint("w", i), GPUs: 1} }

// run is a run with so much work on one type.
func (s site) run(i int, gpuType string, work float64) speed.Run {
	return speed.Run{Program: program(i), Seconds: map[string]float64{gpuType: work / s.speed(i, gpuType)}, Work: work}
}

func learn(runs []speed.Run) *speed.Knowledge {
	var h speed.History
	for _, r := range runs {
		h.Add(r)
	}
	return h.Learn()
}

// settings are those without any speeds of the operator.
var settings = speed.Settings{}

func ask(k *speed.Knowledge, i int) []speed.Answer {
	p := program(i)
	j := speed.Job{GPUs: p.GPUs}
	j.Tag.Workload = p.Workload
	return settings.For(&j, types, nil, k).Speeds
}

// off is the largest factor between two answers' ratios of speeds.
func off(a, b []speed.Answer) float64 {
	worst := 0.0
	for i := range a {
		for j := range a {
			worst = max(worst, math.Abs(math.Log(a[i].Speed/a[j].Speed*b[j].Speed/b[i].Speed)))
		}
	}
	return math.Exp(worst)
}

func drawSite(t *rapid.T) site {
	s := site{programs: rapid.IntRange(1, 8).Draw(t, "programs")}
	logs := rapid.SliceOfN(rapid.Float64Range(-1.5, 1.5), s.programs*len(types), s.programs*len(types)).Draw(t, "logs")
	s.speed = func(i int, gpuType string) float64 {
		for j, name := range types {
			if name == gpuType {
				return math.Exp(logs[i*len(types)+j])
			}
		}
		return math.NaN()
	}
	return s
}

// drawRuns are runs with a lot of noise, some of them on two types one after the
// other.
func drawRuns(t *rapid.T, s site, most int) []speed.Run {
	runs := make([]speed.Run, rapid.IntRange(1, most).Draw(t, "runs"))
	for n := range runs {
		i := rapid.IntRange(0, s.programs-1).Draw(t, "program")
		noise := math.Exp(rapid.Float64Range(-3, 3).Draw(t, "noise"))
		r := s.run(i, rapid.SampledFrom(types).Draw(t, "type"), rapid.Float64Range(100, 1000).Draw(t, "work")*noise)
		r.Work /= noise
		if rapid.IntRange(0, 3).Draw(t, "moved") == 0 {
			other, more := rapid.SampledFrom(types).Draw(t, "to"), rapid.Float64Range(100, 1000).Draw(t, "more")
			r.Seconds[other] += more / s.speed(i, other)
			r.Work += more
		}
		if rapid.Bool().Draw(t, "untold") {
			r.Work = 0
		}
		runs[n] = r
	}
	return runs
}

func same(t *rapid.T, a, b []speed.Answer, within float64) {
	t.Helper()
	if x := off(a, b); !(x < within) { // false for NaN, too
		t.Fatalf("off by a factor %v:\n%+v\n%+v", x, a, b)
	}
	for i := range a {
		if math.Abs(math.Log(a[i].Factor/b[i].Factor)) > math.Log(within)*(1+math.Log(a[i].Factor)) || a[i].Source != b[i].Source || a[i].Runs != b[i].Runs {
			t.Fatalf("not the same answer:\n%+v\n%+v", a, b)
		}
	}
}

// Each program may count its steps in anything, and seconds may be minutes.
func TestUnitsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		runs := drawRuns(t, s, 30)
		steps := map[speed.Program]float64{}
		for i := range s.programs {
			steps[program(i)] = rapid.Float64Range(1e-3, 1e6).Draw(t, "steps")
		}
		clock := rapid.Float64Range(1e-3, 1e3).Draw(t, "clock")
		scaled := make([]speed.Run, len(runs))
		for n, r := range runs {
			scaled[n] = speed.Run{Program: r.Program, Work: steps[r.Program] * r.Work, Seconds: map[string]float64{}}
			for name, v := range r.Seconds {
				scaled[n].Seconds[name] = clock * v
			}
		}
		a, b := learn(runs), learn(scaled)
		for i := range s.programs {
			same(t, ask(a, i), ask(b, i), 1.01)
		}
	})
}

func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		runs := drawRuns(t, s, 30)
		a, b := learn(runs), learn(rapid.Permutation(runs).Draw(t, "order"))
		for i := range s.programs {
			if d := cmp.Diff(ask(a, i), ask(b, i)); d != "" {
				t.Fatal(d)
			}
		}
	})
}

// A run that was moved says no more of one type than that it is not too fast,
// if the other may have done all of its work: its likeliest speed is none at
// all. What is likely of types beforehand keeps it from there.
func TestWhatARunOnTwoTypesLeavesOpen(t *testing.T) {
	k := learn([]speed.Run{
		{Program: program(0), Seconds: map[string]float64{"a100": 950, "v100": 29}},
		{Program: program(0), Seconds: map[string]float64{"v100": 24}},
		{Program: program(1), Seconds: map[string]float64{"a100": 30}, Work: 100},
		{Program: program(1), Seconds: map[string]float64{"t4": 30}, Work: 100},
	})
	for _, taught := range settings.All(k, types) {
		if taught.Program != program(0) {
			continue
		}
		for _, c := range taught.Cells[:2] {
			if v100 := taught.Cells[2]; !(c.Speed > 1e-3) || c.Speed > 0.1 || v100.Factor < 2 || v100.Counts {
				t.Errorf("%+v", taught)
			}
		}
		return
	}
	t.Error("nothing is known of the program")
}

// Whatever anybody writes on a command line, speeds are numbers above 0.
func TestSpeedsAreNumbers(t *testing.T) {
	amount := rapid.Custom(func(t *rapid.T) float64 {
		if rapid.Bool().Draw(t, "likely") {
			return math.Exp(rapid.Float64Range(0, 12).Draw(t, "log"))
		}
		return rapid.Float64().Draw(t, "any")
	})
	rapid.Check(t, func(t *rapid.T) {
		var runs []speed.Run
		for range rapid.IntRange(1, 20).Draw(t, "runs") {
			runs = append(runs, speed.Run{
				Program: program(rapid.IntRange(0, 3).Draw(t, "program")),
				Seconds: rapid.MapOfN(rapid.SampledFrom(types), amount, 1, -1).Draw(t, "seconds"),
				Work:    rapid.OneOf(amount, rapid.Just(0.)).Draw(t, "work"),
			})
		}
		k := learn(runs)
		number := func(v float64) bool { return v > 0 && !math.IsInf(v, 1) }
		for i := range 5 { // the last one was never seen
			for _, a := range ask(k, i) {
				if !number(a.Speed) || a.Speed > 1 || !number(a.Factor) || a.Factor < 1 {
					t.Fatalf("%+v", a)
				}
			}
		}
		for _, p := range (&speed.Settings{}).All(k, types) {
			for _, c := range p.Cells {
				if !number(c.Rate) || !number(c.Speed) || !number(c.Factor) {
					t.Fatalf("%+v", c)
				}
			}
		}
		usual, lessons := k.Lessons()
		if again, err := speed.Recall(usual, lessons); err != nil || !cmp.Equal(ask(k, 0), ask(again, 0)) {
			t.Fatalf("stored and recalled: %v", err)
		}
	})
}

// However wrong one run in ten is, the ratio of the others stands.
func TestAnOutlierMovesLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		var clean []speed.Run
		for i := range s.programs {
			for _, name := range types {
				for n := range 9 {
					r := s.run(i, name, 1000)
					r.Seconds[name] *= math.Exp(0.02 * (float64(n) - 4))
					clean = append(clean, r)
				}
			}
		}
		wrong := s.run(rapid.IntRange(0, s.programs-1).Draw(t, "program"), rapid.SampledFrom(types).Draw(t, "type"), 1000)
		wrong.Work *= math.Exp(rapid.Float64Range(-12, 12).Draw(t, "off"))
		a, b := learn(clean), learn(append(clean, wrong))
		for i := range s.programs {
			if x := off(ask(a, i), ask(b, i)); x > 1.03 {
				t.Fatalf("one run of ten moves a ratio by a factor %v", x)
			}
		}
	})
}

// Programs that all compare the types alike: every cell that no run has seen
// follows from the others, if the types hang together at all.
func TestCompletionIsExactAtRankOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Float64Range(-3, 3), 2, 10).Draw(t, "rows")
		columns := rapid.SliceOfN(rapid.Float64Range(-2, 2), len(types), len(types)).Draw(t, "columns")
		s := site{len(rows), func(i int, gpuType string) float64 {
			for j, name := range types {
				if name == gpuType {
					return math.Exp(rows[i] + columns[j])
				}
			}
			return math.NaN()
		}}
		var runs []speed.Run
		for j, name := range types { // program 0 links all types
			if j == 0 || rapid.Bool().Draw(t, "linked") || j == len(types)-1 {
				runs = append(runs, s.run(0, name, 500))
			} else {
				runs = append(runs, s.run(1, name, 500), s.run(1, types[0], 500))
			}
		}
		for i := 1; i < s.programs; i++ {
			runs = append(runs, s.run(i, rapid.SampledFrom(types).Draw(t, "seen"), 1000))
		}
		k := learn(runs)
		for i := range s.programs {
			got := ask(k, i)
			for a := range types {
				for b := range types {
					want := math.Exp(columns[a] - columns[b])
					if x := got[a].Speed / got[b].Speed; math.Abs(math.Log(x/want)) > 1e-4 {
						t.Fatalf("program %d: %s is %v times as fast as %s, want %v", i, types[a], x, types[b], want)
					}
				}
			}
		}
	})
}

// Of two runs that contradict each other neither is taken for the truth: which
// one would be chance.
func TestTwoRunsThatContradict(t *testing.T) {
	var runs []speed.Run
	for _, seconds := range []float64{99, 100, 101} {
		runs = append(runs, speed.Run{Program: program(0), Seconds: map[string]float64{"a100": seconds}, Work: 100})
		runs = append(runs, speed.Run{Program: program(0), Seconds: map[string]float64{"t4": seconds}, Work: 100})
	}
	for _, seconds := range []float64{25, 400} {
		runs = append(runs, speed.Run{Program: program(0), Seconds: map[string]float64{"v100": seconds}, Work: 100})
	}
	got := ask(learn(runs), 0)
	if x := got[2].Speed / got[0].Speed; x < 0.5 || x > 2 || got[2].Factor < 1.3 {
		t.Errorf("%+v", got)
	}
}

// The more runs, the surer, and in the end right.
func TestUncertaintyFallsWithData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		round := func(n int) (runs []speed.Run) {
			for k := range n {
				for i := range s.programs {
					for _, name := range types {
						r := s.run(i, name, 1000)
						r.Seconds[name] *= math.Exp(0.1 * float64(1-2*(k%2))) // noise
						runs = append(runs, r)
					}
				}
			}
			return runs
		}
		few, some, many := learn(round(2)), learn(round(8)), learn(round(64))
		truth := make([]speed.Answer, len(types))
		for i := range s.programs {
			a, b, c := ask(few, i), ask(some, i), ask(many, i)
			for j, name := range types {
				if !(a[j].Factor > b[j].Factor && b[j].Factor > c[j].Factor && c[j].Factor > 1) {
					t.Fatalf("%s: within a factor %v with 2 runs, %v with 8, %v with 64", name, a[j].Factor, b[j].Factor, c[j].Factor)
				}
				truth[j].Speed = s.speed(i, name)
			}
			if x := off(c, truth); x > 1.2 {
				t.Fatalf("off by a factor %v after 64 runs", x)
			}
		}
	})
}

// A cell without runs is less sure than one with, and says so.
func TestACompletedCellIsLessSure(t *testing.T) {
	s := site{2, func(i int, gpuType string) float64 { return map[string]float64{"a100": 9, "v100": 4, "t4": 1}[gpuType] }}
	var runs []speed.Run
	for range 5 {
		for _, name := range types {
			runs = append(runs, s.run(0, name, 100))
		}
		runs = append(runs, s.run(1, "a100", 100), s.run(1, "v100", 100))
	}
	got := ask(learn(runs), 1)
	if got[1].GPUType != "t4" || got[1].Runs != 0 || got[0].Runs != 5 || got[1].Factor <= got[0].Factor || got[1].Source != speed.Past {
		t.Fatalf("%+v", got)
	}
}

// A job that was moved from type to type teaches the speeds on all of them, as
// well as it says: a type that did a fiftieth of the work is less sure.
func TestRunsOnSeveralTypesAreTakenApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		var runs []speed.Run
		for i := range s.programs {
			for n := range 12 {
				r := speed.Run{Program: program(i), Seconds: map[string]float64{}}
				for j, name := range types {
					seconds := float64(1 + (n*(j+2)+i)%7)
					r.Seconds[name] = seconds
					r.Work += seconds * s.speed(i, name)
				}
				runs = append(runs, r)
			}
		}
		k := learn(runs)
		for i := range s.programs {
			got := ask(k, i)
			for _, a := range got {
				for _, b := range got {
					x := math.Abs(math.Log(a.Speed / b.Speed * s.speed(i, b.GPUType) / s.speed(i, a.GPUType)))
					if doubt := math.Log(a.Factor * b.Factor); x > math.Log(2.5) || x > 2*doubt {
						t.Fatalf("program %d: %s to %s is off by a factor %v, %+v", i, a.GPUType, b.GPUType, math.Exp(x), got)
					}
				}
			}
		}
	})
}

func TestWhatSaysNothing(t *testing.T) {
	for name, r := range map[string]speed.Run{
		"no name":        {Seconds: map[string]float64{"a100": 5}},
		"no time":        {Program: program(0)},
		"negative time":  {Program: program(0), Seconds: map[string]float64{"a100": -5}},
		"beyond measure": {Program: program(0), Seconds: map[string]float64{"a100": 60}, Work: 1e300},
		"infinite":       {Program: program(0), Seconds: map[string]float64{"a100": math.Inf(1)}},
		"not a number":   {Program: program(0), Seconds: map[string]float64{"a100": math.NaN()}},
		"in part":        {Program: program(0), Seconds: map[string]float64{"a100": math.NaN(), "t4": 60}},
		"negative work":  {Program: program(0), Seconds: map[string]float64{"a100": 5}, Work: -1},
	} {
		for i, a := range ask(learn([]speed.Run{r}), 0) {
			if a.Source != speed.None || a.Speed != 1 || a.GPUType != types[i] {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
}
