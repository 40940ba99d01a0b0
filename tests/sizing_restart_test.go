package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// sizesWithAll are the settings of a site that sizes quickly beside every other feature.
const sizesWithAll = `enabled = true
start_timeout = "20s"
[cycle]
interval = "2s"
[allocation]
policy = "max-min"
[steering]
enabled = true
[preemption]
enabled = true
[rounds]
enabled = true
[te_budget.user]
gpus = 0
`

// sizeWrites are the writes of sizes of jobs in the queue, the last first.
func (s *site) sizeWrites() (sizes []store.Write) {
	s.Helper()
	var history struct{ Writes []store.Write }
	s.json(&history, "report", "history", "--most", "1000000")
	for _, w := range history.Writes {
		if w.Lever == slurmplug.Size {
			sizes = append(sizes, w)
		}
	}
	return sizes
}

// A priod that is started again, after a stop or a kill, believes of the sizes of waiting
// jobs what the last one did: it writes nothing. One that lost its database too: what
// jobs got back because they did not start they keep.
func TestSizesOverRestarts(t *testing.T) {
	longOnly(t)
	t.Parallel()
	address := freePort(t)
	s := newSizingSite(t, lab.Options{NoAccounting: true}, sizesWithAll+fmt.Sprintf("[metrics]\nlisten = %q\n", address))
	s.open(false)
	submit := func(args ...string) string {
		return s.submit(append(args, "--time=5", "--prio-type=be", "--wrap", "sleep 600")...)
	}
	waits := []string{ // for a node of their own: they get their own sizes again
		submit("--prio-cpu=a100:1x1-3x1", "-c", "21", "--gres=gpu:7"),
		submit("--prio-cpu=a100:1x1-8x8", "-c", "2", "--gres=gpu:1"),
	}
	stays := []string{ // with what it can use, less than it asked for
		submit("--prio-cpu=a100:1x1-3x1", "-c", "20", "--gres=gpu:8"),
		submit("--prio-cpu=a100:1x1-3x1", "--array=1-2", "-c", "20", "--gres=gpu:8"),
	}
	own := map[string]string{}
	for _, id := range append(slices.Clone(waits), stays...) {
		own[id] = s.asks(id)
	}
	s.eligible(len(own))
	cycles := func(d *running) {
		d.waitLog("started")
		scraper{d, address}.waitValue(`priod_cycles_total{result=ok}`, atLeast(3))
	}
	d := s.daemon()
	cycles(d)
	s.wait("the sizes that nothing became of to be given back", func() bool {
		var back []string
		for _, w := range s.sizeWrites() {
			if w.Reason == plan.SizeRests && w.Status == slurmplug.Applied {
				back = append(back, w.Job.String())
			}
		}
		return len(back) == len(waits)
	})
	quiet := func(d *running) {
		t.Helper()
		s.wait("no more writes", func() bool {
			n := len(s.sizeWrites())
			d.cycles(2)
			return len(s.sizeWrites()) == n
		})
	}
	quiet(d)
	first := s.sizeWrites()
	now := map[string]string{}
	for id := range own {
		now[id] = s.asks(id)
		if slices.Contains(waits, id) != (now[id] == own[id]) {
			t.Errorf("job %s: %s, of its own %s\n%s", id, now[id], own[id], s.must("explain", id))
		}
	}
	for i := range 4 {
		if i%2 == 0 {
			d.stop()
		} else {
			d.kill()
		}
		d = s.daemon()
		cycles(d)
		if again := s.sizeWrites(); len(again) != len(first) {
			t.Errorf("start %d: %d writes after %d: %+v", i, len(again), len(first), again[:len(again)-len(first)])
		}
	}
	d.stop()
	s.loseDatabase()
	d = s.daemon()
	cycles(d)
	d.stop()
	for id := range own {
		if asks := s.asks(id); asks != now[id] {
			t.Errorf("without its database priod makes of job %s\n%s, it was\n%s", id, asks, now[id])
		}
	}
	s.must("reset")
	for id := range own {
		if asks := s.asks(id); strings.ReplaceAll(asks+" ", own[id]+" ", "") != "" { // of the array two records
			t.Errorf("reset leaves job %s with\n%s, its own is\n%s", id, asks, own[id])
		}
	}
}

