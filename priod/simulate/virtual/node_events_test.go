package virtual

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

func nodeEvents(t *testing.T, c *trace.Cluster, text string) []trace.NodeEvent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := trace.ReadNodeEvents(path, c)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// A node drains, one fails, all reboot one after the other, a GPU type joins: with jobs of 100 s that come
// each 50 s, with priod, which sees of each node what Slurm would show.
func TestNodeEvents(t *testing.T) {
	c, err := trace.ParseNodes([]string{"2:a100:1", "1:h100:1"})
	if err != nil {
		t.Fatal(err)
	}
	var jobs []trace.Job
	for i := range 40 {
		jobs = append(jobs, trace.Job{ID: fmt.Sprint(i), Submit: float64(50 * i), GPUs: 1, Duration: 100})
	}
	jobs = append(jobs[:2:2], append([]trace.Job{{ID: "h", Submit: 60, GPUs: 1, GPUType: "h100", Duration: 30}}, jobs[2:]...)...)
	seen := map[string][]string{} // by node, its states with the cycle that showed each first
	opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Own: Own{Multifactor: DefaultWeights}, Daemon: daemonOf(t, "", nil)}
	opt.Daemon.Every = true
	opt.Daemon.Seen = func(r *cycle.Result) {
		states := map[string]string{"n0": "none", "n1": "none", "n2": "none"}
		for i := range r.Snapshot.Nodes {
			n := &r.Snapshot.Nodes[i]
			states[n.Name] = n.State
			if n.Usable != (n.State == "UP") {
				t.Errorf("%s is %s, usable %v", n.Name, n.State, n.Usable)
			}
		}
		for name, state := range states {
			if all := seen[name]; len(all) == 0 || !strings.HasPrefix(all[len(all)-1], state+" ") {
				seen[name] = append(all, fmt.Sprintf("%s %.0f", state, r.Snapshot.At.Sub(Epoch).Seconds()))
			}
		}
	}
	opt.NodeEvents = nodeEvents(t, &c, `
events = [
	{at = "120s", event = "drain", nodes = "n0", for = "300s"},
	{at = "600s", event = "join", nodes = "h100"},
	{at = "800s", event = "fail", nodes = "n1", for = "100s"},
	{at = "1001s", event = "reboot", nodes = "n[0-2]", for = "40s", each = 1},
]`)
	r := run(t, c, jobs, opt)
	for i, o := range r.Outcomes {
		if !o.Done {
			t.Errorf("job %s did not end", jobs[i].ID)
		}
	}
	if h := r.Outcomes[2]; h.Start != 600 || h.End != 630 {
		t.Errorf("the job for h100 ran from %v to %v; its type joined at 600", h.Start, h.End)
	}
	for name, want := range map[string]string{
		"n0": "UP, UP+DRAIN 120, UP 420, UP+DRAIN", "n1": "UP, DOWN 800, UP 900, UP+DRAIN", "n2": "none, UP 600, UP+DRAIN",
	} {
		all := seen[name]
		for i, part := range strings.Split(want, ", ") {
			if i >= len(all) || !strings.HasPrefix(all[i]+" ", part+" ") {
				t.Errorf("%s: %q, want %s", name, all, want)
				break
			}
		}
	}
}

// Whatever happens to nodes, no job starts on one that is out of service, no more reboot at a time than
// may, and each job does its work.
func TestNothingStartsOnANodeThatIsOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		opt := Options{
			Backfill:  rapid.SampledFrom([]Backfill{NoBackfill, EASY}).Draw(t, "backfill"),
			Placement: placement.Packed, RequeueDelay: float64(rapid.IntRange(0, 9).Draw(t, "delay")), Epilog: float64(rapid.IntRange(0, 2).Draw(t, "epilog")),
		}
		jobs := possible(c, drawJobs(t, c, 20), opt)
		count, joined := 0, map[int32]bool{}
		for _, g := range c.Nodes {
			count += g.Count
		}
		for i := range jobs {
			jobs[i].Limit = 0
		}
		each := rapid.IntRange(1, 2).Draw(t, "each")
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			v := trace.NodeEvent{
				At: float64(rapid.IntRange(0, 60).Draw(t, "at")), For: float64(rapid.IntRange(1, 20).Draw(t, "for")),
				Kind: rapid.SampledFrom([]trace.NodeEventKind{trace.NodesFail, trace.NodesDrain, trace.NodesReboot, trace.NodesJoin, trace.NodesReserved}).Draw(t, "kind"),
			}
			for n := range int32(count) {
				if rapid.Bool().Draw(t, "node") && (v.Kind != trace.NodesJoin || !joined[n]) {
					v.Nodes = append(v.Nodes, n)
					joined[n] = joined[n] || v.Kind == trace.NodesJoin
				}
			}
			if v.Kind == trace.NodesReboot {
				if slices.ContainsFunc(opt.NodeEvents, func(o trace.NodeEvent) bool { return o.Kind == trace.NodesReboot }) {
					continue
				}
				v.Each = each
			}
			if len(v.Nodes) > 0 {
				opt.NodeEvents = append(opt.NodeEvents, v)
			}
		}
		began := map[int32]int32{} // by job, the run that was seen to begin
		e := moments(t, c, jobs, opt, func(e *engine) {
			for i := range e.running {
				for j := range e.running[i].all {
					for _, s := range j.shares {
						if began[int32(j.index)] != j.runs && e.out[s.Node] != 0 && j.start == e.now {
							t.Fatalf("at %v job %s starts on node %d, which is out: %b", e.now, j.ID, s.Node, e.out[s.Node])
						}
					}
					began[int32(j.index)] = j.runs
				}
			}
			out := 0
			for n := range e.out {
				if e.out[n]&rebooting != 0 {
					out++
				}
			}
			if out > each {
				t.Fatalf("at %v %d nodes reboot, %d may", e.now, out, each)
			}
		})
		for i, o := range e.outcomes {
			if useful := o.Ran - o.Wasted/float64(jobs[i].GPUs); !o.Done || !near(useful, jobs[i].Duration) {
				t.Fatalf("job %s did %v of %v s: %+v", jobs[i].ID, useful, jobs[i].Duration, o)
			}
		}
	})
}
