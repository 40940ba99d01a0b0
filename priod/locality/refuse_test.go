package locality

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/nodespeed"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// refuser is a Slurm whose jobs name and refuse nodes.
type refuser struct {
	*world
	places map[cluster.JobID]cluster.Place
	looks  int
	says   string        // why it refuses a write
	waited time.Duration // for nodes that are not slow, by an earlier priod
	plan   *plan.Plan
	kept   map[cluster.JobID]string
}

func (r *refuser) Places(_ context.Context, jobs map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	r.looks += len(jobs)
	found := map[cluster.JobID]cluster.Place{}
	for id := range jobs {
		found[id] = r.places[id]
	}
	return found, nil
}

// refuses lets some time pass and one cycle come, and returns what jobs refuse then.
func (r *refuser) refuses(t *testing.T, f *Refusals, pass time.Duration) map[cluster.JobID]string {
	t.Helper()
	r.snapshot.At = r.snapshot.At.Add(pass)
	r.history.Observe(&r.snapshot)
	r.plan = &plan.Plan{At: r.snapshot.At}
	for i := range r.snapshot.Jobs {
		r.plan.Decisions = append(r.plan.Decisions, plan.Decision{Job: r.snapshot.Jobs[i].ID, Ranked: true})
	}
	r.plan.MakeQueue(&r.snapshot)
	c := &plan.Cycle{Snapshot: &r.snapshot, History: r.history, Plan: r.plan}
	f.Waited = func(_ *cluster.Job, cause plan.Cause, what string) time.Duration {
		if cause != plan.Locality || what != plan.SlowNodes {
			return 0
		}
		return r.waited
	}
	if err := f.Plan(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	r.kept = c.Kept
	for _, a := range r.plan.Actions {
		place := r.places[a.Job]
		if a.Lever != slurmplug.ExcNodeList || a.Was.String() != "" || a.Before.String() != place.Excluded {
			t.Fatalf("%+v, and it refuses %q", a, place.Excluded)
		}
		if r.says != "" {
			c.Outcomes = append(c.Outcomes, plan.Outcome{Action: a, Status: slurmplug.Refused, Message: r.says})
			continue
		}
		place.Excluded = a.After.String()
		r.places[a.Job] = place
		c.Outcomes = append(c.Outcomes, plan.Outcome{Action: a, Status: slurmplug.Applied})
	}
	plan.Hear(c)
	all := map[cluster.JobID]string{}
	for id, p := range r.places {
		if p.Excluded != "" {
			all[id] = p.Excluded
		}
	}
	return all
}

// newRefusals are those of a site where n0 and n1 are slow, n1 for one program only.
func newRefusals() (*refuser, *Refusals) {
	r := &refuser{world: newWorld(), places: map[cluster.JobID]cluster.Place{}}
	factor := func(v float64) *float64 { return &v }
	return r, &Refusals{
		Settings: Settings{Enabled: true, OfLimit: 0.5, Rule: Rule{Wait: 1, Longest: 86400}}, Memory: &Memory{}, Slurm: r,
		Slow: SlowNodes{Known: true, Nodes: []nodespeed.Node{
			{Name: "n0", Slow: true, Factor: factor(1.5)},
			{Name: "n1", Slow: true, Factor: factor(1), Where: []nodespeed.Program{{Workload: "resnet50", GPUs: 8, Factor: 3}, {User: "ann", Name: "train", GPUs: 8, Factor: 2}}},
			{Name: "n2", Factor: factor(9)},
		}},
	}
}

// Which jobs refuse which nodes, and which are left alone.
func TestJobsThatRefuseNodes(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  int
		tag    string
		change func(*cluster.Job, *refuser)
		want   string
	}{
		"a gang":                         {2, tag, nil, "n0"},
		"its program is slow on another": {2, tag, func(j *cluster.Job, _ *refuser) { j.Tag.Workload = "resnet50" }, "n[0-1]"},
		"by name":                        {2, tag, func(j *cluster.Job, _ *refuser) { j.Name = "train" }, "n[0-1]"},
		"another user's":                 {2, tag, func(j *cluster.Job, _ *refuser) { j.Name, j.User = "train", "bob" }, "n0"},
		"no gang":                        {1, tag, nil, ""},
		"no tag":                         {2, "", nil, ""},
		"a tag that is not valid":        {2, tag, func(j *cluster.Job, _ *refuser) { j.TagErr = "no" }, ""},
		"an array":                       {2, tag, func(j *cluster.Job, _ *refuser) { j.Tasks, j.TaskCount = "1-2", 2 }, ""},
		"a part of a heterogeneous job":  {2, tag, func(j *cluster.Job, _ *refuser) { j.HetLeader = 1 }, ""},
		"room is made for it":            {2, tag, func(j *cluster.Job, r *refuser) { r.history.Claiming = map[cluster.JobID]bool{j.ID: true} }, ""},
		"it runs too briefly":            {2, tag, func(j *cluster.Job, _ *refuser) { j.TimeLimit = 2 * time.Minute }, ""},
		"no time limit":                  {2, tag, func(j *cluster.Job, _ *refuser) { j.TimeLimit = slurmplug.Unlimited }, ""},
		"too few others":                 {16, tag, nil, ""},
		"it names nodes":                 {2, tag, func(j *cluster.Job, r *refuser) { r.places[j.ID] = cluster.Place{Required: "n0"} }, ""},
		"it refuses nodes":               {2, tag, func(j *cluster.Job, r *refuser) { r.places[j.ID] = cluster.Place{Excluded: "n7"} }, "n7"},
		"of another partition":           {2, tag, func(_ *cluster.Job, r *refuser) { r.snapshot.Nodes[0].Partitions = []string{"cpu"} }, ""},
		"nobody has looked yet":          {2, tag, nil, ""},
		"off":                            {2, tag, nil, ""},
	} {
		r, f := newRefusals()
		f.Slow.Known, f.Settings.Enabled = name != "nobody has looked yet", name != "off"
		j := r.add(c.nodes, c.tag)
		id := j.ID
		if c.change != nil {
			c.change(j, r)
		}
		r.use(0, 1, 2, 3, 4, 5)
		for range 3 {
			if got := r.refuses(t, f, time.Minute)[id]; got != c.want {
				t.Errorf("%s: it refuses %q, want %q", name, got, c.want)
			}
		}
		if r.looks > 1 {
			t.Errorf("%s: %d looks", name, r.looks)
		}
		if says := r.plan.Decisions[0].Choices.Refused; strings.HasPrefix(c.want, "n[0") && !strings.Contains(says.Words(), "it avoids n[0-1], as long as that pays: on n1 it would run") {
			t.Errorf("%s: %+v", name, says)
		}
	}
}

