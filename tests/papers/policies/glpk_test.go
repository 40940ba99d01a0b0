package policies_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slurmprio/tests/papers/policies"
	"slurmprio/tests/problems"
	"slurmprio/tests/shared"
)

// glpk solves a program in CPLEX LP format by GLPK's glpsol: an optimiser that
// shares nothing with ours.
func glpk(t testing.TB, text string) float64 {
	t.Helper()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "p.lp"), filepath.Join(dir, "p.out")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := exec.Command("glpsol", "--lp", file, "--write", out).CombinedOutput()
	if err != nil {
		t.Fatalf("glpsol: %v\n%s", err, log)
	}
	answer, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^s bas \d+ \d+ f f (\S+)$`).FindSubmatch(answer)
	if m == nil {
		t.Fatalf("glpsol has no optimum:\n%s\n%s", answer[:min(len(answer), 300)], text)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func needGLPK(t testing.TB) int {
	t.Helper()
	if _, err := exec.LookPath("glpsol"); err != nil {
		if os.Getenv("SLURMPRIO_REQUIRE_LAB") != "" {
			t.Fatal("no glpsol: tests/deps.sh installs it")
		}
		t.Skip("no glpsol")
	}
	if os.Getenv("SLURMPRIO_LONG") == "1" {
		return 2000
	}
	return 20
}

// program writes the LP of a policy: maximise l such that every job has its
// floor x l, or the sum of values.
type program struct {
	rows        []string
	time, types [][]string
	rate        [][]string
	together    []string // all rates
}

func base(p *policies.Problem, pairs bool) *program {
	g := &program{time: make([][]string, len(p.Jobs)), types: make([][]string, len(p.Types)), rate: make([][]string, len(p.Jobs))}
	for i := range p.Jobs {
		for t, s := range p.Jobs[i].Speed {
			if s > 0 && p.Jobs[i].GPUs <= p.Types[t].GPUs {
				x := fmt.Sprintf("x%d_%d", i, t)
				g.time[i] = append(g.time[i], x)
				g.types[t] = append(g.types[t], fmt.Sprintf("%d %s", p.Jobs[i].GPUs, x))
				g.rate[i] = append(g.rate[i], fmt.Sprintf("%.17g %s", s, x))
				g.together = append(g.together, fmt.Sprintf("%.17g %s", s, x))
			}
		}
	}
	for _, s := range p.Pairs {
		for t, v := range s.Speed {
			if pairs && v[0] > 0 && v[1] > 0 && p.Jobs[s.A].GPUs <= p.Types[t].GPUs {
				x := fmt.Sprintf("y%d_%d_%d", s.A, s.B, t)
				g.types[t] = append(g.types[t], fmt.Sprintf("%d %s", p.Jobs[s.A].GPUs, x))
				for k, i := range []int{s.A, s.B} {
					g.time[i] = append(g.time[i], x)
					g.rate[i] = append(g.rate[i], fmt.Sprintf("%.17g %s", v[k], x))
				}
				g.together = append(g.together, fmt.Sprintf("%.17g %s", v[0]+v[1], x))
			}
		}
	}
	for i := range g.time {
		if len(g.time[i]) > 0 {
			g.rows = append(g.rows, strings.Join(g.time[i], " + ")+" <= 1")
		}
	}
	for t := range g.types {
		if len(g.types[t]) > 0 {
			g.rows = append(g.rows, strings.Join(g.types[t], " + ")+fmt.Sprintf(" <= %d", p.Types[t].GPUs))
		}
	}
	return g
}

func (g *program) text(objective string) string {
	return "Maximize\n obj: " + objective + "\nSubject To\n " + strings.Join(g.rows, "\n ") + "\nEnd\n"
}

// worst is the LP of the highest level l with rate >= floor x l.
func (g *program) worst(floor []float64) string {
	for i, f := range floor {
		if f > 0 && len(g.rate[i]) > 0 {
			g.rows = append(g.rows, strings.Join(g.rate[i], " + ")+fmt.Sprintf(" - %.17g l >= 0", f))
		}
	}
	return g.text("l")
}

// invent is problems.Invent, with prices, and with pairs.
func invent(r *rand.Rand, pairs bool) *policies.Problem {
	p := &policies.Problem{}
	p.Problem = problems.Invent(r, func() { p.PerHour = append(p.PerHour, 0.1+r.Float64()) })
	n := len(p.Jobs)
	for a := range n {
		for b := a + 1; pairs && b < n; b++ {
			if p.Jobs[a].GPUs != p.Jobs[b].GPUs || r.IntN(3) == 0 {
				continue
			}
			s := policies.Pair{A: a, B: b}
			for t := range p.Types {
				f := 0.4 + 0.5*r.Float64()
				s.Speed = append(s.Speed, [2]float64{f * p.Jobs[a].Speed[t], (1.3 - f) * p.Jobs[b].Speed[t]})
			}
			p.Pairs = append(p.Pairs, s)
		}
	}
	return p
}

func fits(p *policies.Problem, i int) (ok bool) {
	for t, s := range p.Jobs[i].Speed {
		ok = ok || s > 0 && p.Jobs[i].GPUs <= p.Types[t].GPUs
	}
	return ok
}

// lasFloors are the rates at level 1 of max-min.
func lasFloors(p *policies.Problem) []float64 {
	total := 0
	for _, t := range p.Types {
		total += t.GPUs
	}
	floor := make([]float64, len(p.Jobs))
	for i := range p.Jobs {
		j := &p.Jobs[i]
		for t, s := range j.Speed {
			if j.GPUs <= p.Types[t].GPUs {
				floor[i] += s * float64(p.Types[t].GPUs) / float64(total) * j.Weight / float64(j.GPUs)
			}
		}
	}
	return floor
}

func TestAgainstGLPK(t *testing.T) {
	n := needGLPK(t)
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		pairs := seed%4 == 3
		p := invent(r, pairs)
		some := false
		steps := make([]float64, len(p.Jobs))
		for i := range p.Jobs {
			if steps[i] = p.Jobs[i].StepsLeft; !fits(p, i) {
				steps[i] = 0
			}
			some = some || fits(p, i)
		}
		if !some {
			continue
		}
		suffix := ""
		if pairs {
			suffix = ":packed"
		}
		check := func(name string, got, bound, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-6*math.Abs(want) || math.Abs(bound-want) > 1e-6*math.Abs(want) {
				t.Errorf("seed %d: %s: objective %v, bound %v, GLPK %v", seed, name, got, bound, want)
			}
		}
		a := solve(t, "max-min"+suffix, p)
		check("max-min"+suffix, a.Objective, a.Bound, glpk(t, base(p, pairs).worst(lasFloors(p))))
		a = solve(t, "makespan"+suffix, p)
		check("makespan"+suffix, a.Objective, a.Bound, 1/(glpk(t, base(p, pairs).worst(scaled(steps, 1e-5)))*1e-5))
		a = solve(t, "max-throughput"+suffix, p)
		g := base(p, pairs)
		check("max-throughput"+suffix, a.Objective, a.Bound, glpk(t, g.text(strings.Join(g.together, " + "))))
		// Finish-time fairness is no LP; at its level the LP has just no room.
		a = solve(t, "finish-time-fairness"+suffix, p)
		check("finish-time-fairness"+suffix, 1, a.Bound/a.Objective, glpk(t, base(p, pairs).worst(finishFloors(p, 1/a.Objective))))
		a = solve(t, "min-cost"+suffix, p)
		check("min-cost"+suffix, a.Objective, a.Bound, glpk(t, base(p, pairs).priced(p)))
		floor := lasFloors(p)
		for _, name := range []string{"max-min", "water-filling:packed"} {
			if p := p; pairs || name == "max-min" {
				raised(t, seed, name, p, pairs && name != "max-min", floor, r.IntN(len(p.Jobs)))
			}
		}
		if !pairs {
			nash(t, seed, p)
			deadlines(t, seed, r, p)
		}
	}
}

// raised checks lexicographic max-min fairness where it can fail: no
// allocation gives the job more without taking from one that has no more.
func raised(t *testing.T, seed int, name string, p *policies.Problem, pairs bool, floor []float64, job int) {
	t.Helper()
	a := solve(t, name, p)
	if !fits(p, job) {
		return
	}
	level := a.Rate[job] / floor[job]
	most := func(slack float64) float64 {
		g := base(p, pairs)
		for i := range p.Jobs {
			if i != job && fits(p, i) {
				g.rows = append(g.rows, strings.Join(g.rate[i], " + ")+fmt.Sprintf(" >= %.17g", min(a.Rate[i], level*floor[i])*(1-slack)))
			}
		}
		return glpk(t, g.text(strings.Join(g.rate[job], " + ")))
	}
	// GLPK needs some slack; what that alone gives doubles with it.
	const slack = 2e-7
	if free := 2*most(slack) - most(2*slack); free > a.Rate[job]*(1+1e-4)+1e-6 {
		t.Errorf("seed %d: %s: job %d has %v steps/s and could have %v", seed, name, job, a.Rate[job], free)
	}
}

// nash checks the optimum of a sum of logarithms by its tangent: nobody gains
// in sum of weight x rate / present rate, which is a linear program.
func nash(t *testing.T, seed int, p *policies.Problem) {
	t.Helper()
	a := solve(t, "strategy-proof", p)
	var terms []string
	total := 0.0
	for i := range p.Jobs {
		if !fits(p, i) {
			continue
		}
		for g, s := range p.Jobs[i].Speed {
			if p.Jobs[i].GPUs <= p.Types[g].GPUs && s > 0 {
				terms = append(terms, fmt.Sprintf("%.17g x%d_%d", s*p.Jobs[i].Weight/(a.Rate[i]/a.Discount[i]), i, g))
			}
		}
		total += p.Jobs[i].Weight
	}
	if got := glpk(t, base(p, false).text(strings.Join(terms, " + "))); math.Abs(got-total) > 1e-5*total {
		t.Errorf("seed %d: strategy-proof: the tangent's optimum is %v of %v", seed, got, total)
	}
}

// deadlines checks that as many of the earlier deadlines are kept as can be.
func deadlines(t *testing.T, seed int, r *rand.Rand, p *policies.Problem) {
	t.Helper()
	floor := make([]float64, len(p.Jobs))
	p.Deadlines = slices.Repeat([]float64{math.Inf(1)}, len(p.Jobs))
	for i := range p.Jobs {
		j := &p.Jobs[i]
		most := 0.0
		for g, s := range j.Speed {
			if j.GPUs <= p.Types[g].GPUs {
				most = max(most, s)
			}
		}
		if most > 0 {
			floor[i] = most * (0.05 + 0.9*r.Float64())
			p.Deadlines[i] = j.StepsLeft / floor[i]
		}
	}
	a := solve(t, "max-throughput", p)
	relaxed := len(a.Notes)
	for i := range p.Jobs {
		if !fits(p, i) {
			relaxed--
		}
	}
	kept := append([]float64(nil), floor...)
	last := -1 // the earliest whose deadline is given up: they go from the latest on
	for i := len(kept) - 1; i >= 0 && relaxed > 0; i-- {
		if kept[i] > 0 {
			kept[i], last = 0, i
			relaxed--
		}
	}
	g := base(p, false)
	for i, f := range kept {
		if f > 0 {
			g.rows = append(g.rows, strings.Join(g.rate[i], " + ")+fmt.Sprintf(" >= %.17g", f*(1-1e-9)))
		}
		if a.Rate[i] < f*(1-1e-6) {
			t.Errorf("seed %d: job %d makes %v steps/s, its deadline needs %v: %q", seed, i, a.Rate[i], f, a.Notes)
		}
	}
	if want := glpk(t, g.text(strings.Join(g.together, " + "))); math.Abs(a.Objective-want) > 1e-6*want {
		t.Errorf("seed %d: with deadlines max-throughput is %v, GLPK %v", seed, a.Objective, want)
	}
	if last >= 0 {
		kept[last] = floor[last]
		if l := glpk(t, base(p, false).worst(kept)); l > 1+1e-7 {
			t.Errorf("seed %d: job %d's deadline could be kept %v times: %q", seed, last, l, a.Notes)
		}
	}
	p.Deadlines = nil
}

// priced is the LP of what the GPUs' prices buy.
func (g *program) priced(p *policies.Problem) string {
	var terms []string
	for _, term := range g.together {
		v, x, _ := strings.Cut(term, " ")
		place := strings.Split(x, "_")
		s, _ := strconv.ParseFloat(v, 64)
		of, _ := strconv.Atoi(place[len(place)-1])
		terms = append(terms, fmt.Sprintf("%.17g %s", s/p.PerHour[of], x))
	}
	return g.text(strings.Join(terms, " + "))
}

func scaled(v []float64, f float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * f
	}
	return out
}

// finishFloors are the rates that finish-time fairness asks for at a level.
func finishFloors(p *policies.Problem, level float64) []float64 {
	floor := make([]float64, len(p.Jobs))
	alone := p.IsolatedRates()
	for i := range p.Jobs {
		if j := &p.Jobs[i]; fits(p, i) {
			d := j.IsolatedElapsed + j.StepsLeft/alone[i]
			floor[i] = j.StepsLeft / (d/(j.Weight*level) - j.Elapsed)
		}
	}
	return floor
}

// Instance B of the published objectives, whose optimum there gives a gang of 4
// time on 2 GPUs: ours against GLPK on the same rule.
func TestInstanceBAgainstGLPK(t *testing.T) {
	needGLPK(t)
	var file map[string]instance
	shared.JSON(t, "gavel/expected/policy_allocations.json", &file)
	in := file["B_seven_real_jobs_multi"]
	p := in.problem(t)
	a := solve(t, "max-min", p)
	if want := glpk(t, base(p, false).worst(lasFloors(p))); !problems.Near(a.Objective, want, 1e-6) {
		t.Errorf("objective %v, GLPK %v", a.Objective, want)
	}
}
