package cycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// fullDisk is a scene as a whole cycle sees it, where nothing can be recorded after
// the writes.
type fullDisk struct {
	*slurm
	snapshot cluster.Snapshot
}

func (f fullDisk) Observe(context.Context) (cluster.Snapshot, error) { return f.snapshot, nil }

func (f fullDisk) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	return make([]plan.Outcome, len(actions))
}
func (f fullDisk) Planned(context.Context, plan.Seen) error   { return nil }
func (f fullDisk) Done(context.Context, []plan.Outcome) error { return errors.New("disk full") }

// What went wrong with evictions is told also when the outcomes cannot be recorded.
func TestEveryErrorIsTold(t *testing.T) {
	f, e, s, _ := scene()
	f.odd[slurmplug.Plain(1)] = true
	s.Jobs[2].Submit, s.Jobs[2].Eligible, s.Jobs[2].SiteFactorKnown = start, start, true
	on := fullDisk{f, *s}
	_, err := Step(t.Context(), on, on, cluster.NewHistory(), Settings{
		Decide: order.Settings{Lever: slurmplug.SiteFactor, Top: 2_000_000_000, Ranking: plan.Classes{User: plan.Budget{TimeLimit: time.Hour}}}, Evictions: *e,
	})
	if err == nil || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "odd") {
		t.Error(err)
	}
}
