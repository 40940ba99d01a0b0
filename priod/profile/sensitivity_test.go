package profile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/profile/curve"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/sbatch"
)

// Whatever was measured, the tag and the workloads.toml entry are ones that
// priod reads, monotone, and 1 at the proportional share.
func TestWhatIsPrintedCanBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		curves := map[string]workload.Curve{}
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		var cache *curve.Cache
		if rapid.Bool().Draw(t, "model") {
			cache = &curve.Cache{
				DatasetMB: rapid.Float64Range(1, 1e7).Draw(t, "dataset"), EpochSteps: rapid.Float64Range(1, 1e6).Draw(t, "steps"),
				DiskMBps: rapid.Float64Range(1, 1e4).Draw(t, "disk"), WorkingMB: rapid.Float64Range(1, 1e6).Draw(t, "working"),
			}
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "types") {
			r := Result{
				Type:  Type{Name: fmt.Sprint("gpu", i), Share: rapid.Float64Range(0.5, 20).Draw(t, "share"), ShareMB: int64(rapid.IntRange(1, 1<<20).Draw(t, "mb"))},
				MemMB: int64(rapid.IntRange(0, 1<<20).Draw(t, "own")),
			}
			r.Type.MostMB = r.Type.ShareMB * 4
			for _, cpus := range rapid.SliceOfNDistinct(rapid.IntRange(1, 128), 1, 9, rapid.ID).Draw(t, "cpus") {
				r.Measured = append(r.Measured, curve.Point{CPUs: cpus, Rate: rapid.Float64Range(0.001, 1000).Draw(t, "rate")})
			}
			c := r.Curve(cache, gpus)
			for i := range c.Speed {
				if !slices.IsSorted(c.Speed[i]) || i > 0 && c.Speed[i][0] < c.Speed[i-1][0] {
					t.Fatalf("not monotone: %+v", c)
				}
			}
			if cache == nil {
				if one := c.Relative(r.Type.Share, float64(r.Type.ShareMB)); math.Abs(one-1) > 0.01 {
					t.Errorf("the proportional share has speed %v: %+v", one, c)
				}
			}
			if c.Best()*(1+curve.Plateau)*1.011 < c.Relative(1e9, 1e18) {
				t.Errorf("the demand of %+v gives %v", c, c.Best())
			}
			curves[r.Type.Name] = c
		}
		var text strings.Builder
		if err := workload.WriteTOML(&text, "measured", []workload.Workload{{Name: "train", Curves: curves}}); err != nil {
			t.Fatal(err)
		}
		table, err := workload.Parse("it", text.String())
		if err != nil {
			t.Fatalf("%v in\n%s", err, &text)
		}
		if diff := cmp.Diff(curves, table.All()[0].Curves); diff != "" {
			t.Errorf("read back (-written +read):\n%s", diff)
		}
		tag, err := jobtag.Encode(Tag(curves))
		if err != nil && !strings.Contains(err.Error(), "512") {
			t.Fatalf("%v of %+v", err, Tag(curves))
		}
		if err == nil {
			if _, err := jobtag.Parse(tag); err != nil {
				t.Errorf("%s: %v", tag, err)
			}
		}
	})
}

