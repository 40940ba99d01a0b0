package simulate

import (
	"math/rand/v2"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store"
	"slurmprio/priod/trace"
)

// Each run is recorded, however short, whenever it begins, and also as the last one; what accounting alone tells of it ends at its end.
func TestShortRunsAreRecorded(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, order := range []string{"priod", "multifactor"} {
		spec := Spec{Order: order, Backfill: "easy"}
		if err := spec.Check(); err != nil {
			t.Fatal(err)
		}
		in := replayed(t, 1, 1, 0.01, "profile=balanced", "locality.enabled=false", "sizing.enabled=false")
		jobs, class := week(120, 0.1, 0.1), []cluster.Class{cluster.TE, cluster.BE}
		for i := range jobs {
			jobs[i].Submit, jobs[i].Duration, jobs[i].GPUs, jobs[i].Class = float64(60*i+r.IntN(60)), float64(1+r.IntN(9)), 1, class[i%2]
		}
		in.Jobs, in.Record = trace.Each(jobs), &Recording{Dir: t.TempDir()}
		if _, err := Run(t.Context(), spec, in); err != nil {
			t.Fatal(err)
		}
		reader, err := store.OpenReaderAt(t.Context(), in.Record.Dir, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := reader.JobsSince(t.Context(), time.Time{})
		if reader.Close(); err != nil || len(all) != len(jobs) {
			t.Fatalf("%s: %d of %d jobs, %v", order, len(all), len(jobs), err)
		}
		for i := range all {
			if x := &all[i]; x.Start.IsZero() || x.Left.IsZero() || x.Ran > 10*time.Second {
				t.Errorf("%s: job %v, submitted after %v s: started %v, ran %v, left %v", order, x.Job, jobs[i].Submit, x.Start, x.Ran, x.Left)
			}
		}
	}
}
