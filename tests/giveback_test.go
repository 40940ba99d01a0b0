package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// newGiveBackSite has one node on which a job that holds far more memory than it uses
// keeps another one from its GPU.
func newGiveBackSite(t *testing.T) *site {
	return newSiteOn(t, lab.ForTest(t, lab.Options{
		NoAccounting: true,
		Nodes:        []lab.NodeSpec{{Count: 1, GPUType: "t4", GPUs: 4, CPUs: 16, MemoryMB: 40000}},
		ExtraConf:    []string{"PrologFlags=Contain", "JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=task=1"},
	}), "[sizing]\ngive_back = true\ngive_back_after = \"1s\"\n")
}

// holding submits a job that holds 35000 MB and uses some 300, and one that waits.
func (s *site) holding(more ...string) (idle, waits string) {
	s.Helper()
	idle = s.submit(append(more, "--gres=gpu:1", "-c", "2", "--mem=35000", "--time=5", "--wrap", `exec python3 -c 'import time; a = bytearray(300 << 20); time.sleep(600)'`)...)
	s.wait("the job that holds memory", func() bool {
		return strings.Contains(s.slurm("squeue", "--noheader", "--jobs="+idle, "--format=%T"), "RUNNING")
	})
	waits = s.submit("--gres=gpu:1", "-c", "2", "--mem=10000", "--time=5", "--wrap", "sleep 600")
	s.wait("the job that waits", func() bool {
		return strings.Contains(s.slurm("squeue", "--noheader", "--jobs="+waits, "--format=%r"), "Resources")
	})
	s.wait("what the job uses", func() bool {
		return regexp.MustCompile(`(?m)^` + idle + ` .* (3\d\d|4\d\d) +\d+ +\w+$`).MatchString(s.must("report", "sizing"))
	})
	return idle, waits
}

var minMemory = regexp.MustCompile(`MinMemoryNode=(\d+[MG])`)

// memoryOf is the memory that a job asks for on its node, and its state.
func (s *site) memoryOf(job string) string {
	s.Helper()
	out := s.slurm("scontrol", "-o", "show", "job", job)
	if m := minMemory.FindStringSubmatch(out); m != nil {
		return m[1] + " " + regexp.MustCompile(`JobState=(\w+)`).FindStringSubmatch(out)[1]
	}
	return out
}

// A running job that agreed gives back what it has not used, and the job that lacked it
// starts; requeued it has its own request again before it runs, and so it has after reset,
// whenever priod was killed.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	s := newGiveBackSite(t)
	if !s.namesRuns() {
		t.Skip("Slurm 26.05 and later lower the memory of jobs that run; TestGiveBackElsewhere runs here")
	}
	lowered := regexp.MustCompile(`^1[34]\d\dM (RUNNING|RESIZING)$`)
	for _, verb := range []string{"run --once", "reset"} {
		idle, waits := s.holding("--prio-give-back")
		if told := s.must("diff"); !regexp.MustCompile(`(?m)^` + idle + ` .* MinMemoryNode +35000 +1[34]\d\d +memory`).MatchString(told) {
			t.Errorf("diff does not tell what is lowered:\n%s", told)
		}
		if now := s.memoryOf(idle); now != "35000M RUNNING" {
			t.Errorf("diff lowers it: %s", now)
		}
		s.must("run", "--once")
		if now := s.memoryOf(idle); !lowered.MatchString(now) {
			t.Fatalf("the job that holds memory has %s:\n%s\n%s", now, s.must("explain", idle), s.must("report", "sizing"))
		}
		s.wait("the job that lacked memory", func() bool {
			return strings.Contains(s.slurm("squeue", "--noheader", "--jobs="+waits, "--format=%T"), "RUNNING")
		})
		if told := s.must("report", "sizing"); !regexp.MustCompile(`(?m)^` + idle + ` .* 35000 +1[34]\d\d +33\d\d\d$`).MatchString(told) {
			t.Errorf("report sizing does not tell what was given back:\n%s", told)
		}
		if told := s.must("explain", idle); !strings.Contains(told, "MinMemoryNode 35000 -> 1") || !strings.Contains(told, "MinMemoryNode as its user wrote it: 35000") {
			t.Errorf("explain does not tell it:\n%s", told)
		}
		s.must("run", "--once")
		if now := s.memoryOf(idle); !lowered.MatchString(now) {
			t.Errorf("the next cycle makes of it %s", now)
		}
		s.slurm("scontrol", "requeue", idle)
		s.wait("the requeue", func() bool { return strings.HasSuffix(s.memoryOf(idle), " PENDING") })
		if now := s.memoryOf(idle); now == "35000M PENDING" {
			t.Errorf("Slurm gives a requeued job its memory again: priod need not")
		}
		s.must(strings.Fields(verb)...)
		if now := s.memoryOf(idle); now != "35000M PENDING" {
			t.Errorf("after %s the requeued job asks for %s:\n%s", verb, now, s.must("explain", idle))
		}
		if left := s.journalled(); verb == "reset" && len(left) > 0 {
			t.Errorf("reset leaves %+v", left)
		}
		if verb == "reset" {
			s.must("resume")
		}
		s.clear()
	}

	// Nobody is lowered who did not agree, and nobody while none waits.
	idle, waits := s.holding()
	s.must("run", "--once")
	if now := s.memoryOf(idle); now != "35000M RUNNING" {
		t.Errorf("a job that did not agree has %s", now)
	}
	s.slurm("scancel", idle, waits)
	s.clear()
	idle, waits = s.holding("--prio-give-back")
	s.slurm("scontrol", "hold", waits)
	s.must("run", "--once")
	if now := s.memoryOf(idle); now != "35000M RUNNING" {
		t.Errorf("while nobody waits for it a job has %s", now)
	}
}

