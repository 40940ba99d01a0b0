package virtual

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/order"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/traces"
	"slurmprio/tests/shared/venus"
)

// stream draws jobs with the sizes of venus-1w (1 GPU in half of them, up to
// 128) and long-tailed run times, at a load of the given number of GPUs. Above
// load 1 the queue grows as long as the trace lasts.
func stream(n, gpus int, load float64, seed uint64) iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		sizes := []int{1, 1, 1, 1, 1, 2, 4, 8, 8, 16, 32, 32, 128}
		mean := 0.0
		for _, s := range sizes {
			mean += float64(s) / float64(len(sizes))
		}
		const median, sigma = 600, 1.5
		seconds := median * math.Exp(sigma*sigma/2)
		gap := mean * seconds / (load * float64(gpus))
		at := 0.0
		for i := range n {
			at += rnd.ExpFloat64() * gap
			run := math.Ceil(median * math.Exp(sigma*rnd.NormFloat64()))
			job := trace.Job{ID: fmt.Sprint(i), Submit: math.Floor(at), GPUs: sizes[rnd.IntN(len(sizes))], Duration: run, Limit: run * (1 + rnd.Float64())}
			if !yield(job, nil) {
				return
			}
		}
	}
}

// BenchmarkEASY is EASY on 4,000 GPUs. At load 2 the queue of
// the largest run is hundreds of thousands of jobs long; cost per job stays the
// same.
func BenchmarkEASY(b *testing.B) {
	for _, load := range []float64{0.95, 2} {
		for _, n := range []int{10_000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("load=%v/jobs=%d", load, n), func(b *testing.B) {
				var most uint64
				longest := 0
				before := cpuTime(b)
				for b.Loop() {
					stop, peak := make(chan struct{}), make(chan uint64)
					go watchHeap(stop, peak)
					r, err := Run(context.Background(), nodes(500, 8), stream(n, 4000, load, 1), Options{Backfill: EASY})
					if err != nil {
						b.Fatal(err)
					}
					close(stop)
					most = max(most, <-peak)
					for _, p := range r.Series {
						longest = max(longest, p.Queued)
					}
				}
				b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "jobs/s")
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N*n), "cpu-ns/job")
				b.ReportMetric(float64(most)/1e6, "peak-MB")
				b.ReportMetric(float64(longest), "queue")
			})
		}
	}
}

// cpuTime is what this process used on all cores: the machine may be shared.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchHeap samples what the runtime has from the system in its heap.
func watchHeap(stop <-chan struct{}, peak chan<- uint64) {
	most := uint64(0)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse+m.StackInuse)
		select {
		case <-stop:
			peak <- most
			return
		case <-tick.C:
		}
	}
}

// publishedEASY is what a published simulator (CQSim) takes for the week of
// Venus with EASY, s: the figure that stands beside ours.
const publishedEASY = 5

var benchDaemon = Daemon{Settings: cycle.Settings{Order: order.Feature{Settings: order.Settings{Top: 2_000_000_000}}}, Interval: 15 * time.Second}

// BenchmarkVenus runs the week of Venus under each mode.
func BenchmarkVenus(b *testing.B) {
	jobs := venus.Jobs(b)
	for i := range jobs {
		if jobs[i].Duration < 1800 {
			jobs[i].Class = cluster.TE // which only priod looks at
		}
	}
	for _, c := range []struct {
		name string
		opt  Options
	}{
		{"fifo", Options{}},
		{"easy", Options{Backfill: EASY}},
		{"consolidated", Options{Placement: placement.Consolidated}},
		{"consolidated-easy", Options{Placement: placement.Consolidated, Backfill: EASY}},
		{"multifactor", Options{Order: Multifactor, Backfill: EASY}},
		{"priod", Options{Order: Priod, Backfill: EASY, Daemon: benchDaemon}},
	} {
		b.Run(c.name, func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				run(b, nodes(96, 8), jobs, c.opt)
			}
			b.ReportMetric((cpuTime(b)-before).Seconds()*1e3/float64(b.N), "cpu-ms/op")
			if c.name == "easy" {
				b.ReportMetric(publishedEASY, "published-s")
			}
		})
	}
}

// BenchmarkFitGpp runs FitGpp's synthetic jobs, of which hardly two ask for the
// same, on nodes on which CPUs and memory count.
func BenchmarkFitGpp(b *testing.B) {
	for _, c := range []struct {
		name       string
		nodes, n   int
		load       float64 // 0: arrivals recorded at load 2
		opt        Options
		placements []placement.Mode
	}{
		{"fifo", 84, 65_536, 0, Options{}, []placement.Mode{placement.Packed, placement.Consolidated}},
		{"easy", 84, 65_536, 0, Options{Backfill: EASY}, []placement.Mode{placement.Packed, placement.Consolidated}},
		{"te-first", 84, 65_536, 0, Options{Backfill: EASY, TEFirst: true}, []placement.Mode{placement.Packed, placement.Consolidated}},
		{"priod", 84, 65_536, 0, Options{Order: Priod, Backfill: EASY, Daemon: benchDaemon}, []placement.Mode{placement.Packed}},
		{"overload", 84, 65_536, 1.5, Options{Backfill: EASY}, []placement.Mode{placement.Packed}},
		{"large", 10_000, 100_000, 0.95, Options{Backfill: EASY}, []placement.Mode{placement.Packed}},
	} {
		for _, mode := range c.placements {
			b.Run(fmt.Sprintf("%s/placement=%d", c.name, mode), func(b *testing.B) {
				p := traces.FitGppParams{Seed: 1, Jobs: c.n, Mix: "even", TEShare: 0.3, Load: c.load, Node: traces.FitGppNode}
				p.Node.Count = c.nodes
				jobs, err := traces.GenerateFitGpp(p)
				if err != nil {
					b.Fatal(err)
				}
				c.opt.Placement = mode
				before := cpuTime(b)
				for b.Loop() {
					run(b, trace.Cluster{Nodes: []trace.NodeGroup{p.Node}}, jobs, c.opt)
				}
				b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
			})
		}
	}
}

// BenchmarkConservative is what each job costs with a place kept for the first jobs, as many as Slurm's bf_max_job_test, beside EASY.
func BenchmarkConservative(b *testing.B) {
	for _, n := range []int{20_000, 200_000} {
		for _, o := range []Options{{Backfill: EASY}, {Backfill: Conservative, Own: Own{Depth: 100}}, {Backfill: Conservative}} {
			b.Run(fmt.Sprintf("jobs=%d/%s=%d", n, o.Backfill, o.Depth), func(b *testing.B) {
				before := cpuTime(b)
				for b.Loop() {
					if _, err := Run(context.Background(), nodes(500, 8), stream(n, 4000, 0.95, 1), o); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N*n), "cpu-ns/job")
			})
		}
	}
}
