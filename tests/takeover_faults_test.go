package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/journal"
	"slurmprio/tests/lab"
	"slurmprio/tests/shim"
)

// cutOff lets the second host believe that the first one's slurmctld is down: its commands
// reach the one that acts all the same.
func (p *hostPair) cutOff() {
	s := p.stays
	settings := sharingOf(s.site)
	s.strange(map[string]string{"scontrol": `case "$*" in *ping*) $real "$@" | sed 's/at ctl1 is UP/at ctl1 is DOWN/'; exit 0;; esac`})
	s.configure(settings)
}

// The hosts are cut off from each other, not from Slurm: each takes its own slurmctld for the
// active one, and both have the folder, or one of them lacks it. Each value is written by one,
// nobody is evicted twice, it is said, and reset takes all of it back.
func TestBothHostsSeemToAct(t *testing.T) {
	longOnly(t)
	t.Parallel()
	for _, lacks := range []bool{false, true} {
		t.Run(fmt.Sprintf("one lacks the folder: %v", lacks), func(t *testing.T) {
			t.Parallel()
			p := newHostPair(t, false, lab.Options{Nodes: []lab.NodeSpec{{Count: 2, GPUType: "t4", GPUs: 4}, {Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}}})
			e := p.acts
			victim := e.full(20, "save")
			e.blocker("a100:4")
			e.blocker("v100:4")
			own := "v100|a100"
			waits := e.submit("--prio-type=be", "--prio-speed=v100:1,a100:3", "--gres=gpu:4", "--time=60", "--constraint="+own, "--wrap", "sleep 600")
			constraint := func() string {
				return strings.TrimSpace(e.slurm("squeue", "--noheader", "--jobs="+waits, "--format=%f"))
			}
			p.cutOff()
			want := "check the network between them"
			if lacks {
				shared := sharedBy(t, e.site)
				p.stays.configure(strings.Replace(sharingOf(p.stays.site), shared, shared+"-not-mounted", 1))
				want = "mount it"
			}
			first := e.daemon()
			var second *running
			if lacks { // it ends, and systemd starts it again
				_, errs, status := p.stays.priod("run")
				if status != 1 || !strings.Contains(errs, want) {
					t.Errorf("without the folder: exit status %d: %s", status, errs)
				}
			} else {
				second = p.stays.daemon()
			}
			trial := e.trial("t4:2")
			e.completes(trial)
			e.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") == 2 })
			e.completes(victim)
			e.wait("the other job to be given a type", func() bool { return constraint() != own })
			daemons := []*running{first}
			if second != nil {
				e.wait("both to say so", func() bool {
					return strings.Contains(first.log.String(), want) && strings.Contains(second.log.String(), want)
				})
				daemons = append(daemons, second)
			}
			if text := e.log("w"); strings.Count(text, "start ") != 2 || strings.Count(text, "complete") != 1 {
				t.Errorf("the victim:\n%s", text)
			}
			for value, of := range writes(daemons...) {
				for i := range of[1:] { // what the one before had under way as this one took over may be written twice
					if before, w := of[i], of[i+1]; w.by != before.by && w.since >= before.at {
						t.Errorf("%s is written by the priod of %s and, after it took over, by that of %s", value, before.by.host, w.by.host)
					}
				}
			}
			e.must("reset")
			if now := constraint(); now != own {
				t.Errorf("reset leaves the constraint %q", now)
			}
			if left := e.slurm("sprio", "--noheader", "--format=%S"); strings.Trim(left, " 0\n") != "" {
				t.Errorf("reset leaves\n%s", left)
			}
			for _, d := range daemons {
				d.stop()
			}
		})
	}
}

