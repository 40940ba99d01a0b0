package cli

import (
	"bytes"
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
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

func in(seconds int64) *int64 { return &seconds }

// Each cell holds what was given, times that are not known are "-", and what users wrote is inert.
func TestExpectedIsShown(t *testing.T) {
	id := slurmplug.Plain(4711)
	views := []*etaView{
		{
			Job: &id, Partition: "gpu", GPUs: 2, GPUType: "a100", Why: "too few GPUs are free", StartS: in(720), P90S: in(2460), LimitsS: in(80040), Moved: "earlier estimates: between 11:30 and 15:00", Slurm: "no estimate",
			Alternatives: []alternative{{StartS: in(720), P90S: in(2460), EndS: in(10920)}, {Change: "GPU type v100", Try: "--gres=gpu:v100:2", StartS: in(0), P90S: in(40), EndS: in(18600), Sooner: true}},
		},
		{Script: "bad\x1b[2J.sh", Partition: "gpu", GPUs: 1, Why: "held"},
	}
	var out bytes.Buffer
	showExpected(&out, views, time.Now(), true)
	text := out.String()
	for _, want := range []string{
		"4711 ", "2 a100", "in 12m00s", "in 41m00s", "in 22h14m", "(earlier estimates: between 11:30 and 15:00)", "no estimate", "as it is", "GPU type v100  now        within 1m  in 5h10m  sooner  --gres=gpu:v100:2", "-          -          -",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	out.Reset()
	if showExpected(&out, nil, time.Now(), false); out.String() != "No GPU job waits.\n" {
		t.Errorf("%q", out.String())
	}
}

// What waits for something else than room names the cause and no time; a job that makes room has the time at which the last one
// will have left.
func TestExpectedOfStored(t *testing.T) {
	soon := time.Now().Add(10 * time.Minute)
	job := func(cause plan.Cause, start *store.ExpectedStart) *explanation {
		v := &explanation{}
		v.Job = store.Job{ID: slurmplug.Plain(1), State: cluster.Pending.String(), GPUs: 1, Partition: "gpu"}
		v.Start, v.Waits = start, []waitView{{Spans: []spanView{{Cause: cause}}}}
		return v
	}
	for _, c := range []struct {
		name  string
		of    *explanation
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
		if is := c.of.aboutToStart(); is != (c.name == "starting") { // else what would start it sooner is asked
			t.Errorf("%s: about to start: %v", c.name, is)
		}
		text, err := json.Marshal(e)
		if err != nil || !strings.Contains(string(text), `"start_s":`+c.start) || !strings.Contains(e.Why, c.why) {
			t.Errorf("%s: %v %s", c.name, err, text)
		}
	}
	moved := &store.ExpectedStart{At: soon, Median: soon, Least: soon.Add(-5 * time.Minute), Most: soon.Add(time.Hour)}
	if said := report.Moved(moved); !strings.HasPrefix(said, "earlier estimates: between ") {
		t.Errorf("%q", said)
	}
	if moved.Most = soon.Add(time.Minute); report.Moved(moved) != "" {
		t.Errorf("%q", report.Moved(moved))
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
	f, err := newForecaster(t.Context(), cfg, r, site)
	if err != nil || f.forecast != nil {
		t.Fatal(err, f)
	}
	check := func(name string, v *etaView, want int64, others ...string) {
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
	listed, err := etasOf(t.Context(), cfg, r, nil, nil, "ann", true)
	if err != nil || len(listed) != 2 || !unplanned(listed) {
		t.Fatal(err, listed)
	}
	f.plan(listed)
	check("first of the list", listed[0], 3600)
	check("second of the list", listed[1], 7200) // the first one holds a100 until then
	named, err := etasOf(t.Context(), cfg, r, f, []string{"11", "12"}, "ann", true)
	if err != nil {
		t.Fatal(err)
	}
	check("in one partition", named[0], 3600, "")
	check("in two", named[1], 7200, "", "GPU type a100", "GPU type v100")
	request := func(partitions ...string) *advise.Request {
		return &advise.Request{GPUs: 4, Nodes: 1, CPUs: 4, Limit: time.Hour, Option: "gres", Value: "gpu:4", Partitions: partitions}
	}
	asked, err := f.requests(t.Context(), r, []*advise.Request{request("v100"), request("v100", "a100")}, "ann")
	if err != nil {
		t.Fatal(err)
	}
	check("a request in one", asked[0], 10800, "")
	check("a request in two", asked[1], 10800, "", "GPU type v100", "GPU type a100")
	if asked[0].Types != nil || asked[0].Why != "not enough past runs are known" {
		t.Errorf("%+v", asked[0])
	}
	var out bytes.Buffer
	showExpected(&out, named[1:], time.Now(), true)
	if text := out.String(); !strings.Contains(text, "BY TIME LIMITS  ") || !strings.Contains(text, "as it is       in 2h00m") {
		t.Errorf("%s", text)
	}
	site.Partitions = site.Partitions[:1] // the other one is hidden from who asks
	if hidden, err := etasOf(t.Context(), cfg, r, f, []string{"12"}, "ann", true); err != nil || hidden[0].Job == nil {
		t.Errorf("a job in a partition that is not seen: %v", err)
	}
}