// A gang refuses nodes on which others' jobs failed, one of an unknown run time, too; after an hour it takes them.
func TestRefusesNodesThatFailJobs(t *testing.T) {
	r, f := newRefusals()
	f.Slow.Failing = []string{"n3", "n0"}
	id := r.add(2, tag).ID
	r.use(0, 3)
	if got := r.refuses(t, f, time.Minute)[id]; got != "n[0,3]" {
		t.Fatalf("it refuses %q", got)
	}
	if says := r.plan.Decisions[0].Choices.Refused.Words(); says != "slow nodes: it avoids n[0,3], as long as that pays: on n0 it would run 1.50 times as long; jobs of several users failed on n3" {
		t.Error(says)
	}
	f.Slow.Nodes = nil
	if r.refuses(t, f, time.Minute); r.plan.Decisions[0].Choices.Refused.Words() != "slow nodes: it avoids n[0,3]; jobs of several users failed on n[0,3]" {
		t.Errorf("%+v", r.plan.Decisions[0].Choices.Refused)
	}
	for range 60 {
		r.refuses(t, f, time.Minute)
	}
	if got := r.refuses(t, f, time.Minute)[id]; got != "" {
		t.Errorf("after an hour it refuses %q", got)
	}
}

// Nodes that fail jobs are refused by jobs of one node, too, and at once: before accounting has shown which nodes are slow. What an
// earlier priod learned of those stays until then.
func TestRefusesFailingNodesBeforeSpeedsAreKnown(t *testing.T) {
	r, f := newRefusals()
	single, gang := r.add(1, tag).ID, r.add(2, tag).ID
	r.use()
	r.refuses(t, f, time.Minute)
	f.Slow = SlowNodes{Failing: []string{"n3"}}
	all := r.refuses(t, f, time.Minute)
	if all[single] != "n3" || all[gang] != "n[0,3]" {
		t.Errorf("they refuse %v", all)
	}
	f.Slow.Failing = nil
	if all = r.refuses(t, f, time.Minute); all[single] != "n3" || all[gang] != "n[0,3]" {
		t.Errorf("before speeds are known they refuse %v", all)
	}
	f.Slow.Known = true
	if all = r.refuses(t, f, time.Minute); len(all) > 0 {
		t.Errorf("when neither is left they refuse %v", all)
	}
}