// The shared folder is put back from an older copy, first under the priod that acts, then as
// its host is lost for ever: the first one writes it anew, the other one writes nothing until
// it is told that nothing newer is left, and reset takes back what is known then.
func TestOlderSharedFolder(t *testing.T) {
	longOnly(t)
	t.Parallel()
	p := newHostPair(t, false, lab.Options{Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}}})
	e, shared := p.acts, sharedBy(t, p.acts.site)
	copied := filepath.Join(t.TempDir(), "copy")
	cp := func(from, to string) {
		t.Helper()
		if out, err := exec.Command("sh", "-ec", `rm -rf "$2" && cp -a "$1" "$2"`, "sh", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	e.blocker("a100:4")
	e.blocker("v100:4")
	own := "v100|a100"
	waiting := func() string {
		return e.submit("--prio-type=be", "--prio-speed=v100:1,a100:3", "--gres=gpu:4", "--time=60", "--constraint="+own, "--wrap", "sleep 600")
	}
	constraint := func(id string) string {
		out, err := p.Run(t.Context(), "squeue", "--noheader", "--jobs="+id, "--format=%f")
		if err != nil {
			return own
		}
		return strings.TrimSpace(out)
	}
	first, second := e.daemon(), p.stays.daemon()
	ids := []string{waiting()}
	e.wait("the first one to be given a type", func() bool { return constraint(ids[0]) != own })
	cp(shared, copied)
	ids = append(ids, waiting())
	e.wait("the second one to be given a type", func() bool { return constraint(ids[1]) != own })
	cp(copied, shared)
	first.waitLog("rewritten from memory")
	undone := func(id string) bool {
		text, err := os.ReadFile(journal.Path(shared))
		return err == nil && strings.Contains(string(text), `"job":"`+id+`"`)
	}
	e.wait("the journal to know both", func() bool { return undone(ids[0]) && undone(ids[1]) })
	if n := strings.Count(first.log.String(), "rewritten from memory"); n > 3 {
		t.Errorf("it says so %d times:\n%s", n, first.log)
	}
	saved(t, p.Lab)
	first.doom()
	first.kill()
	cp(copied, shared)
	if err := p.Kill(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(e.dir, "state")); err != nil {
		t.Fatal(err)
	}
	second.wait("the other host to refuse it", func() bool { return strings.Contains(second.log.String(), "and not an older copy") })
	third := waiting()
	if out, _, status := p.stays.priod("check", "--deep"); status != 1 || !strings.Contains(out, "FAIL  shared folder") || !strings.Contains(out, "and not an older copy") {
		t.Errorf("check --deep: exit status %d\n%s", status, out)
	}
	if _, errs, status := p.stays.priod("reset"); status != 1 || !strings.Contains(errs, "and not an older copy") {
		t.Errorf("reset: exit status %d: %s", status, errs)
	}
	if text := second.log.String(); strings.Contains(text, "wrote:") || constraint(third) != own {
		t.Errorf("it writes:\n%s", text)
	}
	if n := strings.Count(second.log.String(), "and not an older copy"); n > 3 {
		t.Errorf("it says so %d times:\n%s", n, second.log)
	}
	if err := os.Remove(filepath.Join(p.stays.dir, "state", "owner.json")); err != nil {
		t.Fatal(err)
	}
	e.wait("the third one to be given a type", func() bool { return constraint(third) != own })
	second.stop()
	p.stays.must("reset")
	for _, id := range []string{ids[0], third} {
		if now := constraint(id); now != own {
			t.Errorf("reset leaves job %s with the constraint %q", id, now)
		}
	}
}

// The clocks of the hosts differ by ten minutes, one way and the other, as one is lost in the
// middle of an eviction: it is finished once, and reset gives all back. priod is built on a
// package time whose wall clock is ahead, since Go reads it without the C library.
func TestClocksOfTheHosts(t *testing.T) {
	t.Parallel()
	longOnly(t)
	if _, err := exec.LookPath("go"); err != nil || watchesRaces() {
		t.Skip("this builds a priod of its own")
	}
	misdated := buildMisdated(t)
	for _, ahead := range []string{"10m", "-10m"} {
		t.Run(ahead, func(t *testing.T) {
			t.Parallel()
			p := newHostPair(t, false, lab.Options{Nodes: []lab.NodeSpec{{Count: 2, GPUType: "t4", GPUs: 4}, {Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}}})
			acts, stays := p.acts, p.stays
			stays.program, stays.ahead = misdated, ahead
			victim := acts.full(20, "save")
			acts.blocker("a100:4")
			acts.blocker("v100:4")
			own := "v100|a100"
			waits := acts.submit("--prio-type=be", "--prio-speed=v100:1,a100:3", "--gres=gpu:4", "--time=60", "--constraint="+own, "--wrap", "sleep 600")
			constraint := func() string {
				return strings.TrimSpace(stays.slurm("squeue", "--noheader", "--jobs="+waits, "--format=%f"))
			}
			d, standby := p.begin(t)
			if out, _, _ := stays.priod("check", "--all"); !strings.Contains(out, "WARN  clocks") || !strings.Contains(out, "10m") {
				t.Errorf("check does not tell of the clock:\n%s", out)
			}
			acts.throw(d, shim.Fault{Command: "scontrol requeue", When: "before", Call: 1, Do: shim.Kill})
			first := acts.doomed()
			trial := acts.trial("t4:2")
			acts.wait("the moment", func() bool { return len(d.Thrown()) > 0 })
			first.ends()
			acts.throw(d)
			p.lose(t, first, standby)
			// Its begin time is by slurmctld, whose clock is the machine's: a priod that is ahead takes it for past.
			stays.wait("the victim to run again", func() bool { return strings.Count(stays.log("w"), "start ") == 2 })
			stays.completes(victim)
			stays.completes(trial)
			stays.leftOnce("w")
			if all := ofPurpose("te", stays.settled()); len(all) != 1 || all[0].State != "done" || all[0].ClaimState != "started" {
				t.Errorf("%+v", all)
			}
			stays.wait("the other job to be given a type", func() bool { return constraint() != own })
			actsWithinTwoCycles(t, standby)
			finishedInTwoCycles(t, standby, victim)
			standby.stop()
			stays.must("reset")
			if now := constraint(); now != own {
				t.Errorf("reset leaves the constraint %q", now)
			}
		})
	}
}

// buildMisdated builds a priod whose wall clock is ahead by CLOCK_AHEAD.
func buildMisdated(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	clock := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(clock)
	if err != nil {
		t.Fatal(err)
	}
	const read = "\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), read) < 1 {
		t.Fatalf("%s does not read the clock as it did", clock)
	}
	files := map[string]string{
		"time.go":  strings.ReplaceAll(string(text), read, read+"\tsec += ahead\n"),
		"ahead.go": "package time\n\nimport \"syscall\"\n\nvar ahead = func() int64 {\n\ttext, _ := syscall.Getenv(\"CLOCK_AHEAD\")\n\td, _ := ParseDuration(text)\n\treturn int64(d / Second)\n}()\n",
	}
	var replaced []string
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		replaced = append(replaced, fmt.Sprintf("%q: %q", filepath.Join(filepath.Dir(clock), name), path))
	}
	slices.Sort(replaced)
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, []byte(`{"Replace": {`+strings.Join(replaced, ", ")+`}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "priod")
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-ldflags", "-s -X slurmprio/priod/config.Settable=yes", "-overlay", overlay, "-o", path, "slurmprio/priod").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
