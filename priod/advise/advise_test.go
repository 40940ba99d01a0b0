package advise

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// small is a cluster of two nodes with 4 a100 and one with 4 v100, partition gpu.
func small() *Site {
	s := &cluster.Snapshot{At: now}
	for i, t := range []string{"a100", "a100", "v100"} {
		s.Nodes = append(s.Nodes, cluster.Node{
			Name: fmt.Sprintf("n%d", i), Usable: true, State: "IDLE", Features: []string{t, "ib"}, Partitions: []string{"gpu"},
			GPUType: t, GPUs: 4, CPUs: 16, MemMB: 64000,
		})
	}
	return &Site{
		Snapshot: s, Memory: true, Defaults: Defaults{PerCPU: 1000},
		Partitions: []slurmplug.Partition{{Name: "gpu", State: "UP", Default: true, PriorityTier: 1}},
	}
}

// run lets a job hold GPUs of one node since some time ago.
func (s *Site) run(node, gpus int, ago, limit time.Duration) *cluster.Job {
	n := &s.Snapshot.Nodes[node]
	n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUsUsed+gpus, n.CPUsUsed+gpus, n.MemUsedMB+int64(1000*gpus)
	return s.add(cluster.Job{State: cluster.Running, NodeList: n.Name, GPUs: gpus, CPUs: gpus, MemMB: int64(1000 * gpus), Start: now.Add(-ago), TimeLimit: limit})
}

// wait adds a job to the end of the queue.
func (s *Site) wait(gpus int, gpuType string, limit time.Duration) *cluster.Job {
	return s.add(cluster.Job{
		State: cluster.Pending, Reason: "Priority", Priority: int64(1_000_000 - len(s.Snapshot.Jobs)), GPUs: gpus, GPUType: gpuType,
		CPUs: gpus, MemMB: int64(1000 * gpus), TimeLimit: limit,
	})
}

func (s *Site) add(j cluster.Job) *cluster.Job {
	jobs := &s.Snapshot.Jobs
	j.ID, j.TaskCount, j.Partition, j.Nodes = slurmplug.Plain(uint32(len(*jobs)+1)), 1, "gpu", 1
	*jobs = append(*jobs, j)
	return &(*jobs)[len(*jobs)-1]
}

func ask(gpus int, limit time.Duration) *Request {
	return &Request{GPUs: gpus, Nodes: 1, CPUs: gpus, Limit: limit, Option: "gres", Value: fmt.Sprintf("gpu:%d", gpus)}
}

// speeds says how fast a100 and v100 are.
func speeds(a100, v100 float64) []speed.Answer {
	return []speed.Answer{{GPUType: "a100", Speed: a100, Source: speed.Tag, Factor: 1}, {GPUType: "v100", Speed: v100, Source: speed.Tag, Factor: 1}}
}

func noRate(string) (float64, bool) { return 0, false }

