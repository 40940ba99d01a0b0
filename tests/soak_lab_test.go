package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/chaos"
	"slurmprio/tests/growth"
	"slurmprio/tests/lab"
	"slurmprio/tests/usage"
)

const (
	// soakEnv is how long jobs come and go in TestSoakLab: "5m".
	soakEnv = "SLURMPRIO_SOAK"
	// soakLeakEnv set to 1 runs a priod there that holds more and more: the test has to fail.
	soakLeakEnv = "SLURMPRIO_SOAK_LEAK"
)

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

// growthJudged is the shortest run in which growth can be told from a process that warms up.
const growthJudged = 5 * time.Minute

const (
	soakEvery = 10 * time.Minute // from one burst of jobs to the next
	soakQueue = 80               // records that wait, when users submit no more
)

// soakScheduling is the lab's own line, and that the components of a heterogeneous job follow each
// other. Without that Slurm plans them for different times where some tens of such jobs wait, and
// starts no job at all any more: 22.05.8 does so beside no priod, too.
const soakScheduling = "SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=100000,bf_interval=1,bf_hetjob_prio=min"

// soakLength is a run of package chaos of so many minutes. It goes on with the beginning of
// another burst, so that jobs wait at its end.
func soakLength(total time.Duration) chaosLength {
	if total < growthJudged {
		return chaosLength{
			Size:  chaos.Size{Length: total, Jobs: int(max(30, total.Seconds())), Pieces: 7, Types: []string{"a100", "v100"}},
			nodes: []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 4}, {Count: 2, GPUType: "v100", GPUs: 4}},
		}
	}
	every := total / max(1, (total+soakEvery/2)/soakEvery)
	return chaosLength{
		Size:     chaos.Size{Length: total + every, Every: every, Jobs: int(50 * (total + every).Minutes()), Pieces: 8, Types: []string{"a100", "v100", "t4"}},
		nodes:    []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 4}, {Count: 2, GPUType: "v100", GPUs: 4}, {Count: 2, GPUType: "t4", GPUs: 4}},
		patience: 15 * time.Minute, budget: time.Minute, conf: []string{soakScheduling},
	}
}

// soakRun is a run of package chaos that is judged by what priod holds.
type soakRun struct {
	*chaosRun
	next   time.Time // of the next sample
	pause  time.Duration
	astray time.Time          // since then Slurm counts GPUs as in use by nobody; zero: it does not
	base   map[string]float64 // what there was at the first sample; "": jobs
}

// Jobs of several users come and go for an hour, with everything on. priod holds no more at the
// end than in the middle but what its retention says, each explanation is right, reset is clean,
// no job is lost. slurmctld is killed twice, and ends now and then by itself. Without
// SLURMPRIO_SOAK or SLURMPRIO_LONG it is 20 seconds, in which nothing can grow.
func TestSoakLab(t *testing.T) {
	longOnly(t)
	total := soakTime(t)
	t.Parallel()
	if os.Getenv(soakLeakEnv) == "1" {
		leaking(t)
	}
	seed := uint64(1)
	if os.Getenv(seedEnv) != "" {
		seed = seedOf(t)
	}
	length := soakLength(total)
	s := &soakRun{chaosRun: newChaosRun(t, seed, length, false)}
	s.sample, s.most = s.tick, soakQueue
	s.pause = max(total/100, time.Second)
	s.next = time.Now().Add(total / 6)
	steps, end := s.steps(), total+s.Size.Every/6
	if total >= growthJudged {
		steps = slices.DeleteFunc(steps, func(x step) bool { return x.at > end })
		for _, at := range []time.Duration{total * 4 / 10, total * 8 / 10} {
			steps = append(steps, step{at, func() error { return s.harm(chaos.Fault{What: "kill slurmctld", Lasts: 5 * time.Second}) }})
		}
	}
	unwatch := s.watched()
	defer unwatch()
	if err := s.take(steps); err != nil {
		t.Fatal(err)
	}
	if total >= growthJudged {
		t.Logf("%s, %d jobs\n%s", total, s.submitted(), &s.grown)
		for _, why := range s.grown.Growth() {
			t.Error(why)
		}
	}
	s.explained()
	s.undone()
	if total < growthJudged {
		unwatch()
		s.over()
		return
	}
	for _, u := range chaos.Turns(s.Seed, s.Jobs, s.Size) {
		if u.At > end && u.Do == "release" {
			s.turn(u)
		}
	}
	if err := s.ended(length.patience); err != nil {
		t.Error(err)
	}
	unwatch()
	if err := s.read(); err != nil {
		t.Error(err)
	}
	s.asked()
	s.over()
	if dir := os.Getenv("SLURMPRIO_CHAOS_DIR"); dir != "" {
		s.keep(dir)
	}
	for _, b := range chaos.Breaches(&s.Run) {
		t.Error(b)
	}
}

