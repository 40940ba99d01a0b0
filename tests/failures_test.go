package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/retry"
	"slurmprio/tests/lab"
)

// ailing is a site on which jobs of a plain user fail for real.
type ailing struct {
	*running
	work string
	open string // folder with a configuration by which users ask priod
}

func newAiling(t *testing.T) *ailing {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root reads what others wrote")
	}
	l := lab.ForTest(t, lab.Options{ExtraConf: []string{
		"JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=task=1", "JobAcctGatherParams=OverMemoryKill",
	}})
	open := openDir(t, 0o777)
	settings := fmt.Sprintf("%s[retry]\nenabled = true\noutput = true\nmin_run = \"0s\"\n[wake]\nlisten = [\"unix:%s/wake\"]\n", quick, open)
	s := newSiteOn(t, l, settings)
	f := &ailing{running: s.daemon(), work: filepath.Join(l.Dir, "work"), open: open}
	f.waitLog("started")
	t.Cleanup(func() { f.slurm("scancel", "--user="+lab.PlainUser) })
	return f
}

// submit submits a job of a plain user that does what it is told once a cycle has seen it: one
// that comes and ends between two polls has no class.
func (f *ailing) submit(script string, args ...string) string {
	f.Helper()
	args = append([]string{"--parsable", "--prio-retry=always", "--gres=gpu:1", "--time=5", "--mem=100M", "--output=" + filepath.Join(f.work, "out-%j"), "--wrap", "while [ ! -e " + f.work + "/seen-$SLURM_JOB_ID ]; do sleep 0.2; done; " + script}, args...)
	out, err := f.lab.As(lab.PlainUser).Run(context.Background(), filepath.Join(bin, "sbatchwrap"), args...)
	if err != nil {
		f.Fatal(err)
	}
	id := strings.TrimSpace(out)
	f.wait("a cycle to see job "+id, func() bool {
		_, _, status := f.priod("explain", id)
		return status == 0
	})
	if err := os.WriteFile(filepath.Join(f.work, "seen-"+id), nil, 0o644); err != nil {
		f.Fatal(err)
	}
	return id
}

// of is the latest failure of a job; nil when there is none.
func (f *ailing) of(id string) *retry.Failure {
	var v struct {
		Failures []retry.Failure `json:"failures"`
	}
	out, _, status := f.priod("explain", id, "--json")
	if status != 0 {
		return nil
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		f.Fatal(err)
	}
	if len(v.Failures) == 0 {
		return nil
	}
	return &v.Failures[0]
}

