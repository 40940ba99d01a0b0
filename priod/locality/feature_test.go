package locality

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// world is a Slurm of four leaf switches with four nodes of four GPUs each.
type world struct {
	snapshot cluster.Snapshot
	history  *cluster.History
	switches map[cluster.JobID]string
	topology cluster.Topology
	deaf     bool // nobody can read what jobs ask of places
	kept     map[cluster.JobID]string
	binds    []plan.Action // what steering writes in the next cycle
}

func newWorld() *world {
	w := &world{history: cluster.NewHistory(), switches: map[cluster.JobID]string{}, topology: cluster.Topology{Leaves: map[string]string{}, MaxWait: 24 * time.Hour}}
	w.snapshot.At = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 16 {
		n := cluster.Node{Name: fmt.Sprint("n", i), Usable: true, GPUType: "a100", GPUs: 4, CPUs: 64, MemMB: 1 << 20, Partitions: []string{"gpu"}}
		w.snapshot.Nodes = append(w.snapshot.Nodes, n)
		w.topology.Leaves[n.Name] = fmt.Sprint("s", i/4)
	}
	return w
}

// add adds a waiting job of so many whole nodes; one hour is expected of it.
func (w *world) add(nodes int, tag string) *cluster.Job {
	id := slurmplug.Plain(uint32(len(w.snapshot.Jobs) + 1))
	w.snapshot.Jobs = append(w.snapshot.Jobs, cluster.Job{
		ID: id, RawID: id.ID, TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, Reason: "Resources",
		Nodes: nodes, GPUs: 4 * nodes, CPUs: nodes, TimeLimit: 2 * time.Hour, Submit: w.snapshot.At, TagText: tag,
	})
	w.switches[id] = slurmplug.NoSwitches
	return &w.snapshot.Jobs[len(w.snapshot.Jobs)-1]
}

// use has jobs of others take all GPUs but those of some nodes.
func (w *world) use(but ...int) {
	for i := range w.snapshot.Nodes {
		w.snapshot.Nodes[i].GPUsUsed = 4
		if slices.Contains(but, i) {
			w.snapshot.Nodes[i].GPUsUsed = 0
		}
	}
}

func (w *world) Topology(context.Context) (cluster.Topology, error) { return w.topology, nil }

func (w *world) AskSwitches(_ context.Context, jobs []*cluster.Job) error {
	if w.deaf {
		return errors.New("no answer")
	}
	for _, j := range jobs {
		j.Switches = w.switches[j.ID]
	}
	return nil
}

// fataler is a test's T or rapid's.
type fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

