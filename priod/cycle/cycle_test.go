package cycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// fullDisk is a scene as a whole cycle sees it, where nothing can be recorded after
// the writes.
type fullDisk struct {
	*fakeSlurm
	snapshot cluster.Snapshot
}

func (f fullDisk) Observe(context.Context) (cluster.Snapshot, error) { return f.snapshot, nil }

func (f fullDisk) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	return make([]plan.Outcome, len(actions))
}
func (f fullDisk) Observed(context.Context, *cluster.Snapshot, func() []cluster.Stay) {}
func (f fullDisk) Planned(context.Context, plan.Seen) error                           { return nil }
func (f fullDisk) Done(context.Context, []plan.Outcome) error                         { return errors.New("disk full") }

// What went wrong with evictions is told also when the outcomes cannot be recorded.
func TestEveryErrorIsTold(t *testing.T) {
	f, e, s, _ := newCluster()
	f.odd[slurmplug.Plain(1)] = true
	s.Jobs[2].Submit, s.Jobs[2].Eligible, s.Jobs[2].SiteFactorKnown = start, start, true
	on := fullDisk{f, *s}
	_, err := Step(t.Context(), on, on, cluster.NewHistory(), Settings{
		Order: order.Feature{Settings: order.Settings{Top: 2_000_000_000, Ranking: plan.Classes{User: plan.Budget{TimeLimit: time.Hour}}}}, Evictions: *e,
	})
	if err == nil || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "odd") {
		t.Error(err)
	}
}

// A TE job that names the node which sizing gave it gets no room made, and gets it as
// soon as sizing has given up: that is no wish of its owner's.
func TestSizedJobIsNoVeto(t *testing.T) {
	for _, sized := range []bool{true, false} {
		f, e, s, _ := newCluster()
		s.Jobs[2].Submit, s.Jobs[2].Eligible, s.Jobs[2].SiteFactorKnown = start, start, true
		on := fullDisk{f, *s}
		set := Settings{
			Order: order.Feature{Settings: order.Settings{Top: 2_000_000_000, Ranking: plan.Classes{User: plan.Budget{TimeLimit: time.Hour}}}}, Evictions: *e,
		}
		leave := func(h *cluster.History) int {
			result, _ := Step(t.Context(), on, on, h, set)
			return len(result.Room.Of(evict.ForTrial).Changes.Evictions)
		}
		h := cluster.NewHistory()
		if sized {
			h.Asked(slurmplug.Plain(9), slurmplug.Size, slurmplug.Size.Value("NumCPUs=1 ReqNodeList="), slurmplug.Size.Value("NumCPUs=2 ReqNodeList=n1"), true, s.At)
		}
		f.change(9, func(s *plan.JobStatus) { s.ReqNodes = "n1" })
		named := leave(h)
		f.change(9, func(s *plan.JobStatus) { s.ReqNodes = "" })
		if own := leave(cluster.NewHistory()); named != 0 || (own > 0) != sized {
			t.Errorf("sized %t: %d leave for one that names its node, %d later", sized, named, own)
		}
	}
}
