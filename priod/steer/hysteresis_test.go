package steer

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// oneOfEach is a testCluster with a node of each type.
func oneOfEach() *testCluster {
	p := newTestCluster()
	for _, gpuType := range p.shares.Types {
		p.node(gpuType+"-1", gpuType, gpuType)
	}
	return p
}

// Whatever becomes free, is taken or is allocated from one cycle to the next: no
// constraint is written back to what it was within a minute, but for a TE job, which is
// never bound where it does not start now; what it held is taken back in the same cycle.
func TestSteerWritesNothingBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := oneOfEach()
		for id := range uint32(rapid.IntRange(1, 6).Draw(t, "jobs")) {
			j := p.job(id+1, rapid.SampledFrom([]string{"", "", "a100|v100"}).Draw(t, "own"))
			j.GPUs = rapid.IntRange(1, 4).Draw(t, "gpus")
			if rapid.IntRange(0, 3).Draw(t, "te") == 0 {
				j.Tag.Type = "te"
			}
		}
		jobs := len(p.Jobs)
		left := map[cluster.JobID]map[string]time.Time{}
		set := steerSettings()
		set.Rule.Keep, set.Rule.Away = rapid.SampledFrom([]float64{0, 30, 60}).Draw(t, "keep"), 60
		for range rapid.IntRange(5, 40).Draw(t, "cycles") {
			p.At = p.At.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "s")) * time.Second)
			p.Jobs = p.Jobs[:jobs]
			for i := range p.Nodes {
				n := &p.Nodes[i]
				if n.GPUsUsed = rapid.IntRange(0, 4).Draw(t, "used"); n.GPUsUsed > 0 {
					p.Jobs = append(p.Jobs, cluster.Job{
						ID: slurmplug.Plain(uint32(70 + i)), State: cluster.Running, GPUs: n.GPUsUsed, NodeList: n.Name, Start: p.At,
						TimeLimit: time.Duration(rapid.IntRange(1, 90).Draw(t, "limit")) * time.Minute,
					})
				}
			}
			for i := range jobs {
				share := p.shares.Jobs.Get(p.Jobs[i].ID)
				for k := range share.Time {
					share.Time[k] = rapid.SampledFrom([]float64{0, 0, 0.3, 1}).Draw(t, "time")
				}
			}
			_, actions := p.cycle(set)
			for _, a := range actions {
				if left[a.Job] == nil {
					left[a.Job] = map[string]time.Time{}
				}
				te := p.Jobs[a.Job.ID-1].Tag.Type == "te"
				if at, was := left[a.Job][a.After.String()]; was && p.At.Sub(at) < time.Minute && (!te || a.After != a.Was) {
					t.Fatalf("%+v is written back after %s", a, p.At.Sub(at))
				}
				left[a.Job][a.Before.String()] = p.At
			}
			for i := range jobs {
				j := &p.Jobs[i]
				for n := range p.Nodes {
					node := &p.Nodes[n]
					text, _ := newVocabulary(p.Nodes).with(p.own[j.ID], node.GPUType)
					if j.Tag.Type == "te" && j.Features == text && node.GPUs-node.GPUsUsed < j.GPUs {
						t.Fatalf("TE job %s is bound to %s, where it does not start now", j.ID, node.GPUType)
					}
				}
			}
		}
	})
}

// A TE job with a claim keeps what it is bound to: its place is there.
func TestSteerLeavesAClaim(t *testing.T) {
	p := oneOfEach()
	p.Nodes[2].GPUsUsed = 4
	j := p.job(1, "")
	j.Tag.Type = "te"
	p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, start)
	j.Features, p.h.Claiming = "v100", map[cluster.JobID]bool{j.ID: true}
	if _, actions := p.cycle(steerSettings()); len(actions) > 0 {
		t.Errorf("%+v", actions)
	}
	p.h.Claiming = nil
	if p.cycle(steerSettings()); j.Features != "" {
		t.Errorf("without its claim it holds %q", j.Features)
	}
}

// answers are the same for all three types.
func answers(source speed.Source) *speed.Answers {
	a := &speed.Answers{}
	for range 3 {
		a.Speeds = append(a.Speeds, speed.Answer{Speed: 1, Source: source})
	}
	return a
}

