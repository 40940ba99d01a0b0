package colocation_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/tests/papers/colocation"
	"slurmprio/tests/papers/traces"
	"slurmprio/tests/shared"
)

// kinds are programs of a few kinds: those of one kind differ by little.
func kinds(t *rapid.T, columns int) [][]float64 {
	rows := make([][]float64, rapid.IntRange(2, 8).Draw(t, "references"))
	for i := range rows {
		rows[i] = rapid.SliceOfN(rapid.Float64Range(0, 1), columns, columns).Draw(t, "row")
		rows[i][i%columns] = 1 // nothing but zeros is like nothing
	}
	return rows
}

func cosine(a, b []float64) float64 {
	dot, x, y := 0.0, 0.0, 0.0
	for i := range a {
		dot, x, y = dot+a[i]*b[i], x+a[i]*a[i], y+b[i]*b[i]
	}
	return dot / math.Sqrt(x*y)
}

// A program that was tried in all pairs is like the reference that it is, or
// one in proportion to it.
func TestAKnownProgramIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := kinds(t, 12)
		r, err := colocation.New(rows)
		if err != nil {
			t.Fatal(err)
		}
		i := rapid.IntRange(0, len(rows)-1).Draw(t, "program")
		got, ok := r.Like(rows[i])
		if !ok || cosine(rows[got], rows[i]) < 1-1e-9 {
			t.Fatalf("program %d is taken for %d", i, got)
		}
	})
}

// Two kinds of programs, heavy and light: one pair that was tried tells them apart.
func TestOnePairTellsTheKind(t *testing.T) {
	rows := [][]float64{
		{.9, .85, .95, .9, .9, .85}, {.95, .9, .9, .95, .85, .9},
		{.9, .1, .95, .05, .9, .1}, {.85, .05, .9, .1, .95, .1},
	}
	r, err := colocation.New(rows)
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	light, ok1 := r.Like([]float64{.9, .9, nan, nan, nan, nan})
	heavy, ok2 := r.Like([]float64{.9, .1, nan, nan, nan, nan})
	if !ok1 || !ok2 || light > 1 || heavy < 2 {
		t.Errorf("light is like %d, heavy like %d", light, heavy)
	}
}

func TestWhatSaysNothing(t *testing.T) {
	r, err := colocation.New([][]float64{{1, .5}, {.5, 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range [][]float64{{math.NaN(), math.NaN()}, {0, math.NaN()}} {
		if i, ok := r.Like(known); ok {
			t.Errorf("%v is like %d", known, i)
		}
	}
	for _, rows := range [][][]float64{nil, {{}}, {{1, 2}, {1}}, {{-1}}, {{math.NaN()}}, {{math.Inf(1)}}} {
		if _, err := colocation.New(rows); err == nil {
			t.Errorf("references %v are taken", rows)
		}
	}
}

// Gavel's own figures: 16 of its 26 programs are references, of the others each
// pair was tried with a chance of 20 %. The reference that is found says more of
// the untried pairs than the mean of all references does.
func TestGavelsPrograms(t *testing.T) {
	all, pairs, err := traces.ImportGavel(shared.Open(t, "gavel/simulation_throughputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	alone := map[[2]string]float64{}
	var programs []string
	for _, w := range all {
		programs = append(programs, w.Name)
		for gpuType, list := range w.Speeds {
			alone[[2]string{w.Name, gpuType}] = list[0].StepsPerS // one GPU
		}
	}
	beside := map[[3]string]float64{}
	for _, p := range pairs {
		if p.GPUs == 1 {
			beside[[3]string{p.GPUType, p.A, p.B}] = min(1, p.SpeedA/alone[[2]string{p.A, p.GPUType}])
			beside[[3]string{p.GPUType, p.B, p.A}] = min(1, p.SpeedB/alone[[2]string{p.B, p.GPUType}])
		}
	}
	draw := rand.New(rand.NewPCG(4, 0))
	found, usual, cells := 0.0, 0.0, 0.0
	for range 50 {
		draw.Shuffle(len(programs), func(i, j int) { programs[i], programs[j] = programs[j], programs[i] })
		references := programs[:16]
		row := func(p string) (ratios []float64) {
			for _, gpuType := range []string{"v100", "p100", "k80"} {
				for _, other := range references {
					ratios = append(ratios, beside[[3]string{gpuType, p, other}])
				}
			}
			return ratios
		}
		var rows [][]float64
		for _, p := range references {
			rows = append(rows, row(p))
		}
		r, err := colocation.New(rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range programs[16:] {
			truth := row(p)
			known := make([]float64, len(truth))
			for j := range known {
				known[j] = math.NaN()
				if draw.Float64() < 0.2 {
					known[j] = truth[j]
				}
			}
			like, ok := r.Like(known)
			for j := range known {
				if !ok || !math.IsNaN(known[j]) {
					continue
				}
				mean := 0.0
				for _, other := range rows {
					mean += other[j] / float64(len(rows))
				}
				found += math.Abs(rows[like][j] - truth[j])
				usual += math.Abs(mean - truth[j])
				cells++
			}
		}
	}
	t.Logf("mean error of an untried ratio: %.3f by the reference found, %.3f by the mean of all references", found/cells, usual/cells)
	if found >= usual {
		t.Error("want it to say more")
	}
}
