package tests

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/priod/retry"
	"slurmprio/tests/lab"
)

// ailing is a site on which jobs of a plain user fail for real.
type ailing struct {
	*running
	work string
}

func newAiling(t *testing.T) *ailing {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root reads what others wrote")
	}
	l := lab.ForTest(t, lab.Options{ExtraConf: []string{
		"JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=task=1", "JobAcctGatherParams=OverMemoryKill",
	}})
	s := newSiteOn(t, l, quick+"[retry]\nenabled = true\noutput = true\nmin_run = \"0s\"\n")
	f := &ailing{running: s.daemon(), work: filepath.Join(l.Dir, "work")}
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