// tells is what the plain user is told of a job by priod.
func (f *ailing) tells(id string) string {
	f.Helper()
	text, err := os.ReadFile(f.config)
	if err == nil {
		err = os.WriteFile(filepath.Join(f.open, "priod.toml"), text, 0o644)
	}
	if err != nil {
		f.Fatal(err)
	}
	out, err := f.lab.As(lab.PlainUser).Run(context.Background(), filepath.Join(bin, "priod"), "--config", filepath.Join(f.open, "priod.toml"), "explain", id)
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// A job that fails in the same way again is not run a third time: it is held, and its user is told why. When the user releases it and
// it fails once more, it stays where it is.
func TestTheSameFailureStops(t *testing.T) {
	t.Parallel()
	f := newAiling(t)
	id := f.submit("sleep 5; echo 'OSError: [Errno 116] Stale file handle' >&2; exit 1")
	is := func(what string, fields ...string) {
		t.Helper()
		f.wait(what, func() bool {
			text := f.slurm("scontrol", "show", "job", id)
			return !slices.ContainsFunc(fields, func(s string) bool { return !strings.Contains(text, s) })
		})
	}
	is("its first requeue", "JobState=PENDING", "Restarts=1", "Reason=BeginTime")
	f.slurm("scontrol", "update", "JobId="+id, "StartTime=now")
	is("it to be held", "Restarts=2", "Priority=0")
	if out := f.tells(id); !strings.Contains(out, "the same failure came again") || !strings.Contains(out, "held until scontrol release "+id) {
		t.Errorf("its user is told\n%s", out)
	}
	if _, err := f.lab.As(lab.PlainUser).Run(t.Context(), "scontrol", "release", id); err != nil {
		t.Fatal(err)
	}
	is("its third failure", "JobState=FAILED", "Restarts=2")
	f.wait("its user to be told", func() bool { return strings.Contains(f.tells(id), "failed again after its user had released it") })
	is("it to stay", "JobState=FAILED", "Restarts=2")
}

// Where jobs of two users fail soon after their start, no third is to run: on a site without accounting, which teaches no speeds, a job
// of one node that waits refuses that node at once, explain says why, and reset takes it back.
func TestFailingNodeIsAvoided(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root submits as others")
	}
	l := lab.ForTest(t, lab.Options{NoAccounting: true, Nodes: []lab.NodeSpec{{Prefix: "n", Count: 3, GPUType: "a100", GPUs: 4}}})
	s := newSiteOn(t, l, quick+"[retry]\nenabled = true\n[locality]\nslow_nodes = true\n")
	d := s.daemon()
	d.waitLog("started")
	for _, user := range []string{lab.PlainUser, lab.OtherUser} {
		if _, err := l.As(user).Run(t.Context(), "sbatch", "--output=/dev/null", "--nodelist=n1", "--gres=gpu:1", "--time=5", "--wrap", "sleep 8; kill -SEGV $$"); err != nil {
			t.Fatal(err)
		}
	}
	s.wait("both to fail", func() bool {
		return strings.Count(s.slurm("squeue", "--noheader", "--states=FAILED", "--format=%T"), "FAILED") == 2
	})
	for _, node := range l.Nodes {
		if err := l.WaitJob(t.Context(), s.submit("--gres=gpu:4", "--nodelist="+node, "--time=60", "--wrap", "sleep 600"), "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	third := s.submit("--prio-type=be", "--gres=gpu:4", "--time=60", "--wrap", "sleep 600")
	refuses := func() string { return field(s.slurm("scontrol", "show", "job", third), "ExcNodeList") }
	s.wait("it to refuse the node", func() bool { return refuses() == "n1" })
	if out := s.must("explain", third); !strings.Contains(out, "it avoids n1; jobs of several users failed on n1") {
		t.Errorf("explain says\n%s", out)
	}
	d.stop()
	if s.must("reset"); refuses() != "" {
		t.Errorf("reset leaves %q", refuses())
	}
}

// For a gang whose like failed twice soon after their start no job leaves, and its user is told; for another of the same user one does.
func TestGangThatFailsAtOnceGetsNoRoom(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Prefix: "n", Count: 2, GPUType: "a100", GPUs: 4}}})
	e := evictableOn(t, newSiteOn(t, l, evicting+"[retry]\nenabled = true\n"))
	d := e.daemon()
	d.waitLog("started")
	gang := func() string {
		return e.submit("--prio-type=te", "--gres=gpu:a100:4", "--nodes=2", "--time=5", "--wrap", "sleep 8; kill -SEGV $$")
	}
	for range 2 {
		id := gang()
		e.wait("the failure of a gang", func() bool { out, _, _ := e.priod("explain", id); return strings.Contains(out, "class crash") })
	}
	workers := map[string]string{"w1": e.worker("w1", "a100:4", endless, 5, "save"), "w2": e.worker("w2", "a100:4", endless, 5, "save")}
	e.begun("w1", "w2")
	third := gang()
	e.wait("the reason why it gets no room", func() bool {
		out, _, _ := e.priod("explain", third)
		return strings.Contains(out, "failed within ten minutes of their start")
	})
	e.completes(e.trial("a100:4"))
	if state := strings.TrimSpace(e.slurm("squeue", "--noheader", "--job="+third, "--format=%T")); state != "PENDING" {
		t.Errorf("the gang is %s", state)
	}
	e.slurm("scancel", third) // behind it the victim does not start again
	if all := e.settled(); len(all) != 1 || all[0].For.String() == third || all[0].ClaimState != "started" {
		t.Errorf("%+v", all)
	}
	e.slurm("scancel", workers["w1"], workers["w2"])
	d.stop()
}

