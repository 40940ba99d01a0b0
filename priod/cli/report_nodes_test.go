package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

// fillRuns stores runs of so many programs on so many nodes, some each day for a fortnight;
// n3 takes a half longer for everything. It returns where priod.toml is.
func fillRuns(t testing.TB, runs, nodes, programs int) string {
	t.Helper()
	dir := t.TempDir()
	state, cfg := filepath.Join(dir, "state"), filepath.Join(dir, "priod.toml")
	if err := os.WriteFile(cfg, []byte("[state]\ndir = \""+state+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), state, store.Options{Once: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	r, now := rand.New(rand.NewPCG(1, 2)), time.Now().Truncate(time.Second)
	stays := make([]cluster.PastStay, runs)
	for i := range stays {
		node, seconds := 1+r.IntN(nodes), 600*math.Exp(0.1*r.NormFloat64())
		if node == 3 {
			seconds *= 1.5
		}
		p := r.IntN(programs)
		start := now.Add(-time.Duration(r.IntN(13*86400)) * time.Second).Add(-time.Hour)
		stays[i] = cluster.PastStay{
			RawID: uint32(i + 1), State: "COMPLETED", Name: fmt.Sprint("train\x1b[2J", p), NodeList: fmt.Sprint("n", node),
			Stay: cluster.Stay{Start: start, End: start.Add(time.Duration(seconds * float64(time.Second))), GPUType: "a100", GPUs: 4, User: fmt.Sprint("u", p)},
		}
	}
	stays[0].NodeList, stays[0].GPUType = "v1", "v100"
	if err := st.SaveStays(t.Context(), stays, now); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestReportNodes(t *testing.T) {
	cfg := fillRuns(t, 2000, 30, 3)
	priod := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if status := Main("test", append([]string{"priod", "--config", cfg}, args...), &out, &errs); status != want {
			t.Fatalf("%v: exit status %d, %s%s", args, status, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	out := priod(0, "report", "nodes", "-n", "5")
	for _, want := range []string{"2000 completed jobs on 31 nodes, 1 of them slow beyond doubt", "slow", `train\x1b[2J`, "on 4 GPUs: 1.", "and 26 more"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.ContainsRune(out, 0x1b) {
		t.Errorf("an escape sequence in\n%q", out)
	}
	if line := strings.Split(out, "\n")[3]; !strings.HasPrefix(line, "n3 ") {
		t.Errorf("the slow one does not come first:\n%s", out)
	}
	var n view.Nodes
	if err := json.Unmarshal([]byte(priod(0, "report", "nodes", "--json", "--gpu-type", "a100")), &n); err != nil {
		t.Fatal(err)
	}
	if first := n.Nodes[0]; n.Jobs != 1999 || n.Slow != 1 || len(n.Nodes) != 30 || first.Name != "n3" || math.Abs(*first.Factor-1.5) > 0.1 || len(first.Where) != 3 {
		t.Errorf("%+v", n)
	}
	if out := priod(0, "report", "nodes", "--gpu-type", "h100"); !strings.Contains(out, "0 completed jobs on 0 nodes") {
		t.Error(out)
	}
	for _, wrong := range [][]string{{"--since", "soon"}, {"--most", "0"}, {"n3"}} {
		priod(2, append([]string{"report", "nodes"}, wrong...)...)
	}
}
