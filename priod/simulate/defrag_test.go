package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/trace"
)

// fragmented are jobs of one GPU that run for hours, and gangs of whole nodes of four that
// run for less, under so much load.
func fragmented(seed uint64, jobs, gpus int, load float64) []trace.Job {
	r := rand.New(rand.NewPCG(seed, 0x64656672))
	all, work, at := make([]trace.Job, jobs), 0.0, 0.0
	for i := range all {
		j := trace.Job{ID: fmt.Sprint(i), GPUs: 1, Duration: 3600 * float64(1+r.IntN(24)), User: fmt.Sprint("u", i%5), Account: "a", Weight: 1, Deadline: trace.NoDeadline, Class: cluster.BE}
		if r.IntN(4) == 0 {
			j.GPUs, j.Duration = 4*(1+r.IntN(4)), 3600
		}
		all[i] = j
		work += j.Duration * float64(j.GPUs)
	}
	for i := range all {
		all[i].Submit = float64(int(at))
		at += r.ExpFloat64() * work / (load * float64(gpus) * float64(jobs))
	}
	return all
}

// With small jobs that move, gangs wait less; nobody is evicted twice, gangs never, and all
// jobs are done.
func TestDefragmentation(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 16, GPUType: "gpu", GPUs: 4}}}
	var waits, other [2]float64
	moved := 0
	for seed := range uint64(3) {
		all := fragmented(seed, 600, c.TotalGPUs(), 0.75)
		for i, toml := range []string{"", "[preemption]\ndefrag = true\nmax_per_hour = 6\n"} {
			spec := Spec{Order: "priod", SlurmOrder: "fifo", Backfill: "easy", Placement: "consolidated", Overheads: Overheads{Grace: 30, Requeue: 121, Checkpoint: 600, Restart: 60}}
			if err := spec.Check(); err != nil {
				t.Fatal(err)
			}
			r, err := Run(context.Background(), spec, Input{Cluster: c, Jobs: trace.Each(all), Config: configured(t, "[cycle]\ninterval = \"30s\"\n"+toml)})
			if err != nil {
				t.Fatal(err)
			}
			for k, o := range r.Outcomes {
				wait := o.Start - r.Jobs[k].Submit
				if r.Jobs[k].GPUs >= 4 {
					waits[i] += wait
				} else {
					other[i] += o.End - r.Jobs[k].Submit
				}
				moved += int(o.Preemptions)
				if !o.Done || o.Preemptions > 1 || o.Preemptions > 0 && (i == 0 || r.Jobs[k].GPUs >= 4) {
					t.Errorf("seed %d: %+v became %+v", seed, r.Jobs[k], o)
				}
			}
		}
	}
	t.Logf("gangs waited %.0f s, with small jobs that move %.0f s; %d moved; small jobs were in the system %.0f s, then %.0f s", waits[0], waits[1], moved, other[0], other[1])
	if moved == 0 || waits[1] >= waits[0] {
		t.Errorf("gangs waited %.0f s, with %d that move %.0f s", waits[0], moved, waits[1])
	}
}