// cycle lets some time pass, and one cycle come.
func (w *world) cycle(t fataler, f *Feature, pass time.Duration) (actions []plan.Action) {
	w.snapshot.At = w.snapshot.At.Add(pass)
	for i := range w.snapshot.Jobs {
		w.snapshot.Jobs[i].Switches = ""
	}
	w.history.Observe(&w.snapshot)
	p := &plan.Plan{At: w.snapshot.At, Actions: w.binds}
	for i := range w.snapshot.Jobs {
		if w.snapshot.Jobs[i].State == cluster.Pending {
			p.Decisions = append(p.Decisions, plan.Decision{Job: w.snapshot.Jobs[i].ID, Ranked: true})
		}
	}
	p.MakeQueue(&w.snapshot)
	c := &plan.Cycle{Snapshot: &w.snapshot, History: w.history, Plan: p}
	if err := f.Plan(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	w.kept = c.Kept
	p.Actions, w.binds = slices.DeleteFunc(p.Actions, func(a plan.Action) bool { return a.Lever != slurmplug.Switches }), nil
	for _, a := range p.Actions {
		if a.Before.String() != w.switches[a.Job] {
			t.Fatalf("%+v, and it asks for %s", a, w.switches[a.Job])
		}
		w.switches[a.Job] = a.After.String()
		c.Outcomes = append(c.Outcomes, plan.Outcome{Action: a, Status: slurmplug.Applied})
	}
	plan.Hear(c)
	return p.Actions
}

const tag = "prio:type=be&v=1"

func newFeature(w *world) *Feature {
	return &Feature{Memory: &Memory{}, Slurm: w, Settings: Settings{Enabled: true, OfLimit: 0.5, Rule: Rule{Costs: philly, Wait: 1, Longest: 86400}}}
}

// A job of four nodes, of which one is free under each switch, waits for one switch as long
// as two would cost it, then for two, and then takes any; one that starts is left alone.
func TestSteps(t *testing.T) {
	for _, racks := range []bool{false, true} {
		w := newWorld()
		for i := range w.snapshot.Nodes {
			if racks { // nodes of four kinds then
				w.snapshot.Nodes[i].Features = []string{fmt.Sprint("rack", i/4)}
			}
		}
		steps(t, w)
	}
}

func steps(t *testing.T, w *world) {
	t.Helper()
	f := newFeature(w)
	j := w.add(4, tag)
	w.use(0, 4, 8, 12)
	id := j.ID
	var got []string
	at := map[string]time.Duration{}
	for i := range 40 {
		w.cycle(t, f, time.Minute)
		if now := w.switches[id]; len(got) == 0 || got[len(got)-1] != now {
			got = append(got, now)
			at[now] = time.Duration(i) * time.Minute
		}
	}
	if want := []string{"1@1440", "2@1440", slurmplug.NoSwitches}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if at["2@1440"] != 11*time.Minute || at[slurmplug.NoSwitches] != 15*time.Minute { // 615 s and 894 s of an hour
		t.Errorf("relaxed after %v", at)
	}
	if len(w.cycle(t, f, time.Minute)) != 0 {
		t.Error("written again")
	}
}

// A job that this cycle binds to nodes of one leaf alone waits for no switch, and one that it
// lets go does.
func TestBoundInThisCycle(t *testing.T) {
	for _, to := range []string{"rack0", ""} {
		w := newWorld()
		for i := range w.snapshot.Nodes {
			w.snapshot.Nodes[i].Features = []string{fmt.Sprint("rack", i/4)}
		}
		f, j := newFeature(w), w.add(2, tag)
		w.use(0, 4)
		before := "rack0"
		if to != "" {
			before = ""
		}
		j.Features = before
		w.binds = []plan.Action{{Job: j.ID, Lever: slurmplug.Features, Before: slurmplug.Text(before), After: slurmplug.Text(to)}}
		actions := w.cycle(t, f, time.Minute)
		if waits := len(actions) > 0; waits != (to == "") {
			t.Errorf("bound to %q: %+v", to, actions)
		}
	}
}

// While it could start nowhere, or at once, a job does not wait for its switches.
func TestWhatCounts(t *testing.T) {
	w := newWorld()
	f := newFeature(w)
	id := w.add(4, tag).ID
	w.use()
	for range 100 {
		w.cycle(t, f, time.Hour)
	}
	if got := w.switches[id]; got != "1@1440" {
		t.Errorf("it waits for room: %s", got)
	}
	w = newWorld()
	f = newFeature(w)
	id = w.add(4, tag).ID
	if w.cycle(t, f, time.Minute); w.switches[id] != slurmplug.NoSwitches {
		t.Errorf("it starts now, and asks for %s", w.switches[id])
	}
}

// Who has not agreed, asks for switches himself, has changed what priod wrote, needs one
// node or runs briefly is left alone, and explain says why.
func TestLeftAlone(t *testing.T) {
	for what, prepare := range map[string]func(w *world, f *Feature, j *cluster.Job){
		noConsent:              func(_ *world, _ *Feature, j *cluster.Job) { j.TagText = "" },
		"it requests switches": func(w *world, _ *Feature, j *cluster.Job) { w.switches[j.ID] = "2@10" },
		unread:                 func(w *world, _ *Feature, _ *cluster.Job) { w.deaf = true },
		partOfHet:              func(_ *world, _ *Feature, j *cluster.Job) { j.HetLeader = 1 },
		hasClaim:               func(w *world, _ *Feature, j *cluster.Job) { w.history.Claiming = map[cluster.JobID]bool{j.ID: true} },
		"it runs too briefly to wait for few switches": func(_ *world, _ *Feature, j *cluster.Job) { j.TimeLimit = time.Minute },
		runUnknown:   func(_ *world, _ *Feature, j *cluster.Job) { j.TimeLimit = slurmplug.Unlimited },
		"no tree":    func(w *world, _ *Feature, _ *cluster.Job) { w.topology.Leaves = nil },
		"one node":   func(_ *world, _ *Feature, j *cluster.Job) { j.Nodes, j.GPUs = 1, 4 },
		"no wait":    func(w *world, _ *Feature, _ *cluster.Job) { w.topology.MaxWait = 30 * time.Second },
		"not ranked": func(_ *world, _ *Feature, j *cluster.Job) { j.Reason = "AssocGrpGRES" },
	} {
		w := newWorld()
		f := newFeature(w)
		j := w.add(4, tag)
		w.use(0, 4, 8, 12)
		prepare(w, f, j)
		own := w.switches[j.ID]
		for range 3 {
			if w.cycle(t, f, time.Minute); w.switches[j.ID] != own {
				t.Errorf("%s: %s", what, w.switches[j.ID])
			}
		}
	}
	w := newWorld()
	f := newFeature(w)
	j := w.add(4, tag)
	w.use()
	w.cycle(t, f, time.Minute)
	w.switches[j.ID] = "3@7"
	if w.cycle(t, f, time.Minute); w.switches[j.ID] != "3@7" {
		t.Errorf("%s: %s", edited, w.switches[j.ID])
	}
}

// A job that ran and was requeued waits again, also one that accepted more switches before.
func TestRequeued(t *testing.T) {
	w := newWorld()
	f := newFeature(w)
	id := w.add(4, tag).ID
	w.use(0, 4, 8, 12)
	for range 13 {
		w.cycle(t, f, time.Minute)
	}
	if w.switches[id] != "2@1440" {
		t.Fatalf("it asks for %s", w.switches[id])
	}
	j := &w.snapshot.Jobs[0]
	j.State = cluster.Running
	w.cycle(t, f, time.Hour)
	j.State, j.Restarts, j.Submit = cluster.Pending, 1, w.snapshot.At.Add(time.Hour)
	if w.cycle(t, f, 2*time.Hour); w.switches[id] != "1@1440" {
		t.Errorf("it asks for %s", w.switches[id])
	}
	f.Memory = &Memory{} // a start of priod changes nothing of that
	if w.cycle(t, f, time.Minute); w.switches[id] != "1@1440" {
		t.Errorf("it asks for %s", w.switches[id])
	}
}

// What Slurm refused is not tried again.
func TestRefused(t *testing.T) {
	w := newWorld()
	f := newFeature(w)
	j := w.add(4, tag)
	w.use()
	w.cycle(t, f, time.Minute)
	w.switches[j.ID] = slurmplug.NoSwitches
	delete(w.history.Requests, j.ID)
	plan.Hear(&plan.Cycle{History: w.history, Snapshot: &w.snapshot, Outcomes: []plan.Outcome{{Action: plan.Action{Job: j.ID, Lever: slurmplug.Switches, Was: slurmplug.Text(slurmplug.NoSwitches), After: slurmplug.Text("1@5")}, Status: slurmplug.Refused, Message: "no"}}})
	if actions := w.cycle(t, f, time.Minute); len(actions) != 0 {
		t.Errorf("%+v", actions)
	}
}

// Whatever happens to a cluster, and however often priod is started: who has not agreed is
// not touched, the number of switches never falls while a job waits, nobody waits longer
// than the longest wait for switches alone, and what is switched off is taken back.
func TestAnyCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		f := newFeature(w)
		f.Settings.Rule.Others = rapid.SampledFrom([]float64{0, 20}).Draw(t, "others")
		f.Settings.Rule.Longest = rapid.SampledFrom([]float64{600, 86400}).Draw(t, "longest")
		if rapid.Bool().Draw(t, "writes") {
			f.Settings.WritesPerCycle = 1
		}
		for range rapid.IntRange(1, 6).Draw(t, "jobs") {
			j := w.add(rapid.IntRange(1, 12).Draw(t, "nodes"), rapid.SampledFrom([]string{"", tag}).Draw(t, "tag"))
			j.TimeLimit = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 100 * time.Hour, slurmplug.Unlimited}).Draw(t, "limit")
			j.Priority = int64(rapid.IntRange(1, 3).Draw(t, "priority"))
		}
		before, relaxed := map[cluster.JobID]int{}, map[cluster.JobID]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "cycles") {
			if rapid.IntRange(0, 5).Draw(t, "started anew") == 0 {
				f.Memory = &Memory{}
				clear(relaxed)
			}
			w.use(rapid.SliceOfDistinct(rapid.IntRange(0, 15), rapid.ID).Draw(t, "free")...)
			pass := time.Duration(rapid.IntRange(1, 3600).Draw(t, "passes")) * time.Second
			w.cycle(t, f, pass)
			for i := range w.snapshot.Jobs {
				j := &w.snapshot.Jobs[i]
				count, _, err := slurmplug.ParseSwitches(w.switches[j.ID])
				was := before[j.ID]
				switch {
				case err != nil, j.TagText == "" && count != 0, count != 0 && (count < was || relaxed[j.ID]):
					t.Fatalf("%+v asks for %s, and %d before", j, w.switches[j.ID], was)
				}
				before[j.ID], relaxed[j.ID] = count, relaxed[j.ID] || was > 0 && count == 0
				if s := f.Memory.jobs[j.ID]; s != nil && s.ticking {
					if s.accepts > 0 && s.waited >= f.Settings.Rule.Longest {
						t.Fatalf("%+v has waited %v", j, s.waited)
					}
				}
			}
		}
		f.Settings.Enabled, f.Settings.WritesPerCycle = false, 0
		w.cycle(t, f, time.Minute)
		for id, text := range w.switches {
			if text != slurmplug.NoSwitches {
				t.Fatalf("job %s keeps %s", id, text)
			}
		}
	})
}