// leaking builds a priod that holds more and more: memory, open files, goroutines.
func leaking(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	const leak = `package main

import ("os"; "time")

var held [][]byte
var files []*os.File

func init() {
	go func() {
		for n := 0; ; n++ {
			held = append(held, make([]byte, 16<<10))
			if n%30 == 0 {
				f, _ := os.Open(os.DevNull)
				files = append(files, f)
				go func() { select {} }()
			}
			time.Sleep(time.Second)
		}
	}()
}
`
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(here, "priod", "leak.go"): filepath.Join(dir, "leak.go")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"leak.go": leak, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lab.Build(bin, "priod", "GOFLAGS=-overlay="+filepath.Join(dir, "overlay.json")); err != nil {
		t.Fatal(err)
	}
}

// submitted counts the jobs so far, each task of an array one.
func (s *soakRun) submitted() int { return len(s.Parts()) }

// tick is what is done each second: an operator's look at Slurm, and samples.
func (s *soakRun) tick() {
	switch now := time.Now(); {
	case s.unaccounted() == 0:
		s.astray = time.Time{}
	case s.astray.IsZero():
		s.astray = now
	case now.Sub(s.astray) > time.Minute && len(s.Faults) > 0:
		if err := s.repair(s.Context(), ""); err != nil {
			s.Log(err)
		}
		s.astray = time.Time{}
	}
	if s.Size.Length >= growthJudged && time.Now().After(s.next) && fileExists(filepath.Join(s.dir, "metrics")) {
		s.next = time.Now().Add(s.pause)
		s.takeDown()
	}
}

// What grows with the jobs, because it is kept for a day (History), or for the retention.
const (
	soakHeap   = "heap at which Go collects, bytes"
	soakMemory = "anonymous memory, bytes"

	// bytesPerJob is what is kept of each job for a day: its run, wait, failure, eviction and what
	// was written for it; with as much again as Go lets the heap grow. An hour's run showed 1.5 to
	// 1.8 KiB of live heap for each. That it ends with the day is for the soak in virtual time.
	bytesPerJob = 4096
)

// keptForLong are the tables that hold a row for each job, or more, until the retention drops them.
var keptForLong = []string{"claims", "cycles", "decisions", "evictions", "failures", "intervals", "jobs", "lesson_programs", "shares", "stays", "waits", "writes"}

