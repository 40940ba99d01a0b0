package pool

import (
	"encoding/csv"
	"os"
	"testing"

	"slurmprio/priod/trace"
	"slurmprio/tests/shared"
)

// testdata/venus.csv are three congested stretches of a week of Helios Venus
// (768 GPUs in a pool; CC-BY-4.0, SenseTime) with the starts that CQSim gave
// under each backfill. What runs when a stretch begins starts at 0 with what is
// left of it, long jobs together as "before". No start: after the stretch.
func TestStretchesOfVenus(t *testing.T) {
	f, err := os.Open("testdata/venus.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	jobs, starts := map[Backfill][]trace.Job{}, map[Backfill][]string{}
	for _, r := range rows[1:] {
		b := Backfill(r[0])
		jobs[b] = append(jobs[b], trace.Job{ID: r[1], Submit: shared.Number(t, r[2]), Duration: shared.Number(t, r[3]), GPUs: int(shared.Number(t, r[4]))})
		starts[b] = append(starts[b], r[5])
	}
	for _, want := range []Backfill{NoBackfill, EASY, Conservative} {
		for _, b := range []Backfill{NoBackfill, EASY, Conservative, Skip} {
			wrong := 0
			for i, o := range run(t, nodes(96, 8), jobs[want], Options{Backfill: b}).Outcomes {
				if s := starts[want][i]; s != "" && shared.Number(t, s) != o.Start {
					wrong++
				}
			}
			if (wrong > 0) != (b != want) {
				t.Errorf("the stretch of %s under %s: %d starts differ", want, b, wrong)
			}
		}
	}
}
