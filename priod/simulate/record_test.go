package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/trace"
)

// replayed is an Input of so many jobs within days, on 120 GPUs of two types.
func replayed(t testing.TB, jobs int, days float64, load float64, set ...string) Input {
	t.Helper()
	c, err := config.Load("/dev/null", set...)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := trace.ParseNodes([]string{"6:a100:8:64:1000000", "9:v100:8:40:400000"})
	if err != nil {
		t.Fatal(err)
	}
	return Input{Cluster: nodes, Config: c, Jobs: trace.Each(week(jobs, days, load)), Speed: func(j *trace.Job, _ string) float64 { return 1 }}
}

func week(n int, days, load float64) []trace.Job {
	r := rand.New(rand.NewPCG(1, 2))
	jobs, work := make([]trace.Job, n), 0.0
	for i := range jobs {
		j := &jobs[i]
		j.ID, j.Submit = fmt.Sprint(500_001+i), float64(i)*days*86400/float64(n)
		j.User, j.Account = fmt.Sprintf("u%02d", r.IntN(40)), fmt.Sprintf("acc%d", r.IntN(6))
		j.GPUs, j.Class = []int{1, 1, 1, 2, 4, 8}[r.IntN(6)], 0
		j.Duration = 60 * r.ExpFloat64() * 60
		work += j.Duration * float64(j.GPUs)
	}
	scale := load * 120 * days * 86400 / work
	for i := range jobs {
		jobs[i].Duration = jobs[i].Duration*scale + 10
		jobs[i].Limit = 1.5*jobs[i].Duration + 600
	}
	return jobs
}

// BenchmarkRecorded is a replay of 2,000 jobs, as it is and recorded.
func BenchmarkRecorded(b *testing.B) {
	spec := Spec{Order: "priod", Backfill: "easy", SlurmOrder: "multifactor"}
	if err := spec.Check(); err != nil {
		b.Fatal(err)
	}
	for _, recorded := range []bool{false, true} {
		b.Run(fmt.Sprint("recorded=", recorded), func(b *testing.B) {
			for b.Loop() {
				in := replayed(b, 2000, 3, 0.85, "profile=balanced", "locality.enabled=false", "sizing.enabled=false")
				if recorded {
					in.Record = &Recording{Dir: b.TempDir()}
				}
				if _, err := Run(b.Context(), spec, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
