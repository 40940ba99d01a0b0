package view

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// still is a cluster that takes every write.
type still struct{ cluster.Snapshot }

func (s *still) Observe(context.Context) (cluster.Snapshot, error) { return s.Snapshot, nil }

func (s *still) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	return make([]plan.Outcome, len(actions))
}

// What waits for something else than room names the cause and no time; a job that makes room has the time at which the last one
// will have left.
func TestExpectedOfStored(t *testing.T) {
	soon := time.Now().Add(10 * time.Minute)
	job := func(cause plan.Cause, start *store.ExpectedStart) *Explanation {
		v := &Explanation{}
		v.Job = store.Job{ID: slurmplug.Plain(1), State: cluster.Pending.String(), GPUs: 1, Partition: "gpu"}
		v.Start, v.Waits = start, []waitView{{Spans: []spanView{{Cause: cause}}}}
		return v
	}
	for _, c := range []struct {
		name  string
		of    *Explanation
		start string // of the JSON
		why   string
	}{
		{"held", job(plan.HeldBack, nil), "null", "held"},
		{"dependent", job(plan.AfterJob, nil), "null", "waits for another job"},
		{"not planned", job(plan.Capacity, nil), "null", "too few GPUs are free"},
		{"planned", job(plan.Capacity, &store.ExpectedStart{At: soon.Add(time.Hour), Median: soon, P90: soon.Add(time.Minute)}), "600", "too few GPUs are free"},
		{"by limits alone", job(plan.Capacity, &store.ExpectedStart{At: soon}), "null", "too few GPUs are free"},
		{"starting", job(plan.Starting, nil), "0", "fits now"},
	} {
		e := c.of.eta()
		if is := c.of.when(); is.Now != (c.name == "starting") { // else what would start it sooner is asked
			t.Errorf("%s: about to start: %v", c.name, is)
		}
		text, err := json.Marshal(e)
		if err != nil || !strings.Contains(string(text), `"start_s":`+c.start) || !strings.Contains(e.Why, c.why) {
			t.Errorf("%s: %v %s", c.name, err, text)
		}
	}
	moved := &store.ExpectedStart{At: soon, Median: soon, Least: soon.Add(-5 * time.Minute), Most: soon.Add(time.Hour)}
	if said := Moved(moved); !strings.HasPrefix(said, "earlier estimates: between ") {
		t.Errorf("%q", said)
	}
	if moved.Most = soon.Add(time.Minute); Moved(moved) != "" {
		t.Errorf("%q", Moved(moved))
	}
}

// unlearned is a state folder that saw a queue once, and knows no run; and its cluster: a partition for each type, full for an hour and for three.
func unlearned(t *testing.T) (*config.Config, *store.Reader, *advise.Site) {
	t.Helper()
	cfg, _ := config.Defaults()
	cfg.State.Dir = t.TempDir()
	st, err := store.Open(t.Context(), cfg.State.Dir, store.Options{Once: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	h, err := st.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	snap := cluster.Snapshot{At: now, Cluster: "test"}
	site := &advise.Site{Snapshot: &snap, Memory: true}
	for i, name := range []string{"a100", "v100"} {
		id := uint32(i + 1)
		job := cluster.Job{ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "bob", Partition: name, Nodes: 1, CPUs: 4, GPUs: 4, MemMB: 1000, State: cluster.Running,
			NodeList: name, TimeLimit: time.Duration(2*i+1) * time.Hour, Submit: now, Eligible: now, Start: now, Priority: 10}
		snap.Jobs = append(snap.Jobs, job)
		snap.Nodes = append(snap.Nodes, cluster.Node{Name: name, Usable: true, State: "ALLOCATED", GPUType: name, GPUs: 4, GPUsUsed: 4, CPUs: 16, CPUsUsed: 4, MemMB: 64000, MemUsedMB: 1000, Partitions: []string{name}})
		job.ID, job.RawID, job.State, job.NodeList, job.Reason, job.Start, job.User = slurmplug.Plain(id+10), id+10, cluster.Pending, "", "Priority", time.Time{}, "ann"
		if i == 1 {
			job.Partition = "a100,v100"
		}
		snap.Jobs = append(snap.Jobs, job)
		site.Partitions = append(site.Partitions, slurmplug.Partition{Name: name, State: "UP", PriorityTier: 1})
	}
	if _, err := cycle.Step(t.Context(), &still{snap}, st, h, cycle.Settings{Order: order.Feature{Settings: order.Settings{Top: 1_000_000, Step: 1000}}}); err != nil {
		t.Fatal(err)
	}
	r, err := store.OpenReader(t.Context(), cfg.State.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return cfg, r, site
}

// Where nothing was learned, or the daemon has planned nothing yet, jobs and requests have the times by limits that advise gives,
// and no others.
func TestExpectedByLimits(t *testing.T) {
	cfg, r, site := unlearned(t)
	f, err := NewForecaster(t.Context(), cfg, r, site)
	if err != nil || f.forecast != nil {
		t.Fatal(err, f)
	}
	check := func(name string, v *Expectation, want int64, others ...string) {
		t.Helper()
		if v.StartS != nil || v.P90S != nil || v.LimitsS == nil || *v.LimitsS != want {
			t.Errorf("%s: %+v; want a start by limits in %d s, and no other", name, v, want)
		}
		var changes []string
		for _, a := range v.Alternatives {
			if a.StartS != nil || a.LimitsS == nil {
				t.Errorf("%s: %+v; want times by limits alone", name, a)
			}
			changes = append(changes, a.Change)
		}
		if !slices.Equal(changes, others) {
			t.Errorf("%s: alternatives %q, want %q", name, changes, others)
		}
	}
	listed, err := Expectations(t.Context(), cfg, r, nil, nil, "ann", true)
	if err != nil || len(listed) != 2 || !Unplanned(listed) {
		t.Fatal(err, listed)
	}
	f.Plan(listed)
	check("first of the list", listed[0], 3600)
	check("second of the list", listed[1], 7200) // the first one holds a100 until then
	named, err := Expectations(t.Context(), cfg, r, f, []string{"11", "12"}, "ann", true)
	if err != nil {
		t.Fatal(err)
	}
	check("in one partition", named[0], 3600, "")
	check("in two", named[1], 7200, "", "GPU type a100", "GPU type v100")
	request := func(partitions ...string) *advise.Request {
		return &advise.Request{GPUs: 4, Nodes: 1, CPUs: 4, Limit: time.Hour, Option: "gres", Value: "gpu:4", Partitions: partitions}
	}
	asked, err := f.Requests(t.Context(), r, []*advise.Request{request("v100"), request("v100", "a100")}, "ann")
	if err != nil {
		t.Fatal(err)
	}
	check("a request in one", asked[0], 10800, "")
	check("a request in two", asked[1], 10800, "", "GPU type v100", "GPU type a100")
	if asked[0].Types != nil || asked[0].Why != "not enough past runs are known" {
		t.Errorf("%+v", asked[0])
	}
	site.Partitions = site.Partitions[:1] // the other one is hidden from who asks
	if hidden, err := Expectations(t.Context(), cfg, r, f, []string{"12"}, "ann", true); err != nil || hidden[0].Job == nil {
		t.Errorf("a job in a partition that is not seen: %v", err)
	}
}
