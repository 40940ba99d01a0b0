package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/growth"
	"slurmprio/tests/lab"
)

// soakEnv is how long jobs come and go in TestSoakLab: "5m".
const soakEnv = "SLURMPRIO_SOAK"

func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(soakEnv)
	switch {
	case text == "" && long():
		return time.Hour
	case text == "":
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q: want a duration such as 5m", soakEnv, text)
	}
	return d
}

// traffic is users whose jobs of a few seconds come and go.
type traffic struct {
	*site
	r     *rand.Rand
	users []string // "" is who runs the test
	jobs  int      // submitted so far, each task of an array one
	queue []string // the pending jobs as last seen
}

func newTraffic(s *site, r *rand.Rand) *traffic {
	t := &traffic{site: s, r: r, users: []string{""}}
	if os.Geteuid() == 0 {
		t.users = append(t.users, lab.PlainUser, lab.OtherUser)
	}
	s.Cleanup(t.cancelAll) // before the site's own clearing
	return t
}

func (t *traffic) cancelAll() {
	for _, u := range t.users[1:] {
		if _, err := t.lab.Run(context.Background(), "scancel", "--quiet", "--user="+u); err != nil {
			t.Error(err)
		}
	}
}

// turn is one thing that a user does; the queue stays about as long.
func (t *traffic) turn() error {
	ctx := context.Background()
	out, err := t.lab.Run(ctx, "squeue", "--noheader", lab.Records(), "--states=PENDING", "--format=%i")
	if err != nil {
		return err
	}
	t.queue = strings.Fields(out)
	if len(t.queue) < 40 {
		return t.submitOne(ctx)
	}
	id := t.queue[t.r.IntN(len(t.queue))]
	// Whatever it is may have started meanwhile, and be refused.
	switch t.r.IntN(3) {
	case 0:
		_, _ = t.lab.Run(ctx, "scancel", "--quiet", id)
	case 1:
		_, _ = t.lab.Run(ctx, "scontrol", "update", "JobId="+id, "Nice="+strconv.Itoa(t.r.IntN(200)))
	}
	return nil
}

func (t *traffic) submitOne(ctx context.Context) error {
	args := []string{"--parsable", "--output=/dev/null", fmt.Sprintf("--gres=gpu:%d", 1+t.r.IntN(3)), "--time=5"}
	switch t.r.IntN(5) {
	case 0, 1:
		args = append(args, "--prio-type=te")
	case 2, 3:
		args = append(args, "--prio-type=be", "--nice="+strconv.Itoa(t.r.IntN(100)))
	}
	tasks := 1
	if t.r.IntN(6) == 0 {
		tasks = 2 + t.r.IntN(6)
		args = append(args, fmt.Sprintf("--array=1-%d", tasks))
	}
	args = append(args, "--wrap", "sleep "+strconv.Itoa(4+t.r.IntN(16)))
	user := t.users[t.r.IntN(len(t.users))]
	if _, err := t.lab.As(user).Run(ctx, filepath.Join(bin, "sbatchwrap"), args...); err != nil {
		return err
	}
	t.jobs += tasks
	return nil
}

// soakSample takes down what priod's process and its state folder hold.
func soakSample(t *growth.Table, m scraper, users *traffic) {
	m.Helper()
	pid := strconv.Itoa(m.cmd.Process.Pid)
	proc := filepath.Join("/proc", pid)
	state := filepath.Join(m.dir, "state")
	t.Add(float64(users.jobs), growth.Quantity{Name: "jobs submitted so far"})
	t.Add(float64(len(users.queue)), growth.Quantity{Name: "pending records"})
	t.Add(m.value("priod_cycles_total{result=ok}"), growth.Quantity{Name: "cycles so far"})
	t.Add(m.value("priod_cycles_total{result=failed}"), growth.Quantity{Name: "failed cycles so far"}) // commands time out on a busy machine
	t.Add(m.value("priod_writes_total{status=applied}"), growth.Quantity{Name: "values written so far"})
	t.Add(float64(growth.OpenFiles(m, pid)), growth.Quantity{Name: "open files", Judged: true, Slack: 2})
	t.Add(float64(procField(m, filepath.Join(proc, "status"), "Threads:")), growth.Quantity{Name: "threads", Judged: true, Slack: 4})
	t.Add(m.value("go_goroutines"), growth.Quantity{Name: "goroutines", Judged: true, Slack: 2})
	t.Add(m.value("go_memstats_next_gc_bytes"), growth.Quantity{Name: soakHeap, Margin: 0.1, Slack: 1 << 20})
	t.Add(float64(procField(m, filepath.Join(proc, "smaps_rollup"), "Anonymous:")<<10), growth.Quantity{Name: soakMemory, Margin: 0.1, Slack: 4 << 20})
	// The youngest part of the database is in its -wal.
	db, wal := growth.FileSize(filepath.Join(state, "priod.db")), growth.FileSize(filepath.Join(state, "priod.db-wal"))
	t.Add(db, growth.Quantity{Name: "priod.db, bytes"})
	t.Add((db+wal)/float64(users.jobs), growth.Quantity{Name: soakPerJob, Margin: 0.1})
	t.Add(wal, growth.Quantity{Name: "priod.db-wal, bytes", Judged: true, Slack: 4 << 20, Most: 32 << 20})
	t.Add(growth.FileSize(filepath.Join(state, "undo.jsonl")), growth.Quantity{Name: "undo.jsonl, bytes", Judged: true, Slack: 1 << 20})
}

