package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/order"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/priod/waits"
	"slurmprio/slurmplug"
)

// fillWaits records how a gang of 8 GPUs waits on two nodes half used, while ann's small
// job came later and started.
func fillWaits(t *testing.T, dir string) {
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
	begun := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	job := func(id uint32, user string, gpus, submit int) cluster.Job {
		return cluster.Job{ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: user, Account: "lab", Partition: "gpu", Priority: int64(1000 - id), Nodes: 1, CPUs: gpus, GPUs: gpus, GPUType: "a100",
			Reason: "Resources", TimeLimit: time.Hour, Submit: at(submit), Eligible: at(submit), State: cluster.Pending}
	}
	running := func(j cluster.Job, start int, on string) cluster.Job {
		j.State, j.Start, j.NodeList = cluster.Running, at(start), on
		return j
	}
	node := func(name string, used int) cluster.Node {
		return cluster.Node{Name: name, Usable: true, State: "MIXED", GPUType: "a100", GPUs: 8, GPUsUsed: used, CPUs: 64, CPUsUsed: used, MemMB: 1024, Partitions: []string{"gpu"}}
	}
	set := cycle.Settings{Order: order.Feature{Settings: order.Settings{Top: 1_000_000, Step: 1000}}, Waits: waits.Feature{Tracker: &waits.Tracker{}}}
	step := func(s, used1, used2 int, jobs ...cluster.Job) {
		slurm := &still{}
		slurm.Snapshot = cluster.Snapshot{At: at(s), Cluster: "test", Jobs: jobs, Nodes: []cluster.Node{node("n1", used1), node("n2", used2)}}
		if _, err := cycle.Step(ctx, slurm, st, h, set); err != nil {
			t.Fatal(err)
		}
	}
	one, two, gang, small := job(1, "bob", 4, 0), job(2, "bob", 4, 0), job(3, "eve\x1b[2J", 8, 5), job(4, "ann", 1, 65)
	step(0, 0, 0, one, two)
	step(10, 4, 4, running(one, 1, "n1"), running(two, 1, "n2"), gang)
	step(70, 4, 4, running(one, 1, "n1"), running(two, 1, "n2"), gang, small)
	step(100, 5, 4, running(one, 1, "n1"), running(two, 1, "n2"), gang, running(small, 80, "n1"))
	step(130, 5, 0, running(one, 1, "n1"), gang, running(small, 80, "n1"))
	step(160, 5, 8, running(one, 1, "n1"), running(gang, 130, "n2"), running(small, 80, "n1"))
}

func TestReportWaits(t *testing.T) {
	dir := t.TempDir()
	state, cfg := filepath.Join(dir, "state"), filepath.Join(dir, "priod.toml")
	if err := os.WriteFile(cfg, []byte("[state]\ndir = \""+state+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fillWaits(t, state)
	priod := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if status := Main("test", append([]string{"priod", "--config", cfg}, args...), &out, &errs); status != want {
			t.Fatalf("%v: exit status %d, %s%s", args, status, out.String(), errs.String())
		}
		return out.String()
	}
	page := filepath.Join(dir, "page.html")
	var w view.Waiting
	if err := json.Unmarshal([]byte(priod(0, "report", "waits", "--json", "--html", page)), &w); err != nil {
		t.Fatal(err)
	}
	size := func(name string) *view.WaitsOf {
		for i := range w.BySize {
			if w.BySize[i].Name == name {
				return &w.BySize[i]
			}
		}
		t.Fatalf("no %q in %+v", name, w.BySize)
		return nil
	}
	// In a pool it would start when one of the first two jobs ends: until ann's came, enough
	// were free for it; then one was lacking, for 14 s.
	if g := size("5-8 GPUs"); g.Jobs != 1 || g.Started != 1 || g.Wait != 125 || g.GPUWait != 1000 || g.Causes["fragmentation"] != 888 || g.Causes["capacity"] != 112 {
		t.Errorf("%+v", g)
	}
	if s := size("1 GPU"); s.Jobs != 1 || s.Wait != 15 {
		t.Errorf("%+v", s)
	}
	if w.All.Jobs != 4 || w.All.Wait != 125+15+2 || len(w.ByUser) != 3 || w.ByType[0].Name != "a100" {
		t.Errorf("%+v", w.All)
	}
	table := priod(0, "report", "waits")
	for _, want := range []string{"5-8 GPUs", "fragmentation %", "shape", "PARTITION", "GPU TYPE"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
	if strings.Contains(table, "\x1b") {
		t.Error("a user's name reaches the terminal as it is")
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte(`<figure class="chart"`)) || bytes.Contains(text, []byte("\x1b")) {
		t.Errorf("the page lacks its plot, or escapes: %v", err)
	}
	story := priod(0, "explain", "3")
	for _, want := range []string{"waited 2m", "fragmentation (shape): requests 8 GPUs on one node; 8 are free on 2 nodes, at most 4 on one; it would fit now on 2 nodes"} {
		if !strings.Contains(story, want) {
			t.Errorf("%q is not in\n%s", want, story)
		}
	}
	priod(2, "report", "waits", "--since", "yesterday")
}

// A job that priod never saw is unknown to evictions as it is to explain.
func TestEvictionsOfAnUnknownJob(t *testing.T) {
	dir := t.TempDir()
	state, cfg := filepath.Join(dir, "state"), filepath.Join(dir, "priod.toml")
	if err := os.WriteFile(cfg, []byte("[state]\ndir = \""+state+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fillWaits(t, state)
	for id, want := range map[string]int{"9999": exitProblem, "3": exitDone} {
		var out, errs bytes.Buffer
		if status := Main("test", []string{"priod", "--config", cfg, "evictions", id}, &out, &errs); status != want || want == exitProblem && !strings.Contains(errs.String(), "job 9999") {
			t.Errorf("evictions %s: status %d, %s%s", id, status, &out, &errs)
		}
	}
}
