package live

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// accounting answers as Slurm would, for two days.
type accounting struct {
	t     *testing.T
	asked int
}

func (a *accounting) Run(_ context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	args, end := strings.Join(cmd.Args, " "), ""
	for _, arg := range cmd.Args {
		if sep, is := strings.CutPrefix(arg, "--delimiter="); is {
			end = sep
		}
	}
	row := func(f ...string) string { return strings.Join(f, end) + end + "\n" }
	var out string
	switch {
	case cmd.Name == "scontrol":
		out = "NodeName=a CPUAlloc=0 CPUEfctv=24 CPUTot=24 Gres=gpu:a100:8 RealMemory=80000 AllocMem=0 State=IDLE\n\n" +
			"NodeName=b CPUAlloc=0 CPUEfctv=16 CPUTot=16 Gres=gpu:a100:8 RealMemory=160000 AllocMem=0 State=IDLE\n\n"
	case strings.Contains(args, "TotalCPU"):
		a.asked++
		if a.asked > 2 {
			a.t.Errorf("asked for a third day: %s", args)
		}
		out = row("7", "1000", "4600", "", "", "1", "", "", "") + row("7.batch", "1000", "4600", "02:00:00", "", "1", "1", "mem=4G", "gres/gpuutil=50")
		if a.asked == 2 { // a day's end belongs to two days
			out += row("8", "2000", "2600", "", "", "2", "", "", "") + row("8.0", "2000", "2600", "00:10.000", "1G", "2", "2", "", "mem=1G")
		}
	default:
		run := func(id, start, end, name, tres, comment string) string {
			return row(id, id, "ann", "lab", "gpu", "be", "COMPLETED", "0:0", "900", "900", start, end, "60", tres, "a", name, tres, comment)
		}
		out = run("7", "1000", "4600", "train", "cpu=4,mem=8G,gres/gpu=1", "prio:v=1&workload=lm my words") +
			run("9", "1000", "4600", "train", "cpu=4", "") + run("8", "1500", "1600", "train", "cpu=4", "") +
			run("8", "2000", "2600", "other", "cpu=8,gres/gpu=4,gres/gpu:old=4", "prio:nonsense")
	}
	return slurmplug.Output{Stdout: []byte(out)}, nil
}

func TestUsed(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	c := New(slurmplug.NewClient(&accounting{t: t}, slurmplug.Options{}))
	used, err := c.Used(t.Context(), now.Add(-30*time.Hour), now, func(gpuType string) string {
		if gpuType == "old" {
			return "a100"
		}
		return gpuType
	})
	stay := func(id uint32, name, tag string, gpus int, start, end int64) cluster.PastStay {
		return cluster.PastStay{RawID: id, Name: name, QOS: "be", NodeList: "a", State: "COMPLETED", Tag: jobtag.Read(tag), Limit: time.Hour, Submit: time.Unix(900, 0), Eligible: time.Unix(900, 0), Stay: cluster.Stay{
			Job: slurmplug.Plain(id), Start: time.Unix(start, 0), End: time.Unix(end, 0), Closed: true, GPUType: "a100", GPUs: gpus, User: "ann", Account: "lab",
		}}
	}
	half := 50.0
	want := &Used{
		Stays: []sensitivity.Stay{
			{PastStay: stay(7, "train", "prio:v=1&workload=lm", 1, 1000, 4600), CPUs: 4, MemMB: 8192, Nodes: 1, CPUSeconds: 7200, NodeMB: 4096, GPUUse: &half},
			{PastStay: stay(8, "other", "prio:nonsense", 4, 2000, 2600), CPUs: 8, Nodes: 2, CPUSeconds: 10, NodeMB: 1024},
		},
		Shares: map[string]sensitivity.Share{"a100": {CPUs: 2, MemMB: 10000}},
	}
	if d := cmp.Diff(want, used); d != "" || err != nil {
		t.Error(err, d)
	}
	// Two GPUs of four on each node: a quarter of what both nodes used.
	past := sensitivity.Learn(used.Stays, time.Minute)
	if u := past[sensitivity.Key{User: "ann", Name: "other", GPUType: "a100"}]; u.RSSMB != 512 {
		t.Errorf("%+v", u)
	}
	if l := past.All(); len(l) != 3 || l[0].Workload != "lm" || l[1].Name != "other" || l[2].Name != "train" {
		t.Errorf("%+v", l)
	}
}