// A gang that nobody knows the speed of does not wait for a type, also when it was
// bound to one while somebody did.
func TestSteerBindsNoUnknownJob(t *testing.T) {
	for _, source := range []speed.Source{speed.None, speed.Past} {
		p := oneOfEach()
		j := p.job(1, "")
		j.GPUs, j.Tag = 4, jobtag.Tag{Workload: "nobody-knows"}
		p.shares.Jobs.Get(j.ID).Answers = answers(source)
		pl, _ := p.cycle(steerSettings())
		if told := p.told(&pl, 1); (j.Features == "") != (source == speed.None) || (told == speedUnknown) != (source == speed.None) {
			t.Errorf("%s: it holds %q: %s", source, j.Features, told)
		}
	}
	p := oneOfEach()
	j := p.job(1, "")
	p.shares.Jobs.Get(j.ID).Answers = answers(speed.None)
	p.shares.Jobs.Get(j.ID).Answers.Speeds[2].Source = speed.Tag // of its types one is known
	if p.cycle(steerSettings()); j.Features != "a100" {
		t.Errorf("it holds %q", j.Features)
	}
}

// What a closer look ruled out stays so until the job is looked at again, however long
// it waits, and the allocation hears of it.
func TestSteerRemembersWhatIsRuledOut(t *testing.T) {
	p := oneOfEach()
	j := p.job(1, "")
	p.places[j.ID] = cluster.Place{Excluded: "a100-1"}
	set := steerSettings()
	set.Rule.Cycles = 3
	p.cycle(set)
	for i := range 12 {
		p.At = p.At.Add(20 * time.Second)
		p.h.Observe(&p.Snapshot)
		pl := plan.Plan{Decisions: []plan.Decision{{Job: j.ID, Ranked: true}}}
		pl.MakeQueue(&p.Snapshot)
		steered := p.steer(&pl, set)
		if out := steered.RuledOut()[j.ID]; out != 1 {
			t.Errorf("cycle %d: ruled out %b", i, out)
		}
		steered.Vet(p.places)
		for _, a := range steered.Actions {
			if a.After.String() == "a100" {
				t.Errorf("cycle %d: %+v", i, a)
			}
		}
	}
	p.places[j.ID] = cluster.Place{}
	for range 6 {
		p.cycle(set)
	}
	if j.Features != "a100" {
		t.Errorf("its owner refuses no node any more, and it holds %q", j.Features)
	}
}

// The nodes that a job names because its size was made for them are no wish of its
// owner's: it keeps its type, and is written no other until they are gone.
func TestSteerKnowsASizesNodes(t *testing.T) {
	p := oneOfEach()
	j := p.job(1, "")
	p.h.Asked(j.ID, slurmplug.Size, slurmplug.Size.Value("NumCPUs=1 ReqNodeList="), slurmplug.Size.Value("NumCPUs=2 ReqNodeList=v100-1"), true, start)
	j.Asked = &slurmplug.Asked{Holds: slurmplug.Size.Value("NumCPUs=2 ReqNodeList=v100-1")}
	p.places[j.ID] = cluster.Place{Required: "v100-1"}
	pl, actions := p.cycle(steerSettings())
	if len(actions) > 0 || p.told(&pl, 1) != sizeNamesNodes {
		t.Errorf("%+v, told %q", actions, p.told(&pl, 1))
	}
	p.places[j.ID] = cluster.Place{}
	if p.cycle(steerSettings()); j.Features != "a100" {
		t.Errorf("without them it holds %q", j.Features)
	}
}

// A type that was ruled out takes no other one back.
func TestSteerKeepsWhatHasAPlace(t *testing.T) {
	p := oneOfEach()
	j := p.job(1, "")
	p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, start.Add(-time.Hour))
	j.Features = "v100"
	p.places[j.ID] = cluster.Place{Excluded: "a100-1"}
	if pl, actions := p.cycle(steerSettings()); len(actions) > 0 {
		t.Errorf("%+v, told %q", actions, p.told(&pl, 1))
	}
}