// m5 of Synergy: more memory makes it faster only where its CPUs keep up.
func TestMemoryComesFromTheModel(t *testing.T) {
	r := Result{Type: Type{Name: "v100", Share: 3, ShareMB: 62500, MostMB: 500000}, Measured: []curve.Point{{CPUs: 12, Rate: 2.5}, {CPUs: 1, Rate: 0.3}, {CPUs: 3, Rate: 1}}}
	// An epoch of 1000 steps reads 200 GB at 100 MB/s: half a step a second with nothing cached.
	c := r.Curve(&curve.Cache{DatasetMB: 200_000, EpochSteps: 1000, DiskMBps: 100, WorkingMB: 10_000}, 1)
	want := workload.Curve{IterationS: 1.48, DemandCPUs: 12, DemandMemMB: 210000, CPUs: []float64{1, 3, 12}, MemMB: []int64{10000, 60000, 110000, 160000, 210000},
		Speed: [][]float64{{0.443, 0.443, 0.443, 0.443, 0.443}, {0.738, 0.983, 1.48, 1.48, 1.48}, {0.738, 0.983, 1.48, 2.95, 3.69}}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	tag, err := jobtag.Encode(Tag(map[string]workload.Curve{"v100": c}))
	if want := "prio:cpu=v100:1x0.443-3x1.48-12x3.69&mem=v100:10000x0.738-60000x0.983-110000x1.48-160000x2.95-210000x3.69&v=1"; err != nil || tag != want {
		t.Errorf("tag %s, %v; want %s", tag, err, want)
	}
}

func resolve(t *testing.T, script string, env []string, args ...string) Script {
	t.Helper()
	g := sbatch.For(sbatch.Releases[0])
	cmd, err := g.ParseArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := g.Resolve(cmd, []byte(script), env)
	if err != nil {
		t.Fatal(err)
	}
	return Script{Job: jobs[0], Text: []byte(script)}
}

func TestArgumentsKeepWhereAndDropWhen(t *testing.T) {
	s := resolve(t, "#!/bin/bash\n#SBATCH --gres=gpu:2,nvme:1 --mem-per-cpu=2G -c 4 --time=2-0 --output=train.log\n#SBATCH -C 'fast&big'\ntrain\n",
		[]string{"SBATCH_ACCOUNT=physics"}, "-p", "gpu", "--exclusive", "--mail-type=ALL", "train.sh")
	if gpuType, n, err := s.GPUs(); gpuType != "" || n != 2 || err != nil {
		t.Errorf("%q, %d, %v", gpuType, n, err)
	}
	got, err := s.Arguments(Request{GPUType: "a100", CPUs: 24, Time: 90 * time.Second})
	want := []string{"--parsable", "--job-name=priod-profile", "--output=/dev/null", "--no-requeue", "--nodes=1", "--ntasks=1",
		"--account=physics", "--constraint=fast&big", "--exclusive", "--gres=gpu:a100:2,nvme:1", "--partition=gpu", "--mem=8192M",
		"--cpus-per-task=24", "--time=2", "--wrap=exec sleep 90"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestRequestsForGPUs(t *testing.T) {
	for _, c := range []struct {
		args    string
		gpuType string
		n       int
		err     string
		typed   string
	}{
		{args: "--gpus=2", n: 2, typed: "--gpus=t4:2"},
		{args: "-G a100:3", gpuType: "a100", n: 3, typed: "--gpus=t4:3"},
		{args: "--gpus-per-node=v100", gpuType: "v100", n: 1, typed: "--gpus-per-node=t4:1"},
		{args: "--gres=gpu", n: 1, typed: "--gres=gpu:t4:1"},
		{args: "--gres=gpu:1 --gpus-per-task=1 -n 1 -N 1", n: 1, typed: "--gpus-per-task=t4:1"},
		{args: "-N1-1 --gres=nvme:1", err: "requests no GPU"},
		{args: "", err: "requests no GPU"},
		{args: "--gres=gpu:a100:1,gpu:t4:1", err: "several GPU types"},
		{args: "--gpus=a100:1,t4:1", err: "want one GPU type"},
		{args: "--gres=gpu:1 -N 2", err: "--nodes=2: a profile is that of one node"},
		{args: "--gres=gpu:1 -n 4", err: "--ntasks=4: a profile runs one task"},
		{args: "--gres=gpu:1 --array=1-9", err: "--array: profile one of its tasks"},
		{args: "--gres=gpu:x:y:z", err: "--gres: GRES"},
	} {
		s := resolve(t, "#!/bin/sh\n", nil, strings.Fields(c.args+" train.sh")...)
		gpuType, n, err := s.GPUs()
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.args, err, c.err)
			}
			continue
		}
		if err != nil || gpuType != c.gpuType || n != c.n {
			t.Errorf("%s: %q, %d, %v", c.args, gpuType, n, err)
		}
		if args, err := s.Arguments(Request{GPUType: "t4", CPUs: 1, Time: time.Minute}); err != nil || !slices.Contains(args, c.typed) {
			t.Errorf("%s: %v, %v", c.args, args, err)
		}
	}
}

