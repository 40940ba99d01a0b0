package size_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/size"
	"slurmprio/priod/workload"
	"slurmprio/tests/sizes"
)

// The worked example of Synergy's code on one server (research notes, 1.4): the hungry jobs get what the others leave.
func TestOneServer(t *testing.T) {
	curve := sizes.Curves(t)
	var jobs []size.Job
	for _, m := range []string{"alexnet", "alexnet", "alexnet", "alexnet", "gnmt", "gnmt", "gnmt", "gnmt"} {
		jobs = append(jobs, sizes.Job(curve(m), 1))
	}
	for _, c := range []struct {
		tuned bool
		want  []string
	}{
		{true, []string{"3x1", "3x1", "3x1", "3x1", "1x1", "1x1", "1x1", "1x1"}},
		{false, []string{"5x1.53", "5x1.53", "5x1.53", "5x1.53", "1x1", "1x1", "1x1", "1x1"}},
	} {
		if got := sizes.Words(len(jobs), size.NewPacker(size.Rule{Tuned: c.tuned}).Pack(jobs, sizes.Servers(1))); !slices.Equal(got, c.want) {
			t.Errorf("tuned %v: %v, want %v", c.tuned, got, c.want)
		}
	}
}

// The same model needs more cores on a faster GPU, and nodes differ.
func TestTypes(t *testing.T) {
	at := func(demand, best float64) *workload.Curve {
		return &workload.Curve{
			IterationS: 1, DemandCPUs: demand, DemandMemMB: 1000, CPUs: []float64{1, demand}, MemMB: []int64{1000}, Speed: [][]float64{{1}, {best}},
		}
	}
	small, large := size.Amount{GPUs: 2, CPUs: 4, MemMB: 1e5}, size.Amount{GPUs: 2, CPUs: 32, MemMB: 1e5}
	nodes := []size.Node{{Type: 0, Total: small, Free: small}, {Type: 1, Total: large, Free: large}}
	j := size.Job{GPUs: 1, On: []size.Sensitivity{{Speed: 1, Curve: at(3, 1.5)}, {Speed: 2, Curve: at(20, 2)}}}
	got := sizes.Words(4, size.NewPacker(size.Rule{}).Pack([]size.Job{j, j, j, j}, nodes))
	// Shares: 16 CPUs on the second type, whose curve rises between 1 and 20; 2 on the first.
	if want := []string{"16x1.7894736842105263", "16x1.7894736842105263", "2x1.25", "2x1.25"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	only := size.Job{GPUs: 3, On: []size.Sensitivity{{}, {Speed: 1}}}
	if got := size.NewPacker(size.Rule{}).Pack([]size.Job{only}, nodes); len(got) != 0 {
		t.Errorf("a gang larger than its only type was granted %v", got)
	}
}

// way is one way of a Packer.
func way(rule size.Rule) sizes.Way {
	return sizes.Way{Name: fmt.Sprintf("%+v", rule), New: func() func([]size.Job, []size.Node) []size.Grant { return size.NewPacker(rule).Pack }, Reserve: rule.Reserve}
}

func TestProperties(t *testing.T) {
	sizes.Check(t, []sizes.Way{way(size.Rule{}), way(size.Rule{Tuned: true}), way(size.Rule{Reserve: true}), way(size.Rule{Tuned: true, Reserve: true})})
}

// Waterfill is never slower than TUNE.
func TestWaterfillIsFaster(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, reserve := sizes.Draw(r, rapid.Bool().Draw(r, "busy")), rapid.Bool().Draw(r, "reserve")
		speed := func(tuned bool) (sum float64) {
			for _, g := range size.NewPacker(size.Rule{Tuned: tuned, Reserve: reserve}).Pack(s.Jobs, s.Nodes) {
				sum += g.Speed
			}
			return sum
		}
		if waterfill, tune := speed(false), speed(true); waterfill < tune*(1-sizes.Rounding) {
			r.Fatalf("waterfill %v, TUNE %v", waterfill, tune)
		}
	})
}

func BenchmarkSize(b *testing.B) {
	curve := sizes.Curves(b)
	var jobs []size.Job
	for i := range 10_000 {
		jobs = append(jobs, sizes.Job(curve(sizes.Models[i*7%10]), []int{1, 1, 1, 1, 1, 1, 1, 2, 2, 4}[i*3%11%10]))
	}
	nodes := sizes.Servers(2000)
	for _, m := range []bool{false, true} { // Rule.Tuned
		b.Run(fmt.Sprint("tuned=", m), func(b *testing.B) {
			s := size.NewPacker(size.Rule{Tuned: m})
			for b.Loop() {
				b.ReportMetric(float64(len(s.Pack(jobs, nodes))), "granted")
			}
		})
	}
}
