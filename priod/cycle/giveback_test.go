package cycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// measured is a Slurm with a job that runs and asked for 35000 MB, which says what was
// asked of it.
type measured struct {
	asked
	keeps string
	lost  error // of sstat
	asks  []string
}

func (m *measured) KeepsMemory() string { return m.keeps }
func (m *measured) AskMemory(_ context.Context, jobs []*cluster.Job) error {
	for _, j := range jobs {
		m.asks = append(m.asks, "how "+j.ID.String())
		if j.AskedMB = 35000; j.State == cluster.Pending {
			j.AskedMB = 5000
		}
	}
	return nil
}

func (m *measured) Peaks(_ context.Context, jobs []*cluster.Job) (map[cluster.JobID]int64, error) {
	peaks := map[cluster.JobID]int64{}
	for _, j := range jobs {
		m.asks = append(m.asks, "peak "+j.ID.String())
		peaks[j.ID] = 3000
	}
	return peaks, m.lost
}

func TestGiveBackInACycle(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(m *measured, set *Settings)
		asks, notes string
		writes      string
	}{
		"lowered":         {nil, "[how 2 peak 2]", "", "2=4024"},
		"another Slurm":   {func(m *measured, _ *Settings) { m.keeps = "too old" }, "[]", "sizing.give_back has no effect: too old", ""},
		"off":             {func(_ *measured, set *Settings) { set.Memory.GiveBack.Set(size.GiveBackSettings{}) }, "[]", "", ""},
		"paused":          {func(_ *measured, set *Settings) { set.Hold = "paused by ann" }, "[]", "", ""},
		"dry run":         {func(_ *measured, set *Settings) { set.DryRun = true }, "[how 2 peak 2]", "", "2=4024"},
		"sstat is silent": {func(m *measured, _ *Settings) { m.lost = errors.New("boom") }, "[how 2 peak 2]", "memory of running jobs: boom", "2=4024"},
		"another Slurm since, and it waits again": {func(m *measured, set *Settings) {
			m.keeps = "too old"
			m.snapshot.Jobs[1].State = cluster.Pending
		}, "[how 2]", "sizing.give_back has no effect: too old", "2=35000"},
	} {
		a, set := steerable()
		m := &measured{asked: *a}
		m.snapshot.Nodes[0].GPUsUsed, m.snapshot.Nodes[0].MemMB, m.snapshot.Nodes[0].MemUsedMB = 1, 40000, 35000
		m.snapshot.Jobs = append(m.snapshot.Jobs, cluster.Job{
			ID: slurmplug.Plain(2), RawID: 2, TaskCount: 1, User: "bob", Partition: "gpu", State: cluster.Running, Priority: 1, Nodes: 1, NodeList: "a100-1",
			GPUs: 1, GPUType: "a100", CPUs: 1, MemMB: 35000, Start: start.Add(-time.Hour), Submit: start.Add(-time.Hour), Tag: jobtag.Tag{GiveBack: true},
		})
		memory := &size.GiveBack{}
		memory.Set(size.GiveBackSettings{Enabled: true, After: time.Minute, Ranking: plan.Classes{}})
		set.Steering, set.Sizing, set.Memory = steer.Feature{}, size.Feature{}, size.MemoryFeature{GiveBack: memory, Slurm: m}
		h := cluster.NewHistory()
		if c.change != nil {
			c.change(m, &set)
		}
		if m.snapshot.Jobs[1].State == cluster.Pending {
			h.Asked(slurmplug.Plain(2), slurmplug.MinMemoryNode, slurmplug.Number(35000), slurmplug.Number(5000), true, start)
		}
		r, err := Step(t.Context(), m, m, h, set)
		if err != nil {
			t.Fatal(err)
		}
		writes := ""
		for _, x := range r.Plan.Actions {
			if x.Lever == slurmplug.MinMemoryNode {
				writes += x.Job.String() + "=" + x.After.String()
			}
		}
		if fmt.Sprint(m.asks) != c.asks || strings.Trim(fmt.Sprint(r.Plan.Notes), "[]") != c.notes || writes != c.writes {
			t.Errorf("%s: asked %v, wrote %q, notes %q", name, m.asks, writes, r.Plan.Notes)
		}
	}
}
