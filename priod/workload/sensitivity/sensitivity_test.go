package sensitivity

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
)

var fair = Share{CPUs: 3, MemMB: 64000}

func defaults(t *testing.T) *workload.Table {
	t.Helper()
	table, err := workload.Default()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func tag(t *testing.T, text string) *jobtag.Tag {
	t.Helper()
	parsed, err := jobtag.Parse("prio:" + text + "&v=1")
	if err != nil {
		t.Fatal(err)
	}
	return &parsed
}

// hour is an hour on GPUs of type v100.
func hour(user, name, tag string, gpus int) cluster.PastStay {
	end := time.Unix(1_000_000_000, 0)
	return cluster.PastStay{Name: name, Tag: jobtag.Read(tag), Stay: cluster.Stay{Start: end.Add(-time.Hour), End: end, GPUType: "v100", GPUs: gpus, User: user}}
}

// The tag counts before the workload, that before accounting, that before
// nothing; and what was passed over is said.
func TestWhereItIsKnownFrom(t *testing.T) {
	table := defaults(t)
	past := Learn([]Stay{
		{PastStay: hour("ada", "train", "", 1), CPUs: 8, CPUSeconds: 5400, NodeMB: 10000},
		{PastStay: hour("bob", "other", "prio:v=1&workload=mine", 2), CPUs: 8, CPUSeconds: 28800},
	}, 0)
	for _, c := range []struct {
		tag, gpuType string
		why          string
		notes        string
	}{
		{"cpu=v100:1x0.5-3x1&workload=res18", "v100", "its tag's cpu", ""},
		{"mem=v100:1000x0.5-64000x1", "v100", "its tag's mem", ""},
		{"cpu=a100:1x0.5-3x1&workload=res18", "v100", "workload res18 of workloads.toml", "its tag's cpu says nothing about v100"},
		{"cpu=v100:1x0.5-3x1-9x0.9&workload=res18", "v100", "workload res18 of workloads.toml", "falls from 1 to 0.9 at 9: not used"},
		{"cpu=v100:1x1-3x0.9&mem=v100:1000x1-2000x2", "v100", "its tag's mem", "its tag's cpu for v100 falls"},
		{"workload=res18", "a100", "unknown on a100", "no curve of workload res18 on a100"},
		{"workload=nobodys", "v100", `1 run of user ada named "train" on v100 used at most 1.5 CPUs and 10000 MB for each GPU; too few`, `"nobodys" is not in workloads.toml`},
		{"workload=mine", "v100", "1 run of workload mine on v100 used at most 4 CPUs for each GPU", "not in workloads.toml"},
		{"type=be", "v100", "named \"train\"", ""},
		{"type=be", "a100", "it gets its share", ""},
	} {
		s := Of(Job{User: "ada", Name: "train", Tag: tag(t, c.tag)}, c.gpuType, fair, table, past)
		notes := strings.Join(s.Notes, "; ")
		if !strings.Contains(s.Why, c.why) || !strings.Contains(notes, c.notes) || (c.notes == "") != (notes == "") {
			t.Errorf("%s on %s: %q, notes %q", c.tag, c.gpuType, s.Why, notes)
		}
		if (s.Curve == nil) != strings.HasSuffix(s.Why, "it gets its share") {
			t.Errorf("%s on %s: %q with curve %v", c.tag, c.gpuType, s.Why, s.Curve)
		}
	}
}

func TestCurveOfATag(t *testing.T) {
	s := Of(Job{Tag: tag(t, "cpu=v100:1x0.6-3x2-12x6-24x6&mem=v100:16000x1-64000x4-128000x5")}, "v100", fair, nil, nil)
	want := &workload.Curve{IterationS: 1, DemandCPUs: 12, DemandMemMB: 128000, CPUs: []float64{1, 3, 12, 24}, MemMB: []int64{16000, 64000, 128000},
		Speed: [][]float64{{0.3, 0.3, 0.3}, {0.5, 1, 1}, {0.5, 2, 2.5}, {0.5, 2, 2.5}}}
	if diff := cmp.Diff(want, s.Curve); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Only CPUs are said: memory is that of the share, and holds nothing up.
	s = Of(Job{Tag: tag(t, "cpu=v100:1x1")}, "v100", fair, nil, nil)
	want = &workload.Curve{IterationS: 1, DemandCPUs: 1, DemandMemMB: 64000, CPUs: []float64{1}, MemMB: []int64{64000}, Speed: [][]float64{{1}}}
	if diff := cmp.Diff(want, s.Curve); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a tag says that cannot be meant: passed over with a note, or met as far as
// it can be.
func TestTagsThatCannotBeMeant(t *testing.T) {
	for _, c := range []struct {
		name, tag       string
		cpus, mem, best float64 // demanded, and speed with it; cpus 0: not used
		note            string
	}{
		{"falls", "cpu=v100:1x1-3x0.5", 0, 0, 0, "falls from 1 to 0.5 at 3: not used"},
		{"falls after it rose", "mem=v100:1000x1-2000x2-4000x1.9", 0, 0, 0, "falls from 2 to 1.9 at 4000: not used"},
		{"speaks of types that are not here", "cpu=h100:1x1-8x2,b200:1x1&mem=h100:1000x1", 0, 0, 0, "its tag's cpu says nothing about v100"},
		{"contradicts itself: memory holds it where CPUs do not", "cpu=v100:3x1-12x4&mem=v100:64000x1", 3, 64000, 1, ""},
		{"begins above the node", "cpu=v100:64x1-128x2", 128, 64000, 2, ""},
		{"is one point", "cpu=v100:2x1", 2, 64000, 1, ""},
	} {
		s := Of(Job{Tag: tag(t, c.tag)}, "v100", fair, nil, nil)
		if notes := strings.Join(s.Notes, "; "); !strings.Contains(notes, c.note) || (c.note == "") != (notes == "") {
			t.Errorf("%s: notes %q", c.name, notes)
		}
		switch {
		case c.cpus == 0 && s.Curve != nil:
			t.Errorf("%s: used: %+v", c.name, s)
		case c.cpus > 0 && (s.Curve == nil || s.Curve.DemandCPUs != c.cpus || float64(s.Curve.DemandMemMB) != c.mem || math.Abs(s.Curve.Best()-c.best) > 1e-9):
			t.Errorf("%s: %+v", c.name, s.Curve)
		}
	}
}

// check holds what every curve keeps, whatever users wrote and runs did.
func check(t *rapid.T, c *workload.Curve, share Share) {
	t.Helper()
	var text strings.Builder
	if err := workload.WriteTOML(&text, "", []workload.Workload{{Name: "x", Curves: map[string]workload.Curve{"v100": *c}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := workload.Parse("it", text.String()); err != nil {
		t.Fatalf("%v: %+v", err, c)
	}
	if one := c.Relative(share.CPUs, share.MemMB); math.Abs(one-1) > 1e-9 {
		t.Errorf("the share gives %v: %+v", one, c)
	}
	for i := range c.Speed {
		for j := range c.Speed[i] {
			if i > 0 && c.Speed[i][j] < c.Speed[i-1][j] || j > 0 && c.Speed[i][j] < c.Speed[i][j-1] {
				t.Fatalf("falls: %+v", c)
			}
		}
	}
	if more := c.Relative(1e12, 1e18); more > c.Best()*(1+1e-9) {
		t.Errorf("%v with everything and %v with the demand: %+v", more, c.Best(), c)
	}
}

func share(t *rapid.T) Share {
	return Share{CPUs: rapid.Float64Range(0.25, 64).Draw(t, "cpus"), MemMB: rapid.Float64Range(1, 1e6).Draw(t, "mb")}
}

func TestEveryTagGivesAUsableCurve(t *testing.T) {
	curve := rapid.Custom(func(t *rapid.T) jobtag.Curve {
		var c jobtag.Curve
		amount := 0.0
		for range rapid.IntRange(1, 6).Draw(t, "points") {
			amount += rapid.Float64Range(0.01, 1e5).Draw(t, "more")
			c = append(c, jobtag.Point{Amount: amount, Speed: rapid.SampledFrom([]float64{0.1, 0.5, 1, 1, 2, 50}).Draw(t, "speed")})
		}
		return c
	})
	table, err := workload.Default()
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	rapid.Check(t, func(t *rapid.T) {
		var said jobtag.Tag
		if rapid.Bool().Draw(t, "cpu") {
			said.CPU = map[string]jobtag.Curve{"v100": curve.Draw(t, "curve")}
		}
		if rapid.Bool().Draw(t, "mem") {
			said.Mem = map[string]jobtag.Curve{"v100": curve.Draw(t, "curve")}
		}
		share := share(t)
		s := Of(Job{Tag: &said}, "v100", share, table, nil)
		if s.Curve != nil {
			used++
			check(t, s.Curve, share)
		} else if len(said.CPU)+len(said.Mem) > 0 && len(s.Notes) == 0 {
			t.Errorf("%+v of %+v", s, said)
		}
	})
	if used == 0 {
		t.Error("no tag was used")
	}
}

// What a program had is what its run had that used most, of CPUs and of memory each.
func TestHadIsOfTheHungriestRun(t *testing.T) {
	run := func(cpus int, used time.Duration, memMB, nodeMB int64) Stay {
		return Stay{PastStay: hour("ada", "train", "", 2), CPUs: cpus, MemMB: memMB, CPUSeconds: used.Seconds(), NodeMB: nodeMB}
	}
	past := Learn([]Stay{run(8, 3*time.Hour, 90000, 1000), run(4, 4*time.Hour, 50000, 900), run(40, 2*time.Hour, 20000, 4000)}, 0)
	if u := past[Key{User: "ada", Name: "train", GPUType: "v100"}]; u != (Usage{Runs: 3, Cores: 2, Had: 2, RSSMB: 2000, HadMB: 10000}) {
		t.Errorf("%+v", u)
	}
}

// Accounting never takes a job below what it was seen to use, nor below its share
// after few runs, and promises no more than a third and what whole CPUs make of it.
func TestAccountingIsCautious(t *testing.T) {
	table, err := workload.Default()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		share := share(t)
		n := rapid.IntRange(1, 5).Draw(t, "runs")
		var all []Stay
		mostCores, mostMB := 0.0, 0.0
		for range n {
			r := Stay{PastStay: hour("ada", "train", "", rapid.IntRange(1, 8).Draw(t, "gpus")), CPUs: rapid.IntRange(1, 128).Draw(t, "cpus"),
				CPUSeconds: float64(rapid.IntRange(1, 200*3600).Draw(t, "used")), NodeMB: int64(rapid.IntRange(0, 1<<20).Draw(t, "rss"))}
			all = append(all, r)
			mostCores = max(mostCores, min(r.CPUSeconds/3600, float64(r.CPUs))/float64(r.GPUs))
			mostMB = max(mostMB, float64(r.NodeMB)/float64(r.GPUs))
		}
		s := Of(Job{User: "ada", Name: "train", Tag: &jobtag.Tag{}}, "v100", share, table, Learn(all, 5*time.Minute))
		if s.Curve == nil {
			t.Fatalf("%+v", s)
		}
		c := s.Curve
		check(t, c, share)
		if c.DemandCPUs < mostCores || float64(c.DemandMemMB) < mostMB {
			t.Errorf("used %v CPUs and %v MB, demands %v and %v", mostCores, mostMB, c.DemandCPUs, c.DemandMemMB)
		}
		if n < enoughRuns && (c.DemandCPUs < share.CPUs || float64(c.DemandMemMB) < math.Floor(share.MemMB)) {
			t.Errorf("%d runs took it below its share: %+v", n, c)
		}
		if had := c.Relative(mostCores, 1e18); c.Best() > had*max(cpuReserve*mostCores+1, share.CPUs)/mostCores*(1+1e-9) {
			t.Errorf("promises %v times the speed", c.Best()/had)
		}
	})
}

func TestAccountingOfOneKindOfRun(t *testing.T) {
	run := Stay{PastStay: hour("ada", "train", "", 2), CPUs: 12, CPUSeconds: 14400, NodeMB: 20000}
	bound := run
	bound.CPUSeconds = 12 * 3600
	for _, c := range []struct {
		run    Stay
		demand float64
		six    float64 // speed with 6 CPUs relative to 3
		why    string
	}{{run, 3, 1, "3 runs of user ada named \"train\" on v100 used at most 2 CPUs and 10000 MB for each GPU"}, {bound, 8, 2, "used at most 6 CPUs and 10000 MB for each GPU, all of its CPUs"}} {
		s := Of(Job{User: "ada", Name: "train", Tag: &jobtag.Tag{}}, "v100", fair, defaults(t), Learn([]Stay{c.run, c.run, c.run}, time.Minute))
		if got := s.Curve.Relative(6, 64000); s.Curve.DemandCPUs != c.demand || s.Curve.DemandMemMB != 12000 || math.Abs(got-c.six) > 1e-9 || !strings.Contains(s.Why, c.why) {
			t.Errorf("%+v, speed %v, %s", s.Curve, got, s.Why)
		}
	}
	short, idle, cpuOnly := run, run, run
	short.End, idle.CPUSeconds, cpuOnly.GPUs = short.Start.Add(time.Minute), 0, 0
	if past := Learn([]Stay{short, idle, cpuOnly}, 5*time.Minute); len(past) > 0 {
		t.Errorf("learnt %v of nothing", past)
	}
}
