package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// One sample for each minute counts GPUs, jobs and the longest cycle since the last one, in the store and in the metrics.
func TestSample(t *testing.T) {
	f := &fake{}
	d, _ := newDaemon(t, f)
	turn(t, d)
	d.sampling.finish()
	f.samples, d.sampling = nil, sampling{}
	te, err := jobtag.Parse("prio:type=te&v=1")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	r := &cycle.Result{Snapshot: cluster.Snapshot{At: at, Nodes: []cluster.Node{
		{Name: "n1", Usable: true, GPUType: "a100", GPUs: 8, GPUsUsed: 6, CPUs: 8, CPUsUsed: 8}, {Name: "n2", Usable: true, GPUType: "a100", GPUs: 8, CPUs: 8}, {Name: "n3", GPUs: 4, GPUsUsed: 5},
	}, Jobs: []cluster.Job{
		{ID: slurmplug.Plain(1), State: cluster.Running}, {ID: slurmplug.Plain(2), State: cluster.Pending, Tag: te, TagText: "prio:type=te&v=1"},
		{ID: slurmplug.Plain(3), State: cluster.Pending, TaskCount: 5},
	}}}
	d.sample(t.Context(), r, time.Second)
	d.sample(t.Context(), r, 3*time.Second)
	d.sampling.finish()
	if len(f.samples) != 1 {
		t.Fatalf("%d samples within a minute", len(f.samples))
	}
	x := f.samples[0]
	if !x.At.Equal(at) || x.GPUs != 20 || x.InUse != 10 || x.Stranded != 2 || x.Running != 1 || x.WaitingTE+x.WaitingBE != 6 || x.TookS != 1 {
		t.Errorf("%+v", x)
	}
	d.sampling.next = time.Time{}
	d.sample(t.Context(), r, time.Second)
	d.sampling.finish()
	if len(f.samples) != 2 || f.samples[1].TookS != 3 {
		t.Errorf("%+v", f.samples)
	}
	var lines []string
	for _, family := range families(t, d) {
		if family.GetName() == "priod_gpus" {
			for _, m := range family.GetMetric() {
				if m.GetGauge().GetValue() > 0 {
					lines = append(lines, m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()+" "+strings.TrimSuffix(time.Duration(m.GetGauge().GetValue()*1e9).String(), "s"))
				}
			}
		}
	}
	slices.Sort(lines)
	if got := strings.Join(lines, ", "); got != " in_use 4, a100 free 8, a100 in_use 6, a100 stranded 2" {
		t.Error(got)
	}
}