// takeDown takes one sample of what priod holds.
func (s *soakRun) takeDown() {
	t, m := &s.grown, scraper{s.daemon, "unix:" + filepath.Join(s.dir, "metrics")}
	p, state := usage.Of(s, s.daemon.cmd.Process.Pid), filepath.Join(s.dir, "state")
	jobs := float64(s.submitted())
	if s.base == nil {
		s.base = map[string]float64{"": jobs}
	}
	more := jobs - s.base[""]
	memory := more * bytesPerJob
	t.Add(jobs, growth.Quantity{Name: "jobs submitted so far"})
	t.Add(m.value("priod_cycles_total{result=ok}"), growth.Quantity{Name: "cycles so far"})
	t.Add(m.value("priod_cycles_total{result=failed}"), growth.Quantity{Name: "failed cycles so far"})
	t.Add(m.value("priod_writes_total{status=applied}"), growth.Quantity{Name: "values written so far"})
	t.Add(float64(p.OpenFiles()), growth.Quantity{Name: "open files", Judged: true, Slack: 2})
	t.Add(float64(p.Threads()), growth.Quantity{Name: "threads", Judged: true, Slack: 4})
	t.Add(m.value("go_goroutines"), growth.Quantity{Name: "goroutines", Judged: true, Slack: 2})
	t.Add(m.value("go_memstats_next_gc_bytes")-memory, growth.Quantity{Name: soakHeap, Judged: true, Margin: 0.1, Slack: 1 << 20})
	t.Add(float64(p.Anonymous())-memory, growth.Quantity{Name: soakMemory, Judged: true, Margin: 0.1, Slack: 4 << 20})
	if pid, err := s.lab.PID("slurmctld"); err == nil {
		t.Add(float64(usage.Of(s, pid).Anonymous()), growth.Quantity{Name: "slurmctld's anonymous memory, bytes"})
	}
	files, err := os.ReadDir(state)
	if err != nil {
		s.Fatal(err)
	}
	t.Add(float64(len(files)), growth.Quantity{Name: "files in the state folder", Judged: true, Slack: 1})
	for name, most := range map[string]float64{"undo": 2 << 20, "evictions": 4 << 20, "failures": 4 << 20} {
		t.Add(float64(usage.FileSize(filepath.Join(state, name+".jsonl"))), growth.Quantity{Name: name + ".jsonl, bytes", Most: most})
	}
	// The youngest part of the database is in its -wal.
	db, wal := float64(usage.FileSize(filepath.Join(state, "priod.db"))), float64(usage.FileSize(filepath.Join(state, "priod.db-wal")))
	t.Add(db, growth.Quantity{Name: "priod.db, bytes"})
	t.Add(wal, growth.Quantity{Name: "priod.db-wal, bytes", Judged: true, Slack: 4 << 20, Most: 32 << 20})
	rows := usage.Rows(s, state)
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		n := float64(rows[table])
		if !slices.Contains(keptForLong, table) {
			t.Add(n, growth.Quantity{Name: "rows of " + table, Judged: true, Margin: 0.25, Slack: 50})
			continue
		}
		t.Add(n, growth.Quantity{Name: "rows of " + table})
		s.byJob("rows of "+table, n, 50)
	}
	s.byJob("bytes of priod.db", db+wal, 200_000)
}

// byJob judges what comes with jobs by how much of it came with a thousand of them.
func (s *soakRun) byJob(name string, n, slack float64) {
	if _, known := s.base[name]; !known {
		s.base[name] = n
	}
	if more := float64(s.submitted()) - s.base[""]; more > 0 {
		s.grown.Add(1000*(n-s.base[name])/more, growth.Quantity{Name: name + " for a thousand jobs", Judged: true, Margin: 0.3, Slack: slack})
	}
}

// explained checks each explanation of a job that waits against what Slurm shows of it. A cycle
// lies between what Slurm shows and what is explained, so an error counts that stands for several.
func (s *soakRun) explained() {
	s.Helper()
	const tries, succeeded = 8, "priod_cycles_total{result=ok}"
	m := scraper{s.daemon, "unix:" + filepath.Join(s.dir, "metrics")}
	s.heard()
	stands := map[string]int{}
	judged := map[string]bool{}
	for range tries {
		s.revive()
		cycles := m.value(succeeded)
		s.wait("a cycle", func() bool { return m.value(succeeded) > cycles })
		errs, of := s.explainedNow()
		for job := range of {
			judged[job] = true
		}
		maps.DeleteFunc(stands, func(what string, _ int) bool { return !slices.Contains(errs, what) })
		for _, what := range errs {
			stands[what]++
		}
	}
	for what, n := range stands {
		if n >= tries/2 {
			s.Errorf("for %d cycles: %s", n, what)
		}
	}
	s.Logf("%d explanations held against Slurm", len(judged))
	if len(judged) == 0 {
		s.Error("no explanation was held against Slurm")
	}
}