// What a user calls a job, and writes beside it, keeps it from no size, and nobody's
// log is filled by it.
func TestHostileTextsAreSized(t *testing.T) {
	longOnly(t)
	t.Parallel()
	s := newSizingSite(t, lab.Options{NoAccounting: true}, "enabled = true\nstart_timeout = \"5m\"\n[cycle]\ninterval = \"2s\"\n")
	s.open(false)
	dir := t.TempDir() + "/x ReqNodeList=a100-1 WorkDir=y NumCPUs=7 StdOut=z MemPerTres=gpu:9"
	texts := [][]string{
		{"--job-name=x ReqNodeList=a100-1"}, {"--job-name=ReqNodeList="}, {"--job-name=ReqNodeList=a100-1 NumCPUs=1 "}, {"--job-name= x"}, {"--job-name=x "},
		{"--job-name="}, {"--job-name=N/A"}, {"--job-name=(null)"}, {"--job-name=x\nJobId=9 JobName=y"}, {"--job-name=x\tNumCPUs=1"}, {"--job-name=\xff NumCPUs=1"},
		{"--job-name=" + strings.Repeat("ReqNodeList=a100-1 ", 40)}, {"--job-name=x Account=y NumCPUs=1 Command=z"},
		{"--comment=ReqNodeList=a100-1 WorkDir=/ StdOut=/ CpusPerTres=gpu:4"}, {"--network=x NumCPUs=1 ReqNodeList=a100-1"},
		{"--wckey=x NumCPUs=1"}, {"--mail-user=x CpusPerTres=gpu:5 TresPerSocket=gpu:1", "--mail-type=END"},
		{"--output=" + dir, "--error=" + dir}, {"--extra=x NumCPUs=1"}, {"--container=x NumCPUs=1 StdOut=y"},
	}
	var ids []string
	for _, text := range texts {
		args := append([]string{"--prio-cpu=a100:1x1-3x1", "-c", "3", "--mem=1000", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600"}, text...)
		cmd := s.lab.Command(s.Context(), bin+"/sbatchwrap", append([]string{"--parsable"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Logf("%q: %v", text, err) // not every Slurm has each option
			continue
		}
		ids = append(ids, strings.TrimSpace(string(out)))
	}
	s.eligible(len(ids))
	d := s.daemon()
	d.waitLog("started")
	for i, id := range ids {
		s.wait(fmt.Sprintf("job %d (%s) to be sized", i, id), func() bool { return strings.Contains(s.asks(id), "MinCPUsNode=1 ") })
	}
	d.cycles(2)
	d.stop()
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, "[WARN]") || strings.Contains(line, "[ERROR]") {
			t.Log(line)
		}
	}
	if n := strings.Count(d.log.String(), "sizes: "); n != 0 {
		t.Errorf("the log speaks of it %d times", n)
	}
}

// Jobs that meet free GPUs and are held back start with the size that they gain from;
// without that they start before priod sees them. Without priod they start by themselves.
func TestHoldForSizes(t *testing.T) {
	longOnly(t)
	t.Parallel()
	s := newSizingSite(t, lab.Options{NoAccounting: true}, strings.Replace(sizesWithAll, `start_timeout = "20s"`, `start_timeout = "1m"`, 1))
	start := func(hold string) (wrong int) {
		t.Helper()
		var ids []string
		for range 6 {
			cmd := s.lab.Command(s.Context(), bin+"/sbatchwrap", "--parsable", "--prio-cpu=a100:1x1-3x3", "-c", "1", "--mem=1000", "--gres=gpu:1", "--time=30", "--wrap", "sleep 600")
			cmd.Env = append(cmd.Env, "SBATCHWRAP_HOLD="+hold)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, strings.TrimSpace(string(out)))
		}
		for _, id := range ids {
			if err := s.lab.WaitJob(s.Context(), id, "RUNNING"); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(s.holds(id), "3 ") {
				wrong++
			}
		}
		return wrong
	}
	if wrong := start("2s"); wrong != 6 {
		t.Errorf("without priod %d of 6 start as they ask", wrong)
	}
	s.clear()
	d := s.daemon()
	d.waitLog("started")
	d.waitLog("use was not learned from accounting") // of this lab: from now on jobs are sized
	t.Logf("not held back: %d of 6 start with the wrong size", start("0"))
	s.clear()
	if wrong := start("20s"); wrong != 0 {
		t.Errorf("held back: %d of 6 start with the wrong size", wrong)
	}
	s.clear()
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