func TestInterpreter(t *testing.T) {
	for text, want := range map[string][]string{
		"#!/bin/bash\nx":                {"/bin/bash"},
		"#! /usr/bin/env  python3 -u\n": {"/usr/bin/env", "python3 -u"},
		"#!/bin/sh -e":                  {"/bin/sh", "-e"},
		"echo":                          nil,
		"#!\n":                          nil,
	} {
		got, err := (&Script{Text: []byte(text)}).interpreter()
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestLines(t *testing.T) {
	var got []string
	lines(strings.NewReader("a\rb\n\n"+strings.Repeat("x", 2*longest)+"\nc"), func(s string) { got = append(got, s) })
	if len(got) != 5 || got[0] != "a" || got[1] != "b" || len(got[3]) != longest || got[4] != "c" {
		t.Errorf("%d lines", len(got))
	}
}

func offers(t *testing.T, gpus int) []Offer {
	t.Helper()
	node := func(name, gpuType string, has, used, cpus, taken int) cluster.Node {
		return cluster.Node{Name: name, Usable: true, Partitions: []string{"gpu"}, CPUs: cpus, CPUsUsed: taken, MemMB: 500000, GPUType: gpuType, GPUs: has, GPUsUsed: used}
	}
	drained, reserved := node("a2", "a100", 8, 0, 128, 0), node("a3", "a100", 8, 0, 128, 0)
	drained.Usable, reserved.State = false, "IDLE+RESERVED"
	mixed := node("m1", "a100", 4, 0, 16, 0)
	mixed.MixedTypes = true
	return Offers([]cluster.Node{
		node("v1", "v100", 8, 8, 24, 24), node("v2", "v100", 8, 2, 24, 12), node("a1", "a100", 4, 0, 64, 0),
		drained, reserved, node("u1", "", 4, 0, 16, 0), mixed, node("c1", "", 0, 0, 128, 0),
	}, []string{"gpu"}, gpus)
}

func TestChoose(t *testing.T) {
	types, err := Choose(offers(t, 1), nil, nil, 1)
	want := []Type{
		{Name: "a100", Share: 16, ShareMB: 125000, MostMB: 500000, Candidates: curve.Candidates(64, 16)},
		{Name: "v100", Share: 3, ShareMB: 62500, MostMB: 500000, Candidates: []int{1, 2, 3, 4, 6, 8, 12}},
	}
	if diff := cmp.Diff(want, types); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if types, err := Choose(offers(t, 4), []string{"v100"}, nil, 4); err != nil || !slices.Equal(types[0].Candidates, []int{1, 2, 3}) {
		t.Errorf("half a node with 12 CPUs free: %+v, %v", types, err)
	}
	if types, err := Choose(offers(t, 8), nil, nil, 8); err != nil || len(types) != 1 || types[0].Name != "v100" {
		t.Errorf("8 GPUs: %+v, %v", types, err)
	}
	for _, c := range []struct {
		offers []Offer
		names  []string
		cpus   []int
		gpus   int
		want   string
	}{
		{offers(t, 1), []string{"h100"}, nil, 1, `GPU type "h100": no node that is up has it; there are a100, v100`},
		{offers(t, 1), []string{"v100", "v100"}, nil, 1, "stands twice"},
		{offers(t, 8), []string{"a100"}, nil, 8, "no node has 8 of them; the largest has 4"},
		{offers(t, 9), nil, nil, 9, "no node has 9 GPUs of one type"},
		{offers(t, 2), []string{"v100"}, []int{3, 13}, 2, "--cpus 13 for each of 2 GPUs: no v100 node has so many; at most 12"},
		{nil, nil, nil, 1, "no node that is up has GPUs of a type that Slurm knows"},
	} {
		if _, err := Choose(c.offers, c.names, c.cpus, c.gpus); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: error %v, want %q", c.names, c.cpus, err, c.want)
		}
	}
}

func TestEnvironmentOfAnotherJobStaysOutside(t *testing.T) {
	got := without([]string{"SLURM_JOB_ID=1", "SLURM_CONF=/x", "HOME=/h", "SRUN_DEBUG=1", "SLURMD=1"}, "SLURM_", "SRUN_")
	if want := []string{"SLURM_CONF=/x", "HOME=/h", "SLURMD=1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
