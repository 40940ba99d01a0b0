package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// still is a cluster that shows a snapshot and takes every write.
type still struct{ cluster.Snapshot }

func (s *still) Observe(context.Context) (cluster.Snapshot, error) { return s.Snapshot, nil }

func (s *still) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	out := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		out[i] = plan.Outcome{Action: a, Status: slurmplug.Applied}
	}
	return out
}

// fillStore records an hour in which one BE job left for one TE job, and came
// back; it ends ago before now.
func fillStore(t *testing.T, dir string, ago time.Duration) {
	t.Helper()
	ctx := t.Context()
	st, err := store.Open(ctx, dir, store.Options{Once: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	h, err := st.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.LoadEvictions(ctx); err != nil {
		t.Fatal(err)
	}
	begun := time.Now().Add(-ago - time.Hour).Truncate(time.Second)
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	job := func(id uint32, user string, tag jobtag.Tag, submit int) cluster.Job {
		text, err := jobtag.Encode(tag)
		if err != nil {
			t.Fatal(err)
		}
		return cluster.Job{ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: user, Partition: "gpu", Priority: 10, Nodes: 1, GPUs: 2, GPUType: "a100",
			TimeLimit: time.Hour, Submit: at(submit), Eligible: at(submit), State: cluster.Pending, Tag: tag, TagText: text}
	}
	running := func(j cluster.Job, start int) cluster.Job {
		j.State, j.Start, j.NodeList = cluster.Running, at(start), "n1"
		return j
	}
	victim := job(1, "ann", jobtag.Tag{Type: "be", Workload: "resnet50", Grace: 30 * time.Second, Signal: "B:USR1"}, 0)
	trial := job(2, "bob\x1b[2J", jobtag.Tag{Type: "te"}, 400)
	late := job(3, "bob\x1b[2J", jobtag.Tag{Type: "te"}, 3000)
	again := victim
	again.Restarts = 1
	slurm := &still{}
	step := func(s int, jobs ...cluster.Job) {
		slurm.Snapshot = cluster.Snapshot{At: at(s), Cluster: "test", Jobs: jobs}
		if _, err := cycle.Step(ctx, slurm, st, h, cycle.Settings{Order: order.Feature{Settings: order.Settings{Top: 1_000_000, Step: 1000}}}); err != nil {
			t.Fatal(err)
		}
	}
	claim := evict.Claim{Number: 1, Job: trial.ID, RawID: 2, User: trial.User, GPUs: 2, Shares: []evict.ClaimShare{{Node: "n1", GPUs: 2}}, State: evict.Planned, At: at(400), Changed: at(400)}
	e := evict.Eviction{Number: 1, Claim: 1, Job: victim.ID, RawID: 1, User: victim.User, Start: at(100), GPUs: 2, Signal: "B:USR1", Grace: 30 * time.Second,
		Promised: 120, State: evict.Recorded, At: at(400)}
	save := func() {
		if err := st.SaveEvictions(ctx, &evict.Changes{Claims: []evict.Claim{claim}, Evictions: []evict.Eviction{e}}); err != nil {
			t.Fatal(err)
		}
	}
	step(0, victim)
	step(100, running(victim, 100))
	step(400, running(victim, 100), trial)
	save()
	e.State, e.SignalledAt = evict.Signalled, at(400)
	save()
	step(410, running(victim, 100), trial)
	e.State, e.How, e.LeftAt, e.RequeuedAt, e.RestoredAt, e.Ended, e.Paid = evict.Done, evict.Exited, at(410), at(411), at(412), at(520), 20
	claim.State, claim.Room, claim.Ended = evict.Started, at(410), at(410)
	save()
	step(420, again, running(trial, 410))
	step(510, again, running(trial, 410))
	step(520, running(again, 520))
	step(1000, running(again, 520))
	step(1001)
	step(3000, late)
}

func TestReportPreemptions(t *testing.T) {
	dir := t.TempDir()
	state, cfg := filepath.Join(dir, "state"), filepath.Join(dir, "priod.toml")
	if err := os.WriteFile(cfg, []byte("[state]\ndir = \""+state+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fillStore(t, state, time.Hour)
	priod := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if status := Main("test", append([]string{"priod", "--config", cfg, "report"}, args...), &out, &errs); status != want {
			t.Fatalf("%v: exit status %d, %s%s", args, status, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	var p view.Preemptions
	if err := json.Unmarshal([]byte(priod(0, "preemptions", "--json")), &p); err != nil {
		t.Fatal(err)
	}
	// The victim ran 310 s, of which 10 were lost, and 480 s, and was done after 1000.
	if p.TE.Jobs != 1 || p.TE.Waiting != 1 || *p.TE.P50 != 10 || p.BE.Jobs != 1 || p.Evicted.Jobs != 1 || *p.Evicted.P50 < 1.27 || *p.Evicted.P50 > 1.30 {
		t.Errorf("TE %+v, BE %+v, evicted %+v %v", p.TE, p.BE, p.Evicted, *p.Evicted.P50)
	}
	if e := p.Evictions; e.Count != 1 || e.Kept != 1 || e.Broken != 0 || e.How["exited"] != 1 || e.Underway != 0 || len(p.ByUser) != 1 || len(p.ForUser) != 1 ||
		p.ByUser[0].Name != "ann" || *p.ByUser[0].P50 != 10 || p.ByWorkload[0].Name != "resnet50" || e.Lost < 0.005 || e.Lost > 0.006 {
		t.Errorf("%+v, %+v, %+v", e, p.ByUser, p.ByWorkload)
	}
	text := priod(0, "preemptions", "--since", "3h")
	for _, want := range []string{"TE: wait", "1 more wait", "1 eviction (exited 1)", "1 of 1 (100 %)", "resnet50", `bob\x1b[2J`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := priod(0, "preemptions", "--since", "1m"); !strings.Contains(text, "No job was evicted") {
		t.Errorf("%s", text)
	}
	for _, args := range [][]string{{"preemptions", "--since", "soon"}, {"preemptions", "--since", "-1h"}, {"preemptions", "17"}, {"weather"}} {
		if text := priod(2, args...); strings.Count(text, "\n") != 1 {
			t.Errorf("%v: %s", args, text)
		}
	}
}
