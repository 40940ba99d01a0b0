package tests

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slurmprio/tests/lab"
)

// configuration is one file of tests/sites.
type configuration struct {
	about string
	parts map[string]string
}

func readConfiguration(t *testing.T, path string) configuration {
	t.Helper()
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := configuration{about: string(a.Comment), parts: map[string]string{}}
	for _, f := range a.Files {
		c.parts[f.Name] = strings.TrimSpace(string(f.Data))
	}
	if !strings.Contains(c.about, "\nSource: ") {
		t.Errorf("%s names no source", path)
	}
	return c
}

// lines of a part, none where the file lacks it.
func (c configuration) lines(part string) []string {
	if c.parts[part] == "" {
		return nil
	}
	return strings.Split(c.parts[part], "\n")
}

var since = regexp.MustCompile(`(?m)^Since: (\d+)\.(\d+)$`)

// options builds the lab of a configuration; a node line is COUNT PREFIX GRES and what else slurm.conf says of them.
func (c configuration) options(t *testing.T) lab.Options {
	t.Helper()
	o := lab.Options{ExtraConf: c.lines("slurm.conf"), Partitions: c.lines("partitions"), GresConf: c.parts["gres.conf"], Sacctmgr: c.lines("sacctmgr")}
	if o.GresConf != "" {
		o.GresConf += "\n"
	} else {
		o.GresConf = "NodeName=gpu-[1-2] Name=gpu Type=a100 File=/dev/gpu[0-3]\n"
	}
	o.ExtraFiles = map[string]string{}
	for _, name := range []string{"topology.conf", "helpers.conf"} {
		if text := c.parts[name]; text != "" {
			o.ExtraFiles[name] = text + "\n"
		}
	}
	for _, line := range c.lines("nodes") {
		f := strings.Fields(line)
		n, err := strconv.Atoi(f[0])
		if len(f) < 3 || err != nil {
			t.Fatalf("nodes: %q is not COUNT PREFIX GRES", line)
		}
		o.Nodes = append(o.Nodes, lab.NodeSpec{Count: n, Prefix: f[1], Gres: f[2], Extra: strings.Join(f[3:], " ")})
	}
	return o
}

// left shows all that priod may change in a job.
func (s *site) left() string {
	s.Helper()
	return s.slurm("squeue", "--noheader", "--states=PENDING", "--sort=i", "--Format=JobID:|,Nice:|,Feature:|,Comment:|,ReqNodes:|,NumCPUs:|,MinMemory:|")
}

// Each configuration of tests/sites on a real Slurm: check and some cycles with everything
// on read all of it, a trial gets the room that BE jobs hold, and reset leaves nothing.
func TestSites(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("sites/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d sites, %v; want 30 at least", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			c := readConfiguration(t, path)
			if !strings.Contains(c.about, "\nRuns in make test.\n") {
				longOnly(t)
			}
			if m := since.FindStringSubmatch(c.about); m != nil {
				year, _ := strconv.Atoi(m[1])
				month, _ := strconv.Atoi(m[2])
				if !lab.AtLeast(year, month) {
					t.Skipf("Slurm before %s.%s lacks it", m[1], m[2])
				}
			}
			t.Parallel()
			runSite(t, c)
		})
	}
}

func runSite(t *testing.T, c configuration) {
	s := newSiteOn(t, lab.ForTest(t, c.options(t)), together+c.parts["priod.toml"]+"\n[locality]\nenabled = true\n[retry]\nenabled = true\n")
	for _, line := range c.lines("run") {
		s.slurm("scontrol", strings.Fields(line)...)
	}
	gres := c.parts["full"]
	e := evictableOn(t, s)
	for i := range s.lab.Nodes {
		e.worker(fmt.Sprint("w", i), strings.TrimPrefix(gres, "gpu:"), endless, 5, "save", "--mem=100")
	}
	e.wait("the BE jobs to run", func() bool {
		return strings.TrimSpace(s.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i")) != ""
	})
	waits := s.submit("--prio-type=be", "--gres="+gres, "--mem=100", "--time=60", "--wrap", "sleep 600")
	trial := s.submit("--prio-type=te", "--gres="+gres, "--mem=100", "--time=5", "--wrap", "sleep 600")
	defer func() {
		if t.Failed() {
			why, _, _ := s.priod("explain", trial)
			t.Logf("%s\n%s", s.slurm("squeue"), why)
		}
	}()
	out, errs, status := s.priod("check", "--all")
	if status > 1 || strings.Contains(out+errs, "cannot be trusted") || strings.Contains(out+errs, "panic") {
		t.Errorf("check: exit status %d\n%s%s", status, out, errs)
	}
	if want := c.parts["check"]; !strings.Contains(out, want) {
		t.Errorf("check does not say %q:\n%s", want, out)
	}
	before := s.left()
	for range rounds(2, 5) { // the second reads what the first wrote
		if _, errs, status := s.priod("run", "--once"); status != 0 || strings.Contains(errs, "cannot be trusted") {
			t.Fatalf("run --once: exit status %d: %s", status, errs)
		}
	}
	d := s.daemon()
	e.runs(trial)
	d.stop()
	s.must("reset")
	for line := range strings.Lines(s.left()) {
		if id, _, _ := strings.Cut(line, "|"); id == waits && !strings.Contains(before, line) {
			t.Errorf("reset leaves %q, before it was among\n%s", line, before)
		}
	}
}