// priod that was killed before or after the write finds its way, also when give_back is
// off by then.
func TestGiveBackSurvivesKill(t *testing.T) {
	t.Parallel()
	s := newGiveBackSite(t)
	if !s.namesRuns() {
		t.Skip("Slurm 26.05 and later lower the memory of jobs that run")
	}
	const settings = "[sizing]\ngive_back = true\ngive_back_after = \"1s\"\n"
	for _, when := range []string{"before", "after"} {
		idle, _ := s.holding("--prio-give-back")
		write := map[string]string{"after": `$real "$@"; `}[when]
		s.strange(map[string]string{"scontrol": `case "$#$*" in 0*|*MinMemoryNode=*) ` + write + `kill -9 $PPID; exit 1;; esac`})
		s.configure(settings)
		if out, errs, status := s.priod("run", "--once"); status >= 0 {
			t.Fatalf("priod was not killed: %d\n%s%s", status, out, errs)
		}
		s.binDir = ""
		s.configure(settings)
		if undo, err := os.ReadFile(filepath.Join(s.dir, "state", "journal.jsonl")); err != nil || !strings.Contains(string(undo), `"lever":"MinMemoryNode","was":"35000"`) {
			t.Errorf("killed %s the write: the journal holds %s, %v", when, undo, err)
		}
		if now := s.memoryOf(idle); (now == "35000M RUNNING") != (when == "before") {
			t.Errorf("killed %s the write: %s", when, now)
		}
		s.loseDatabase()
		if when == "before" {
			s.must("run", "--once")
			if now := s.memoryOf(idle); now == "35000M RUNNING" {
				t.Errorf("killed %s the write: the next priod lowers nothing: %s", when, now)
			}
		}
		s.configure("")
		s.slurm("scontrol", "requeue", idle)
		s.wait("the requeue", func() bool { return strings.HasSuffix(s.memoryOf(idle), " PENDING") })
		s.must("run", "--once")
		if now := s.memoryOf(idle); now != "35000M PENDING" {
			t.Errorf("killed %s the write, and give_back is off since: requeued it asks for %s", when, now)
		}
		s.clear()
	}
}

// Where Slurm lowers no memory of jobs that run, nothing is written, and check and the
// log say why.
func TestGiveBackElsewhere(t *testing.T) {
	t.Parallel()
	s := newGiveBackSite(t)
	if s.namesRuns() {
		t.Skip("this Slurm lowers the memory of jobs that run: TestGiveBack")
	}
	idle, _ := s.holding("--prio-give-back")
	why := regexp.MustCompile(`sizing.give_back has no effect: Slurm \S+ lowers no memory of a job that runs; 26.05 and later do`)
	out, errs, _ := s.priod("run", "--once")
	out += errs
	if now := s.memoryOf(idle); now != "35000M RUNNING" || !why.MatchString(out) {
		t.Errorf("%s; run says\n%s", now, out)
	}
	if told, _, _ := s.priod("check", "--all"); !why.MatchString(told) {
		t.Errorf("check says\n%s", told)
	}
}