func give(t testing.TB, s *Site, r *Request, sp []speed.Answer) *Advice {
	t.Helper()
	a, err := Give(s, r, sp, noRate)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// summary writes "a100 600+300" for a start at 600 s and a run of 300 s.
func summary(a *Advice) string {
	var all []string
	for _, t := range a.Types {
		switch {
		case !t.Fits:
			all = append(all, t.GPUType+" no: "+t.Why)
		case !t.Start.Known():
			all = append(all, t.GPUType+" when: "+t.Why)
		default:
			all = append(all, fmt.Sprintf("%s %.0f+%.0f", t.GPUType, float64(t.Start), float64(t.Run)))
		}
	}
	return strings.Join(all, "; ")
}

func TestSchedule(t *testing.T) {
	const hour = time.Hour
	full := func(s *Site) { // a100 until 10 and 20 minutes from now, v100 free
		s.run(0, 4, 50*time.Minute, hour)
		s.run(1, 4, 40*time.Minute, hour)
	}
	for _, c := range []struct {
		name   string
		site   func(*Site)
		ask    func(*Request)
		speeds []speed.Answer
		want   string
		best   string
		typed  bool
	}{
		{name: "empty", want: "a100 0+1800; v100 0+3600", best: "a100", typed: true},
		{name: "the faster type is worth the wait", site: full, want: "a100 600+1800; v100 0+3600", best: "a100", typed: true},
		{name: "it is not", site: full, speeds: speeds(1, 0.9), want: "v100 0+3600; a100 600+3240", best: "v100"},
		{name: "equal", speeds: speeds(1, 1), want: "a100 0+3600; v100 0+3600", best: "a100"},
		{name: "behind one that waits", site: func(s *Site) { full(s); s.wait(4, "a100", 2*hour) }, want: "a100 1200+1800; v100 0+3600", best: "a100", typed: true},
		{name: "before one that waits for longer", site: func(s *Site) { full(s); s.wait(8, "a100", hour).Nodes = 2 },
			ask: func(r *Request) { r.Limit = 10 * time.Minute }, speeds: speeds(1, 1), want: "v100 0+600; a100 600+600", best: "v100"},
		{name: "no room beside the one before", site: func(s *Site) { full(s); s.wait(8, "a100", hour).Nodes = 2 },
			ask: func(r *Request) { r.Limit = 11 * time.Minute }, speeds: speeds(1, 1), want: "v100 0+660; a100 4800+660", best: "v100"},
		{name: "who waits for something else is no matter", site: func(s *Site) {
			full(s)
			s.wait(4, "a100", hour).Reason = "QOSMaxGRESPerUser"
			s.wait(4, "a100", hour).Dependency = true
			s.wait(4, "a100", hour).Priority = 0
			s.wait(4, "a100", hour).Reservation = "course"
			s.wait(4, "a100", hour).Reason = "BeginTime"
		}, want: "a100 600+1800; v100 0+3600", best: "a100", typed: true},
		{name: "an array of five", site: func(s *Site) { s.wait(4, "a100", hour).TaskCount = 5 }, want: "v100 0+3600; a100 7200+1800", best: "v100"},
		{name: "an array of five, one at a time", site: func(s *Site) { j := s.wait(4, "a100", hour); j.TaskCount, j.AtOnce = 5, 1 }, want: "a100 0+1800; v100 0+3600", best: "a100", typed: true},
		{name: "and of no end", site: func(s *Site) { j := s.wait(4, "a100", slurmplug.Unlimited); j.TaskCount, j.AtOnce = 5, 1 }, want: "a100 0+1800; v100 0+3600", best: "a100", typed: true},
		{name: "who has no limit never leaves", site: func(s *Site) {
			s.run(2, 4, hour, slurmplug.Unlimited)
		}, want: "a100 0+1800; v100 when: not before jobs end that have no time limit", best: "a100"},
		{name: "hidden jobs", site: func(s *Site) { s.Snapshot.Nodes[2].GPUsUsed = 4 }, want: "a100 0+1800; v100 when: not before jobs end that you may not see", best: "a100"},
		{name: "overdue", site: func(s *Site) { s.run(2, 4, 2*hour, hour) }, speeds: speeds(1, 1), want: "a100 0+3600; v100 0+3600", best: "a100"},
		{name: "typed", ask: func(r *Request) { r.GPUType = "v100" }, want: "v100 0+3600; a100 no: the job asks for v100", best: "v100"},
		{name: "feature", ask: func(r *Request) { r.Features = "ib&v100" }, want: "v100 0+3600; a100 no: none of its nodes has the features ib&v100", best: "v100"},
		{name: "any feature", ask: func(r *Request) { r.Features = "v100|a100" }, want: "a100 0+1800; v100 0+3600", best: "a100", typed: true},
		{name: "nodes", ask: func(r *Request) { r.On = []string{"n2"} }, want: "v100 0+3600; a100 no: --nodelist and --exclude leave none of its nodes", best: "v100"},
		{name: "without nodes", ask: func(r *Request) { r.Not = []string{"n2"} }, want: "a100 0+3600; v100 no: --nodelist and --exclude leave none of its nodes", best: "a100"},
		{name: "not there", speeds: speeds(1, 0), want: "a100 0+3600; v100 no: it does not run there, says the job's tag", best: "a100"},
		{name: "too many GPUs", ask: func(r *Request) { r.GPUs, r.Nodes = 8, 0 }, want: "a100 0+3600; v100 no: too large: 1 node there, of up to 4 GPUs, 16 CPUs, 64000 MB", best: "a100"},
		{name: "too much memory", ask: func(r *Request) { r.MemMB = 64001 },
			want: "a100 no: too large: 2 nodes there, of up to 4 GPUs, 16 CPUs, 64000 MB; v100 no: too large: 1 node there, of up to 4 GPUs, 16 CPUs, 64000 MB"},
		{name: "memory that is not handed out", site: func(s *Site) { s.Memory = false }, ask: func(r *Request) { r.MemMB = 64001 }, want: "a100 0+1800; v100 0+3600", best: "a100", typed: true},
		{name: "memory by default", site: func(s *Site) { s.run(2, 1, 30*time.Minute, hour); s.Defaults.PerCPU = 4000 },
			ask: func(r *Request) { r.CPUs = 15 }, speeds: speeds(0.5, 1), want: "v100 0+1800; a100 0+3600", best: "v100", typed: true},
		{name: "all memory by default", site: func(s *Site) { s.run(2, 1, 30*time.Minute, hour); s.Defaults.PerCPU = 0 },
			speeds: speeds(0.4, 1), want: "v100 1800+1440; a100 0+3600", best: "v100", typed: true},
		{name: "whole nodes", site: func(s *Site) { s.run(2, 1, 30*time.Minute, hour) }, ask: func(r *Request) { r.Whole = true },
			speeds: speeds(0.4, 1), want: "v100 1800+1440; a100 0+3600", best: "v100", typed: true},
		{name: "down", site: func(s *Site) { s.Snapshot.Nodes[2].Usable = false }, want: "a100 0+3600; v100 no: its nodes are down, drained or reserved", best: "a100"},
		{name: "other partition", site: func(s *Site) { s.Snapshot.Nodes[2].Partitions = []string{"x"} }, want: "a100 0+3600; v100 no: no node of partition gpu has it", best: "a100"},
		{name: "several types on a node", site: func(s *Site) { s.Snapshot.Nodes[2].MixedTypes = true }, want: "a100 0+3600; v100 no: no node of partition gpu has it", best: "a100"},
		{name: "no limit", ask: func(r *Request) { r.Limit = slurmplug.Unlimited }, want: "a100 0++Inf; v100 0++Inf", best: "a100"},
		{name: "the partition's limit", site: func(s *Site) { s.Partitions[0].DefaultTime = 10 * time.Minute }, ask: func(r *Request) { r.Limit = 0 }, want: "a100 0+300; v100 0+600", best: "a100", typed: true},
		{name: "not understood", ask: func(r *Request) { r.Features = "[v100*1&a100*2]" }, want: "a100 0+1800; v100 0+3600", best: "a100", typed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r, sp := small(), ask(1, hour), speeds(1, 0.5)
			if c.speeds != nil {
				sp = c.speeds
			}
			if c.site != nil {
				c.site(s)
			}
			if c.ask != nil {
				c.ask(r)
			}
			a := give(t, s, r, sp)
			if got := summary(a); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			best := ""
			if a.Best != nil {
				best = a.Best.GPUType
			}
			if best != c.best || a.Typed() != c.typed {
				t.Errorf("best is %q, typed %v; want %q, %v", best, a.Typed(), c.best, c.typed)
			}
			if _, err := json.Marshal(a); err != nil {
				t.Error(err)
			}
		})
	}
}