// explainedNow explains all jobs that wait, and returns what is wrong with those that Slurm shows
// unchanged before and after.
func (s *soakRun) explainedNow() (errs []string, of map[string]bool) {
	before, factors, err := s.values()
	if err != nil {
		return nil, nil
	}
	names, records := []string{}, map[string]chaos.Seen{}
	for _, r := range before.Queue {
		name, _, _ := strings.Cut(r.Shown, "_[")
		if r.State == "PENDING" && time.Since(r.Submit) > 10*time.Second && records[name].Shown == "" {
			names, records[name] = append(names, name), r
		}
	}
	if len(names) < 2 {
		return nil, nil
	}
	out, _, _ := s.priod(append([]string{"explain", "--json"}, names...)...)
	var several struct {
		Jobs    []chaos.Explanation
		Unknown []struct{ Job, Error string }
	}
	if err := json.Unmarshal([]byte(out), &several); err != nil {
		return []string{fmt.Sprintf("explain: %v: %s", err, out)}, nil
	}
	after, again, err := s.values()
	if err != nil {
		return nil, nil
	}
	still := func(r chaos.Seen) bool { return slices.Contains(after.Queue, r) && factors[r.ID] == again[r.ID] }
	of = map[string]bool{}
	for _, u := range several.Unknown {
		if still(records[u.Job]) {
			errs = append(errs, u.Job+": "+u.Error)
		}
	}
	for i := range several.Jobs {
		x := &several.Jobs[i]
		name := x.Job.ID.String()
		if x.Job.HetLeader > 0 {
			name = fmt.Sprintf("%d+%d", x.Job.HetLeader, x.Job.HetOffset)
		}
		r, known := records[name]
		if !known || !still(r) {
			continue
		}
		of[name] = true
		var factor *int64
		if f, listed := factors[r.ID]; listed {
			factor = &f
		}
		for _, b := range s.Explained(&r, factor, x, before.At) {
			errs = append(errs, b.String())
		}
	}
	return errs, of
}

// values are the queue, but for priorities, which rise with the time, and the SiteFactors that
// Slurm lists, by raw id.
func (s *soakRun) values() (v chaos.View, factors map[string]int64, err error) {
	if v, err = s.look(s.Context()); err != nil {
		return v, nil, err
	}
	for i := range v.Queue {
		v.Queue[i].Priority = 0
	}
	out, err := s.lab.Run(s.Context(), "sprio", "--noheader", "--format=%i|%S")
	factors = map[string]int64{}
	for line := range strings.Lines(out) {
		id, value, _ := strings.Cut(strings.TrimSpace(line), "|")
		if factors[strings.TrimSpace(id)], err = strconv.ParseInt(strings.TrimSpace(value), 10, 64); err != nil {
			return v, nil, err
		}
	}
	return v, factors, err
}

// undone takes back all that priod did and holds each job that waits against the same one
// submitted again, held, while no priod runs. Then priod goes on.
func (s *soakRun) undone() {
	s.Helper()
	s.revive()
	if err := s.takeBack(); err != nil {
		s.Fatal(err)
	}
	s.heard()
	off := s.Run
	off.IDs, off.Done, off.Views = make([]string, len(s.IDs)), nil, nil
	for n := range s.Jobs {
		if !slices.ContainsFunc(s.Reset.Queue, func(r chaos.Seen) bool { return r.State == "PENDING" && s.Number(r.Shown) == n }) {
			continue
		}
		j := &s.Jobs[n]
		args := append([]string{"--hold"}, j.Args(s.work("script"), "", s.Size)...)
		out, err := s.lab.As(s.users[j.User]).Run(s.Context(), filepath.Join(bin, "sbatchwrap"), args...)
		if err != nil {
			s.Errorf("%s: %v", j.Name, err)
			continue
		}
		off.IDs[n], _, _ = strings.Cut(strings.TrimSpace(out), ";")
	}
	twins, err := s.look(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	off.Views = []chaos.View{twins}
	judged := s.Run
	judged.Off = &off
	for _, b := range chaos.Undone(&judged) {
		s.Error(b)
	}
	compared := 0
	for _, id := range off.IDs {
		if id != "" {
			compared++
			s.slurm("scancel", id)
		}
	}
	s.Logf("%d jobs held against the same ones submitted anew", compared)
	if compared == 0 {
		s.Error("no job waited at the reset")
	}
	s.goOn()
}

// over ends priod.
func (s *soakRun) over() {
	s.Helper()
	s.daemon.waitLog("started")
	if status := s.daemon.stop(); status != 0 {
		s.Errorf("exit status %d", status)
	}
	s.heard()
}

// heard takes in what the daemons have said so far.
func (s *soakRun) heard() {
	s.Words = ""
	for _, log := range s.logs {
		s.Words += log.String()
	}
}
