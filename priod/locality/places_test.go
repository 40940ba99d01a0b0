package locality

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// open adds a waiting job of some GPUs that leaves its number of nodes open.
func (w *world) open(gpus int) *cluster.Job {
	j := w.add(1, tag)
	j.GPUs, j.CPUs = gpus, gpus
	w.counts[j.ID] = slurmplug.NodesText(1, 0)
	return j
}

// part leaves so many GPUs free on each node.
func (w *world) part(gpus int) {
	for i := range w.snapshot.Nodes {
		w.snapshot.Nodes[i].GPUsUsed = 4 - gpus
	}
}

func newFewNodes(w *world) *Feature {
	f := newFeature(w)
	f.Places = OnNodes
	return f
}

// A job of four GPUs, of which one is free on each node, waits for one node as long as two
// would cost it, then for two, and then takes any; it gets back what its user said.
func TestStepsOfNodes(t *testing.T) {
	for _, own := range []string{"1-0", "1-4"} {
		w := newWorld()
		f := newFewNodes(w)
		id := w.open(4).ID
		w.counts[id] = own
		w.part(1)
		var got []string
		at := map[string]time.Duration{}
		for i := range 40 {
			w.cycle(t, f, time.Minute)
			if kept := w.kept[id]; (kept == plan.FewNodes) != (w.counts[id] != own) {
				t.Errorf("%s: it is kept waiting for %q", w.counts[id], kept)
			}
			if now := w.counts[id]; len(got) == 0 || got[len(got)-1] != now {
				got = append(got, now)
				at[now] = time.Duration(i) * time.Minute
			}
		}
		// 0.146 / 0.854 of an hour, and 0.199 / 0.801
		if want := []string{"1-1", "1-2", own}; !slices.Equal(got, want) || at["1-2"] != 11*time.Minute || at[own] != 15*time.Minute {
			t.Errorf("%v after %v, want %v after 11 and 15 minutes", got, at, want)
		}
	}
	w := newWorld()
	f := newFewNodes(w)
	id := w.open(8).ID
	w.part(1)
	for range 12 {
		w.cycle(t, f, time.Minute)
	}
	if got := w.counts[id]; got != "1-4" {
		t.Errorf("one of two nodes accepts %s after 12 minutes, which four cost it", got)
	}
}

// Who is left alone, and why.
func TestNodesLeftAlone(t *testing.T) {
	for what, prepare := range map[string]func(w *world, j *cluster.Job){
		noConsent:                     func(_ *world, j *cluster.Job) { j.TagText = "" },
		unread:                        func(w *world, _ *cluster.Job) { w.deaf = true },
		"requests a number of nodes":  func(w *world, j *cluster.Job) { w.counts[j.ID] = "1-1" },
		"does not show":               func(w *world, j *cluster.Job) { w.counts[j.ID] = slurmplug.HiddenNodes },
		"could not restore":           func(w *world, _ *cluster.Job) { w.old = true },
		"it is an array":              func(_ *world, j *cluster.Job) { j.Tasks, j.TaskCount = "1-2", 2 },
		"its size":                    func(w *world, j *cluster.Job) { w.binds = []plan.Action{{Job: j.ID, Lever: slurmplug.Size}} },
		"too briefly":                 func(_ *world, j *cluster.Job) { j.TimeLimit = time.Minute },
		"of each node, so it has one": func(_ *world, j *cluster.Job) { j.Node.GPUs = 4 },
		"two nodes at least":          func(_ *world, j *cluster.Job) { j.Nodes = 2 },
	} {
		w := newWorld()
		f := newFewNodes(w)
		j := w.open(4)
		w.part(1)
		prepare(w, j)
		binds, own := w.binds, w.counts[j.ID]
		for range 3 {
			w.binds = binds
			if w.cycle(t, f, time.Minute); w.counts[j.ID] != own {
				t.Errorf("%s: it asks for %s", what, w.counts[j.ID])
			}
		}
	}
}