// A TE job ranks ahead of all but TE jobs, where priod ranks.
func TestTrialStandsBeforeOthers(t *testing.T) {
	s := small()
	for node := range 3 {
		s.run(node, 4, 50*time.Minute, time.Hour)
	}
	for range 3 {
		s.wait(4, "", time.Hour)
	}
	s.wait(4, "v100", 20*time.Minute).Tag.Type = "te"
	r := ask(1, time.Hour)
	r.Tag = jobtag.Tag{Type: "te"}
	if a := give(t, s, r, speeds(1, 1)); a.Behind != 4 || a.Best.Start != 600+3600 {
		t.Errorf("without priod behind %d: %s", a.Behind, summary(a))
	}
	s.Ranking = &plan.Classes{}
	if a := give(t, s, r, speeds(1, 1)); a.Behind != 1 || summary(a) != "a100 600+3600; v100 1800+3600" {
		t.Errorf("behind %d: %s", a.Behind, summary(a))
	}
	s.Partitions[0].PriorityTier = 2
	s.Partitions = append(s.Partitions, slurmplug.Partition{Name: "low", State: "UP", PriorityTier: 1})
	for i := range s.Snapshot.Jobs {
		s.Snapshot.Jobs[i].Partition = "low"
	}
	r.Tag.Type = "be"
	if a := give(t, s, r, speeds(1, 1)); a.Behind != 0 {
		t.Errorf("behind %d of a lower tier", a.Behind)
	}
}