// Each class is made for real; explain names it, and the job has what its class says.
func TestFailuresGetTheirClass(t *testing.T) {
	t.Parallel()
	f := newAiling(t)
	ctx := t.Context()
	limit := f.submit("sleep 600", "--time=1")
	node := f.submit("sleep 600", "--gres=gpu:v100:1")
	if err := f.lab.WaitJob(ctx, node, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, script, class, state, reason string }{
		{"a missing file", "cat /nowhere/data", "input", "FAILED", ""},
		{"out of memory", "x=$(head -c 400000000 /dev/zero | tr '\\0' x); sleep 60", "memory", "FAILED", ""},
		{"killed", "kill -9 $$", "unknown", "PENDING", "BeginTime"},
		{"a crash", "kill -SEGV $$", "crash", "PENDING", "BeginTime"},
		{"a missing module", "echo \"ModuleNotFoundError: No module named 'x'\" >&2; exit 1", "environment", "FAILED", ""},
		{"a connection", "echo 'ncclSystemError: System call failed' >&2; exit 1", "network", "PENDING", "BeginTime"},
		{"a full disk", "echo 'OSError: [Errno 28] No space left on device' >&2; exit 1", "full", "", ""},
	}
	ids := make([]string, len(cases))
	for i, x := range cases {
		ids[i] = f.submit(x.script)
	}
	for i, x := range cases {
		id := ids[i]
		f.sub(t, x.name, func() {
			f.wait("the class of "+x.name, func() bool { return f.of(id) != nil })
			row := f.of(id)
			if row.Class != x.class {
				t.Errorf("%s: %+v\n%s", x.name, row, f.must("explain", id))
			}
			state := func() string {
				return strings.TrimSpace(f.slurm("squeue", "--noheader", "--states=all", "--job="+id, "--format=%T %r"))
			}
			f.wait("its state", func() bool { return x.state == "" || strings.HasPrefix(state(), x.state+" "+x.reason) })
			t.Logf("%s: class %s, %s, %s; %s; advice: %s", x.name, row.Class, row.Do, state(), row.Line, row.Advice)
			if out := f.must("explain", id); !strings.Contains(out, "class "+x.class) {
				t.Errorf("explain says\n%s", out)
			}
			if x.class == "full" { // its owner lets it go
				if held := state(); !strings.Contains(strings.ToLower(held), "held") && !strings.Contains(held, "HOLD") {
					t.Errorf("not held: %s", held)
				}
				if _, err := f.lab.As(lab.PlainUser).Run(ctx, "scontrol", "release", id); err != nil {
					t.Error(err)
				}
				f.wait("its release", func() bool {
					s := state()
					return strings.HasPrefix(s, "PENDING BeginTime") || strings.HasPrefix(s, "RUNNING")
				})
			}
		})
	}
	f.sub(t, "a dying node", func() {
		name := strings.TrimSpace(f.slurm("squeue", "--noheader", "--job="+node, "--format=%N"))
		if err := f.lab.Kill(ctx, lab.Slurmd(name)); err != nil { // else it says that it is up
			t.Fatal(err)
		}
		f.slurm("scontrol", "update", "NodeName="+name, "State=DOWN", "Reason=test")
		f.wait("the node to be refused", func() bool {
			return strings.Contains(f.slurm("scontrol", "show", "job", node), "ExcNodeList="+name)
		})
		if row := f.of(node); row == nil || row.Class != "node" || row.Exclude != name {
			t.Errorf("%+v", row)
		}
	})
	f.sub(t, "its time limit", func() {
		f.wait("the time limit", func() bool { return f.of(limit) != nil })
		if row := f.of(limit); row.Class != "time" || row.Do != retry.Nothing || !strings.Contains(row.Advice, "longer --time") {
			t.Errorf("%+v", row)
		}
	})
	out := f.must("report", "failures")
	for _, class := range []string{"input", "memory", "unknown", "crash", "environment", "network", "full", "node", "time"} {
		if !strings.Contains(out, class) {
			t.Errorf("report failures lacks %s:\n%s", class, out)
		}
	}
	f.stop()
	f.must("reset")
	if out := f.slurm("scontrol", "show", "job", node); strings.Contains(out, "ExcNodeList=v100") && strings.Contains(out, "JobState=PENDING") {
		t.Errorf("reset left\n%s", out)
	}
}