// What priod wrote is taken back when it no longer holds, also where Slurm does not show it any
// more; what somebody else has written since stays.
func TestNodesAreTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *Feature, *cluster.Job)
		want   string
	}{
		"it stays": {func(*world, *Feature, *cluster.Job) {}, "1-1"},
		"off":      {func(_ *world, f *Feature, _ *cluster.Job) { f.Settings.Enabled = false }, "1-0"},
		"off, and not shown": {func(w *world, f *Feature, j *cluster.Job) {
			f.Settings.Enabled, w.counts[j.ID] = false, slurmplug.HiddenNodes
		}, "1-0"},
		"not shown any more":  {func(w *world, _ *Feature, j *cluster.Job) { w.counts[j.ID] = slurmplug.HiddenNodes }, slurmplug.HiddenNodes},
		"its tag has gone":    {func(_ *world, _ *Feature, j *cluster.Job) { j.TagText = "" }, "1-0"},
		"its user changed it": {func(w *world, f *Feature, j *cluster.Job) { f.Settings.Enabled, w.counts[j.ID] = false, "1-3" }, "1-3"},
		"priod was started":   {func(_ *world, f *Feature, _ *cluster.Job) { f.Memory = &Memory{} }, "1-1"},
	} {
		w := newWorld()
		f := newFewNodes(w)
		id := w.open(4).ID
		w.part(1)
		w.cycle(t, f, time.Minute)
		if w.counts[id] != "1-1" {
			t.Fatalf("%s: %s", name, w.counts[id])
		}
		c.change(w, f, &w.snapshot.Jobs[0])
		for range 2 {
			if w.cycle(t, f, time.Minute); w.counts[id] != c.want {
				t.Errorf("%s: %s, want %s", name, w.counts[id], c.want)
			}
		}
	}
}

// Whatever comes and goes, no job is bounded to fewer nodes than hold it or than it was before,
// one that has not agreed never is, and in the end all get back what they said.
func TestNodesOfAnyQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		f := newFewNodes(w)
		own := map[cluster.JobID]string{}
		for range rapid.IntRange(1, 8).Draw(t, "jobs") {
			j := w.open(rapid.IntRange(1, 12).Draw(t, "gpus"))
			if rapid.IntRange(0, 4).Draw(t, "silent") == 0 {
				j.TagText = ""
			}
			if most := rapid.IntRange(0, 5).Draw(t, "most"); most == 0 || 4*most >= j.GPUs {
				w.counts[j.ID] = slurmplug.NodesText(1, most)
			}
			own[j.ID] = w.counts[j.ID]
		}
		last := map[cluster.JobID]int{}
		for range rapid.IntRange(1, 30).Draw(t, "cycles") {
			w.part(rapid.IntRange(0, 4).Draw(t, "free"))
			w.cycle(t, f, time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes"))*time.Minute)
			for i := range w.snapshot.Jobs {
				j := &w.snapshot.Jobs[i]
				_, most, err := slurmplug.ParseNodes(w.counts[j.ID])
				changed := w.counts[j.ID] != own[j.ID]
				if err != nil || changed && (j.TagText == "" || 4*most < j.GPUs || most < last[j.ID]) {
					t.Fatalf("%s of %d GPUs asks for %s, before for %d at most, its user for %s", j.ID, j.GPUs, w.counts[j.ID], last[j.ID], own[j.ID])
				}
				if changed {
					last[j.ID] = most
				}
			}
		}
		f.Settings.Enabled = false
		w.cycle(t, f, time.Minute)
		for id, want := range own {
			if w.counts[id] != want {
				t.Fatalf("%s asks for %s, its user for %s", id, w.counts[id], want)
			}
		}
	})
}

// The words tell nodes from switches.
func TestWordsOfNodes(t *testing.T) {
	w := newWorld()
	f := newFewNodes(w)
	w.open(4)
	w.part(1)
	actions := w.cycle(t, f, time.Minute)
	if len(actions) != 1 || !strings.HasPrefix(actions[0].Reason, "nodes: 1 at most, of the 4 that it might get; it waits for them as long as that pays, for it would run 1h15m") {
		t.Errorf("%+v", actions)
	}
}