// A gang that could start on slow nodes waits for others as long as its longer run there
// would be, the milder node first, and then takes any.
func TestRefusesAsLongAsItPays(t *testing.T) {
	r, f := newRefusals()
	j := r.add(2, tag)
	j.Tag.Workload = "resnet50"
	id := j.ID
	r.use(0, 1)
	var got []string
	at := map[string]time.Duration{}
	for i := range 150 {
		now := r.refuses(t, f, time.Minute)[id]
		if len(got) == 0 || got[len(got)-1] != now {
			got = append(got, now)
			at[now] = time.Duration(i) * time.Minute
		}
	}
	if want := []string{"n[0-1]", "n1", ""}; !slices.Equal(got, want) || at["n1"] != 30*time.Minute || at[""] != 2*time.Hour {
		t.Errorf("%v after %v, want %v after half an hour and two", got, at, want)
	}
	r, f = newRefusals() // where nothing is free it waits anyway
	id = r.add(2, tag).ID
	r.use()
	for range 150 {
		if got := r.refuses(t, f, time.Minute)[id]; got != "n0" {
			t.Fatalf("%q", got)
		}
	}
}

// What was written is taken back when it no longer holds, unless somebody has changed it.
func TestRefusalsAreTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*refuser, *Refusals, *cluster.Job)
		want   string
	}{
		"it stays":           {func(*refuser, *Refusals, *cluster.Job) {}, "n0"},
		"no longer slow":     {func(_ *refuser, f *Refusals, _ *cluster.Job) { f.Slow.Nodes = nil }, ""},
		"off":                {func(_ *refuser, f *Refusals, _ *cluster.Job) { f.Settings.Enabled = false }, ""},
		"not known any more": {func(_ *refuser, f *Refusals, _ *cluster.Job) { f.Slow = SlowNodes{} }, "n0"},
		"no node is left":    {func(_ *refuser, _ *Refusals, j *cluster.Job) { j.Reason = "BadConstraints" }, ""},
		"not available":      {func(_ *refuser, _ *Refusals, j *cluster.Job) { j.Reason = "ReqNodeNotAvail, UnavailableNodes:n3" }, ""},
		"not available in one of its partitions": {func(_ *refuser, _ *Refusals, j *cluster.Job) {
			j.Partition, j.Reason = j.Partition+",other", "ReqNodeNotAvail, UnavailableNodes:n3"
		}, "n0"},
		"its user has changed": {func(r *refuser, f *Refusals, j *cluster.Job) {
			r.places[j.ID] = cluster.Place{Excluded: "n5"}
			f.Slow.Nodes = nil
		}, "n5"},
		"its user took it back": {func(r *refuser, f *Refusals, j *cluster.Job) {
			r.places[j.ID] = cluster.Place{}
			f.Slow.Nodes = f.Slow.Nodes[1:]
		}, ""},
		"it runs": {func(r *refuser, f *Refusals, j *cluster.Job) {
			j.State, j.Start, f.Slow.Nodes = cluster.Running, r.snapshot.At, nil
		}, "n0"},
	} {
		r, f := newRefusals()
		r.add(2, tag)
		r.use(0, 1, 2, 3)
		id := r.snapshot.Jobs[0].ID
		if got := r.refuses(t, f, time.Minute)[id]; got != "n0" {
			t.Fatalf("%s: %q", name, got)
		}
		c.change(r, f, &r.snapshot.Jobs[0])
		for range 2 {
			if got := r.refuses(t, f, time.Minute)[id]; got != c.want {
				t.Errorf("%s: it refuses %q, want %q", name, got, c.want)
			}
		}
		if name == "no node is left" {
			r.snapshot.Jobs[0].Reason = "Resources"
			if got := r.refuses(t, f, time.Minute)[id]; got != "" {
				t.Errorf("written again: %q", got)
			}
		}
	}
	r, f := newRefusals() // Slurm refuses
	r.add(2, tag)
	r.says = "no"
	r.refuses(t, f, time.Minute)
	if r.refuses(t, f, time.Minute); len(r.plan.Actions) > 0 {
		t.Error("sent again")
	}
}

// What a gang has waited so far is told by its waits, where nobody remembers: after a restart
// of priod it waits on for what is left of it.
func TestRefusesOnAfterARestart(t *testing.T) {
	r, f := newRefusals()
	id := r.add(2, tag).ID
	r.use(0, 1)
	r.waited = 20 * time.Minute // half an hour is what the slow node costs it
	for i, want := range []string{"n0", "n0", ""} {
		if got := r.refuses(t, f, 5*time.Minute)[id]; got != want {
			t.Errorf("after %d minutes it refuses %q, want %q", 5*i, got, want)
		}
		if kept := r.kept[id]; (kept == plan.SlowNodes) != (want != "") {
			t.Errorf("after %d minutes it is kept waiting for %q", 5*i, kept)
		}
	}
	r.use() // now it would wait anyway
	if r.refuses(t, f, time.Minute); len(r.kept) > 0 {
		t.Errorf("%v", r.kept)
	}
}