// outlives checks that priod goes on after a slurmctld that crashed by itself:
// 22.05.8 did once, in the middle of this traffic. What it forgot may hold GPUs
// for long, so the lab is given up.
func (s *site) outlives(d *running, m scraper) {
	s.Helper()
	s.Logf("slurmctld crashed by itself, and is started again\n%s", s.lab.Logs(15))
	if err := s.lab.StartDaemon(s.Context(), "slurmctld"); err != nil {
		s.Fatal(err)
	}
	m.waitValue("priod_cycles_total{result=ok}", atLeast(m.value("priod_cycles_total{result=ok}")+2))
	if status := d.stop(); status != 0 {
		s.Errorf("exit status %d", status)
	}
}

// What grows with the jobs of the last 24 hours, and only in a longer run can be
// told from a process that warms up.
const (
	soakHeap   = "heap at which Go collects, bytes"
	soakMemory = "anonymous memory, bytes"
	soakPerJob = "priod.db with -wal, bytes per job"

	growthJudged = 5 * time.Minute
	// bytesPerRun is what History keeps of each run for a day, with as much again
	// as Go lets the heap grow.
	bytesPerRun = 1024
)

// Jobs of several users come and go; priod holds no more at the end than in
// the middle but what its retention says, the order is right and reset is clean.
func TestSoakLab(t *testing.T) {
	total := soakTime(t)
	address := "unix:" + filepath.Join(t.TempDir(), "metrics.sock")
	crashed := false
	t.Cleanup(func() { // after the site's own clearing
		if crashed {
			lab.Discard(t)
		}
	})
	// One user has a budget, so that arrays are split; nobody else has.
	s := newSite(t, fmt.Sprintf("%s[metrics]\nlisten = %q\n[te_budget.user]\ngpus = 0\ngpu_hours_per_day = 0.0\n[te_budget.users.%s]\ngpus = 4\n", quick, address, lab.PlainUser))
	users := newTraffic(s, random(t))
	d := s.daemon()
	d.waitLog("started")
	m := scraper{d, address}
	m.waitValue("priod_cycles_total{result=ok}", atLeast(1))

	var table growth.Table
	begun := time.Now()
	warm, pause := total/6, max(total/100, time.Second)
	for next := begun.Add(warm); time.Since(begun) < total; {
		if err := users.turn(); err != nil {
			if _, alive := s.lab.PID("slurmctld"); alive != nil {
				crashed = true
				s.outlives(d, m)
				return
			}
			t.Fatal(err)
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(pause)
			soakSample(&table, m, users)
		}
		s.sleep(100 * time.Millisecond)
	}
	jobs := table.Quantities[0].Values
	for _, q := range table.Quantities {
		switch q.Name {
		case soakPerJob:
			q.Judged = total >= growthJudged
		case soakHeap, soakMemory:
			q.Judged = total >= growthJudged
			q.Slack += (jobs[len(jobs)-1] - jobs[0]) / 2 * bytesPerRun // from the middle third to the last
		}
	}
	t.Logf("%s, %d jobs\n%s", total, users.jobs, &table)
	for _, why := range table.Growth() {
		t.Error(why)
	}

	users.cancelAll()
	s.clear()
	s.fill()
	be := s.submit("--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	for range 10 {
		s.change(users.r)
	}
	s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.wait("an order with nothing left to write", func() bool {
		return slices.Index(s.order(), be) != 0 && strings.Contains(s.must("diff"), "nothing to write")
	})
	s.checkOrder()
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	s.must("reset")
	for value := range strings.FieldsSeq(s.slurm("sprio", "--noheader", "--format=%S")) {
		if value != "0" {
			t.Fatalf("reset leaves a SiteFactor of %s\n%s", value, s.levers())
		}
	}
}