// Steps and a rate say how long it runs; on a type of which only the speed is
// known, in proportion; where the limit is shorter, it does not fit.
func TestStepsAndRates(t *testing.T) {
	s, r := small(), ask(1, time.Hour)
	r.Tag.Steps = 9000
	for _, c := range []struct {
		rates map[string]float64
		want  string
	}{
		{map[string]float64{"a100": 10, "v100": 5}, "a100 0+900; v100 0+1800"},
		{map[string]float64{"v100": 5}, "a100 0+900; v100 0+1800"},
		{map[string]float64{"a100": 4}, "a100 0+2250; v100 no: its steps take 01:15:00 there, and the time limit is 01:00:00"},
		{nil, "a100 0+1800; v100 0+3600"},
	} {
		a, err := Give(s, r, speeds(1, 0.5), func(t string) (float64, bool) { v, ok := c.rates[t]; return v, ok })
		if err != nil || summary(a) != c.want {
			t.Errorf("%v: %v, %s; want %s", c.rates, err, summary(a), c.want)
		}
	}
}

// Of a list of partitions those count in which the job may start: that are up, and allow its time limit.
func TestPartitionsThatAJobMayStartIn(t *testing.T) {
	for _, c := range []struct {
		name  string
		a100  slurmplug.Partition
		limit time.Duration
		fits  string
	}{
		{"both", slurmplug.Partition{State: "UP", MaxTime: 2 * time.Hour}, time.Hour, "a100 v100"},
		{"too long for one", slurmplug.Partition{State: "UP", MaxTime: time.Hour}, 2 * time.Hour, "v100"},
		{"without a limit", slurmplug.Partition{State: "UP", MaxTime: time.Hour}, slurmplug.Unlimited, "v100"},
		{"one is down", slurmplug.Partition{State: "DOWN"}, time.Hour, "v100"},
		{"one takes no new jobs", slurmplug.Partition{State: "DRAIN"}, time.Hour, "v100"},
	} {
		s := small()
		for i := range s.Snapshot.Nodes {
			s.Snapshot.Nodes[i].Partitions = []string{s.Snapshot.Nodes[i].GPUType}
		}
		c.a100.Name = "a100"
		s.Partitions = []slurmplug.Partition{c.a100, {Name: "v100", State: "UP"}}
		r := ask(1, c.limit)
		r.Partitions = []string{"a100", "v100"}
		a := give(t, s, r, speeds(1, 1))
		var fits []string
		for _, x := range a.Types {
			if x.Fits {
				fits = append(fits, x.GPUType)
			}
		}
		slices.Sort(fits)
		other := s.wait(1, "", time.Hour)
		other.Partition = "a100"
		if a, want := give(t, s, r, speeds(1, 1)), strings.Count(c.fits, "a100"); a.Behind != want {
			t.Errorf("%s: behind %d, want %d: the other one waits for a100", c.name, a.Behind, want)
		}
		if got := strings.Join(fits, " "); got != c.fits || len(a.Notes) != len(a.Types)-len(fits) {
			t.Errorf("%s: fits %s, want %s; notes %q", c.name, got, c.fits, a.Notes)
		}
		if c.a100.State == "DRAIN" { // those that it has may start
			if r.Job = slurmplug.Plain(7); !give(t, s, r, speeds(1, 1)).Types[1].Fits {
				t.Errorf("%s: a job that waits does not fit", c.name)
			}
		}
	}
}

func TestWrongRequests(t *testing.T) {
	s := small()
	s.Partitions[0].MaxTime = time.Hour
	for want, change := range map[string]func(*Request){
		"there are gpu":             func(r *Request) { r.Partitions = []string{"\x1b[2J"} },
		"gpu allows 01:00:00":       func(r *Request) { r.Limit = 2 * time.Hour },
		"--time UNLIMITED: partiti": func(r *Request) { r.Limit = slurmplug.Unlimited },
	} {
		r := ask(1, time.Minute)
		change(r)
		if _, err := Give(s, r, speeds(1, 1), noRate); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v", want, err)
		}
	}
	s.Partitions[0].Default = false
	if _, err := Give(s, ask(1, 0), speeds(1, 1), noRate); err == nil || !strings.Contains(err.Error(), "name one by --partition") {
		t.Error(err)
	}
}

