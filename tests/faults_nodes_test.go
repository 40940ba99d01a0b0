package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// Nodes and a GPU type appear and vanish under the daemon: it goes on, says what
// a priod says that is started fresh, and the end is as if they had never been.
func TestNodesAppearAndVanish(t *testing.T) {
	t.Parallel()
	const seed = 1 // the users' steps do not matter here
	l := lab.ForTest(t, lab.Options{NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}}})
	conf := func(name string) (path, text string) {
		path = filepath.Join(l.Dir, "etc", name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, string(data)
	}
	slurmConf, plainNodes := conf("slurm.conf")
	gresConf, plainGres := conf("gres.conf")
	const newNodes, newGres = "NodeName=h100-[1-2] NodeAddr=127.0.0.1 Port=[1-2] CPUs=16 RealMemory=65536 Gres=gpu:h100:8 Feature=h100 State=DOWN\n",
		"NodeName=h100-[1-2] Name=gpu Type=h100 Count=8\n"
	with := func(s *site, nodes, gres string) {
		s.Helper()
		for path, text := range map[string]string{slurmConf: plainNodes + nodes, gresConf: plainGres + gres} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				s.Fatal(err)
			}
		}
		if err := l.Restart(s.Context(), "slurmctld"); err != nil {
			s.Fatal(err)
		}
		s.wait("slurmctld to answer", func() bool { _, err := l.Run(s.Context(), "squeue"); return err == nil })
	}
	scenarios := []struct {
		name string
		do   func(*site)
	}{
		{"a node goes down", func(s *site) { s.slurm("scontrol", "update", "NodeName=a100-1", "State=DRAIN", "Reason=test") }},
		{"a node comes back", func(s *site) { s.slurm("scontrol", "update", "NodeName=a100-1", "State=RESUME") }},
		{"a GPU type appears", func(s *site) { with(s, newNodes, newGres) }},
		{"a GPU type vanishes", func(s *site) { with(s, "", "") }},
	}
	want := undisturbed(newSiteOn(t, l, roomy), seed, len(scenarios), nil)

	address := freePort(t)
	s := newSiteOn(t, l, fmt.Sprintf("%s%s[metrics]\nlisten = %q\n", quick, roomy, address))
	q := newQueue(s, seed)
	h := harmed{scraper: scraper{s.daemon(), address}}
	h.waitLog("wrote:")
	for i, scenario := range scenarios {
		s.sub(t, scenario.name, func() {
			q.step()
			scenario.do(s)
			h.cycles(2)
			s.sameQueue(want[i+1])
			if diff := s.must("run", "--dry-run"); !strings.Contains(diff, "nothing to write") {
				t.Errorf("a fresh priod would write:\n%s", diff)
			}
			if scenario.name != "a GPU type appears" {
				return
			}
			typed := s.submit("--prio-type=te", "--gres=gpu:h100:1", "--time=5", "--wrap", "sleep 600")
			h.waitTicking("the typed trial's value", func() bool { v := s.siteFactor(typed); return v != "" && v != "0" })
			if out := s.must("explain", typed); !strings.Contains(out, "h100") {
				t.Errorf("explain says\n%s", out)
			}
			s.slurm("scancel", typed)
		})
	}
	h.stop()
	s.checkReset(want[len(want)-1])
}
