package allocation_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"slurmprio/priod/policy/allocation"
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
	if os.Getenv("SLURMPRIO_LONG") != "" {
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

func base(p *allocation.Problem, pairs bool) *program {
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

// invent makes a problem of awkward numbers: ties, zeros, gangs that fit some
// types only, jobs that come twice.
func invent(r *rand.Rand, pairs bool) *allocation.Problem {
	p := &allocation.Problem{}
	for t := range 1 + r.IntN(5) {
		p.Types = append(p.Types, allocation.GPUType{Name: fmt.Sprint("t", t), GPUs: 1 + r.IntN(8), Price: 0.1 + r.Float64()})
	}
	speeds := []float64{0, 0.3, 0.5, 1, 1, 2, 2, 3.7, 11}
	n := 1 + r.IntN(25)
	for i := range n {
		j := allocation.Job{ID: strconv.Itoa(i), GPUs: []int{1, 1, 1, 2, 4, 8}[r.IntN(6)], Weight: []float64{1, 1, 1, 2, 0.5}[r.IntN(5)],
			StepsLeft: float64(1 + r.IntN(50_000)), Elapsed: float64(r.IntN(3) * 400), IsolatedElapsed: float64(r.IntN(3) * 300),
			Arrival: float64(i), Deadline: allocation.NoDeadline, Entity: allocation.NoEntity}
		for range p.Types {
			s := speeds[r.IntN(len(speeds))]
			if r.IntN(2) == 0 {
				s *= 0.5 + r.Float64()
			}
			j.Speed = append(j.Speed, s)
		}
		if i > 0 && r.IntN(3) == 0 {
			twin := p.Jobs[r.IntN(i)]
			j.Speed, j.GPUs, j.Weight = twin.Speed, twin.GPUs, twin.Weight
		}
		p.Jobs = append(p.Jobs, j)
	}
	for a := range n {
		for b := a + 1; pairs && b < n; b++ {
			if p.Jobs[a].GPUs != p.Jobs[b].GPUs || r.IntN(3) == 0 {
				continue
			}
			s := allocation.Pair{A: a, B: b}
			for t := range p.Types {
				f := 0.4 + 0.5*r.Float64()
				s.Speed = append(s.Speed, [2]float64{f * p.Jobs[a].Speed[t], (1.3 - f) * p.Jobs[b].Speed[t]})
			}
			p.Pairs = append(p.Pairs, s)
		}
	}
	return p
}

func fits(p *allocation.Problem, i int) (ok bool) {
	for t, s := range p.Jobs[i].Speed {
		ok = ok || s > 0 && p.Jobs[i].GPUs <= p.Types[t].GPUs
	}
	return ok
}

// lasFloors are the rates at level 1 of max-min.
func lasFloors(p *allocation.Problem) []float64 {
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
	}
}

func scaled(v []float64, f float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * f
	}
	return out
}

// finishFloors are the rates that finish-time fairness asks for at a level.
func finishFloors(p *allocation.Problem, level float64) []float64 {
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
	sharedJSON(t, "gavel/expected/policy_allocations.json", &file)
	in := file["B_seven_real_jobs_multi"]
	p := in.problem(t)
	a := solve(t, "max-min", p)
	if want := glpk(t, base(p, false).worst(lasFloors(p))); !near(a.Objective, want, 1e-6) {
		t.Errorf("objective %v, GLPK %v", a.Objective, want)
	}
}
