package lives

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/slurmplug"
)

// lists lets two priods start in some cycles: one sees the queue as it is, the other jobs that also name a partition without
// nodes, before or behind their own.
type lists struct {
	*observer
	listed int
}

func (l *lists) Observed(ctx context.Context, s *cluster.Snapshot, stays func() []cluster.Stay) {
	l.weather.nodes, l.weather.at = s.Nodes, s.At
	named := *s
	named.Jobs = slices.Clone(s.Jobs)
	listed := 0
	for i := range named.Jobs {
		j := &named.Jobs[i]
		if j.State != cluster.Pending || slurmplug.WaitsFor(j.Reason) == slurmplug.Forever { // that one holds for one partition of several
			continue
		}
		switch l.rand.IntN(3) {
		case 0:
			j.Partition += ",nowhere"
			listed++
		case 1:
			j.Partition = "nowhere," + j.Partition
			listed++
		}
	}
	if listed > 0 && l.rand.IntN(2) == 0 {
		l.compareWith(ctx, s, &named)
		l.compared, l.listed = l.compared+1, l.listed+listed
	}
	l.Store.Observed(ctx, s, stays)
}

func (l *lists) compareWith(ctx context.Context, s, named *cluster.Snapshot) {
	alone, several := l.restarted(ctx, s), l.restarted(ctx, named)
	if diff := cmp.Diff(choicesOf(alone, true), choicesOf(several, true), cmpopts.EquateEmpty()); diff != "" {
		l.t.Errorf("%s: where jobs also name a partition without nodes, priod plans otherwise (+):\n%s", s.At.Format("15:04:05"), diff)
	}
	for i := range s.Jobs {
		if a, b := alone.Shares.Jobs.Get(s.Jobs[i].ID), several.Shares.Jobs.Get(s.Jobs[i].ID); a != nil && (b == nil || !slices.Equal(a.Time, b.Time)) {
			l.t.Errorf("%s: job %s is allocated %+v, and %+v where it also names a partition without nodes", s.At.Format("15:04:05"), s.Jobs[i].ID, a, b)
		}
	}
}

func (l *lists) Planned(ctx context.Context, seen plan.Seen) error { return l.Store.Planned(ctx, seen) }

// A partition is one name of a list: a job that also names a partition without nodes is ranked, steered, sized and given room as
// if it did not.
func TestPartitionIsOneOfAList(t *testing.T) {
	l := &lists{observer: &observer{t: t, rand: rand.New(rand.NewPCG(5, 1))}}
	l.live(5, 30, func(s cycle.Slurm) virtual.Recorder { l.slurm = s; return l })
	t.Logf("%d plans, %d lists", l.compared, l.listed)
	if l.compared == 0 {
		t.Error("no plan was compared")
	}
}