// More waiting jobs never let a new one start sooner, and no answer is before
// now; whatever is asked, the answers cover all types once.
func TestMoreJobsMeanNoSoonerStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := small()
		for node := range 3 {
			for used := 0; used < 4; {
				gpus := rapid.IntRange(1, 4-used).Draw(t, "gpus")
				if used += gpus; rapid.Bool().Draw(t, "runs") {
					s.run(node, gpus, time.Duration(rapid.IntRange(0, 59).Draw(t, "ago"))*time.Minute, time.Hour)
				}
			}
		}
		r := ask(rapid.IntRange(1, 4).Draw(t, "asked"), time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes"))*time.Minute)
		sp := speeds(1, rapid.SampledFrom([]float64{1, 0.5}).Draw(t, "speed"))
		before := map[string]Seconds{}
		for n := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			a, err := Give(s, r, sp, noRate)
			if err != nil || len(a.Types) != 2 || a.Behind != n {
				t.Fatal(err, a)
			}
			for _, x := range a.Types {
				if x.Start < before[x.GPUType] || math.IsNaN(float64(x.Start)) {
					t.Fatalf("%s at %v with %d jobs before it, and at %v with one fewer", x.GPUType, x.Start, n, before[x.GPUType])
				}
				before[x.GPUType] = x.Start
			}
			// typed and of one node each: nothing that comes before them changes their places
			s.wait(rapid.IntRange(1, 4).Draw(t, "gpus"), rapid.SampledFrom([]string{"a100", "v100"}).Draw(t, "type"), time.Duration(rapid.IntRange(1, 300).Draw(t, "limit"))*time.Minute)
		}
	})
}

// crowded is a site of many nodes, all full, and a long queue of jobs with so
// many different time limits.
func crowded(nodes, jobs, lengths int) *Site {
	s := &Site{Snapshot: &cluster.Snapshot{At: now}, Memory: true, Partitions: []slurmplug.Partition{{Name: "gpu", State: "UP", Default: true}}}
	for i := range nodes {
		t := []string{"a100", "v100", "t4"}[i%3]
		s.Snapshot.Nodes = append(s.Snapshot.Nodes, cluster.Node{Name: fmt.Sprintf("n%d", i), Usable: true, Features: []string{t}, Partitions: []string{"gpu"}, GPUType: t, GPUs: 4, CPUs: 64, MemMB: 512000})
		s.run(i, 4, time.Duration(i%59)*time.Minute, time.Hour)
	}
	for i := range jobs {
		j := s.wait([]int{1, 1, 2, 4, 8}[i%5], []string{"", "", "a100", "v100"}[i%4], time.Duration(60+i*7%lengths)*time.Minute)
		if j.GPUs == 8 {
			j.Nodes = 2
		}
	}
	return s
}

// A queue that is too long to plan is counted: every start is later than the
// GPU time that is wanted before it, and says that it is rough.
func TestLongQueueIsCounted(t *testing.T) {
	s := crowded(300, 10000, 5000)
	a := give(t, s, ask(1, time.Hour), []speed.Answer{{GPUType: "a100", Speed: 1}, {GPUType: "t4", Speed: 1}, {GPUType: "v100", Speed: 1}})
	wanted := 0.0
	for i := range s.Snapshot.Jobs {
		if j := &s.Snapshot.Jobs[i]; j.State == cluster.Pending {
			wanted += float64(j.GPUs) * j.TimeLimit.Seconds()
		}
	}
	for _, x := range a.Types {
		if !x.Rough || !x.Start.Known() || float64(x.Start) < 0.3*wanted/1200 || float64(x.Start) > 2*wanted/1200 {
			t.Errorf("%s: %v, %v; all GPUs are busy for %.0f s", x.GPUType, x.Start, x.Rough, wanted/1200)
		}
	}
}

func BenchmarkGive(b *testing.B) {
	for _, size := range []struct{ nodes, jobs, lengths int }{{30, 1000, 48}, {300, 10000, 48}, {300, 10000, 5000}, {300, 100000, 48}, {2000, 100000, 5000}} {
		b.Run(fmt.Sprintf("%dnodes/%djobs/%dlimits", size.nodes, size.jobs, size.lengths), func(b *testing.B) {
			s := crowded(size.nodes, size.jobs, size.lengths)
			sp := []speed.Answer{{GPUType: "a100", Speed: 1}, {GPUType: "t4", Speed: 0.3}, {GPUType: "v100", Speed: 0.5}}
			rough := false
			for b.Loop() {
				rough = give(b, s, ask(1, time.Hour), sp).Types[0].Rough
			}
			if rough {
				b.ReportMetric(1, "rough")
			}
		})
	}
}
