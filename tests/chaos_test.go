package tests

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/store"
	"slurmprio/tests/chaos"
	"slurmprio/tests/lab"
)

// chaosSettings switches everything on. Times are those of jobs that run for half a
// minute in the place of hours; all else is as shipped.
const chaosSettings = quick + `
[ranking]
order = "owed"
te_qos = ["te"]
be_qos = ["be"]
[allocation]
policy = "max-min"
[steering]
enabled = true
[sizing]
enabled = true
within = "10s"
[rounds]
enabled = true
length = "20s"
lead = "2m"
half = "1m"
[te_budget.account]
gpus = 16
[preemption]
enabled = true
min_run = "4s"
restart = "2s"
min_gain = "3s"
hold = "15s"
retry = "10s"
max_evictions = 2
[metrics]
listen = "unix:%s"
`

// chaosCap is max_evictions there.
const chaosCap = 2

// chaosRun is a run of package chaos on a lab: with priod, or beside it without.
type chaosRun struct {
	*site
	chaos.Run
	users  []string
	off    bool
	daemon *running
	mu     sync.Mutex // of Run while its watcher is at work
}

func newChaosRun(t *testing.T, seed uint64, size chaos.Size, nodes []lab.NodeSpec, off bool) *chaosRun {
	l := lab.ForTest(t, lab.Options{Nodes: nodes, PreemptMode: "OFF"})
	r := &chaosRun{site: bareSite(t, l), users: []string{""}, off: off}
	if os.Geteuid() == 0 {
		r.users = append(r.users, lab.PlainUser, lab.OtherUser)
	}
	size.Users = len(r.users)
	r.Run = chaos.Run{Seed: seed, Size: size, Jobs: chaos.Workload(seed, size), Logs: map[string][]chaos.Event{}, Ran: map[string][]chaos.Ran{}, Cap: chaosCap, Begun: time.Now()}
	r.IDs = make([]string, len(r.Jobs))
	if err := os.WriteFile(r.work("script"), []byte(chaos.Script), 0o755); err != nil {
		t.Fatal(err)
	}
	r.configure(fmt.Sprintf(chaosSettings, filepath.Join(r.dir, "metrics")))
	if !off {
		r.daemon = r.site.daemon()
		r.daemon.waitLog("started")
	}
	return r
}

func (r *chaosRun) work(name string) string { return filepath.Join(r.lab.Dir, "work", name) }

// play submits the jobs and takes the users' turns, each at its time, and waits until
// the last job has ended.
func (r *chaosRun) play(patience time.Duration) error {
	watching, stop := context.WithCancel(r.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() { r.watch(watching) })
	r.Begun = time.Now()
	turns := chaos.Turns(r.Seed, r.Jobs, r.Size)
	var err error
	for next := 0; err == nil && (next < len(r.Jobs) || len(turns) > 0); {
		if next < len(r.Jobs) && (len(turns) == 0 || r.Jobs[next].At <= turns[0].At) {
			if err = rest(r.Context(), time.Until(r.Begun.Add(r.Jobs[next].At))); err == nil {
				err = r.submitJob(next)
			}
			next++
			continue
		}
		if err = rest(r.Context(), time.Until(r.Begun.Add(turns[0].At))); err == nil {
			r.turn(turns[0])
		}
		turns = turns[1:]
	}
	if err == nil {
		err = r.ended(patience)
	}
	stop()
	watcher.Wait()
	return err
}

func (r *chaosRun) submitJob(n int) error {
	j, after := &r.Jobs[n], ""
	if j.After >= 0 {
		after = r.IDs[j.After]
	}
	out, err := r.lab.As(r.users[j.User]).Run(r.Context(), filepath.Join(bin, "sbatchwrap"), j.Args(r.work("script"), after, r.Size)...)
	if err != nil {
		return fmt.Errorf("%s: %w", j.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.IDs[n], _, _ = strings.Cut(strings.TrimSpace(out), ";")
	return nil
}

// turn is taken whether or not Slurm lets the user: his job may have ended.
func (r *chaosRun) turn(t chaos.Turn) {
	if r.IDs[t.Job] == "" {
		return
	}
	d := chaos.Done{Turn: t, From: time.Now()}
	r.mu.Lock()
	r.Done = append(r.Done, d) // the watcher may see what it does before it ends
	r.mu.Unlock()
	argv := t.Command(r.IDs[t.Job])
	out, err := r.lab.As(r.users[r.Jobs[t.Job].User]).Run(r.Context(), argv[0], argv[1:]...)
	if err != nil {
		d.Failed = fmt.Sprint(out, err)
	}
	d.Until = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Done[len(r.Done)-1] = d
}

// ended waits until no job is left and no eviction under way.
func (r *chaosRun) ended(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	left := ""
	err := lab.WaitFor(ctx, "the last job to end", func(ctx context.Context) (bool, error) {
		_ = rest(ctx, time.Second) // the wait sees why
		out, err := r.lab.Run(ctx, "squeue", "--noheader", "--format=%i %T %r")
		if err != nil {
			return false, nil // slurmctld may be busy
		}
		left = out
		return out == "" && r.quiet(), nil
	})
	if err != nil {
		return fmt.Errorf("%w; left:\n%s", err, left)
	}
	return nil
}

// quiet tells whether priod has no eviction under way: a victim that exits is in no
// queue until it is requeued.
func (r *chaosRun) quiet() bool {
	if r.off {
		return true
	}
	for _, x := range r.evictions() {
		if x.Ended.IsZero() {
			return false
		}
	}
	return true
}

func (r *chaosRun) evictions() []store.Eviction {
	reader, err := store.OpenReader(context.Background(), filepath.Join(r.dir, "state"))
	if err != nil {
		return nil // not yet there
	}
	defer reader.Close()
	all, _ := reader.Evictions(context.Background(), 10000)
	return all
}

// watch looks once a second.
func (r *chaosRun) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if v, err := r.look(ctx); err == nil {
			r.mu.Lock()
			r.Views = append(r.Views, v)
			if !r.off {
				r.remember(r.evictions())
			}
			r.mu.Unlock()
		}
		_ = rest(ctx, time.Second)
	}
}

// remember keeps evictions that a lost database forgets.
func (r *chaosRun) remember(now []store.Eviction) {
	for _, x := range now {
		known := false
		for i, y := range r.Journal {
			if x.Victim == y.Victim && x.Recorded.Equal(y.Recorded) {
				r.Journal[i], known = x, true
			}
		}
		if !known {
			r.Journal = append(r.Journal, x)
		}
	}
}

func (r *chaosRun) look(ctx context.Context) (v chaos.View, err error) {
	v.At = time.Now()
	out, err := r.lab.Run(ctx, "squeue", "--noheader", lab.Records(), "--Format="+chaos.QueueFormat())
	if err != nil {
		return v, err
	}
	if v.Queue, err = chaos.ParseQueue(out); err != nil {
		r.Error(err)
		return v, err
	}
	out, err = r.lab.Run(ctx, "scontrol", "--oneliner", "show", "node")
	v.Nodes = chaos.ParseNodes(out)
	return v, err
}

// read takes what the jobs wrote down and what accounting says.
func (r *chaosRun) read() error {
	for n := range r.Jobs {
		for _, name := range r.Jobs[n].Names() {
			text, _ := os.ReadFile(r.work(name + ".log")) // none: it never ran
			r.Logs[name] = chaos.ParseLog(string(text))
		}
	}
	return lab.WaitFor(r.Context(), "accounting to know all ends", func(ctx context.Context) (bool, error) {
		out, err := r.lab.Run(ctx, "sacct", "--duplicates", "--allocations", "--noheader", "--parsable2", "--allusers", "--starttime="+r.Begun.Add(-time.Minute).Format("2006-01-02T15:04:05"), "--format=JobID,Start,End,State")
		if err != nil {
			return false, err
		}
		r.Ran, err = chaos.ParseRuns(out)
		if err != nil {
			return false, err
		}
		for _, all := range r.Ran {
			if s := all[len(all)-1].State; s == "PENDING" || s == "RUNNING" {
				return false, nil // slurmdbd hears of ends late
			}
		}
		return true, nil
	})
}

// tell reports the breaches and, if there are any, the ends of the logs.
func (r *chaosRun) tell(breaches []chaos.Breach) {
	for _, b := range breaches {
		r.Errorf("seed %d: %s", r.Seed, b)
	}
}

// chaosPair plays one seed on two labs at a time, with priod and without.
func chaosPair(t *testing.T, seed uint64, size chaos.Size, nodes []lab.NodeSpec, patience time.Duration) {
	on, off := newChaosRun(t, seed, size, nodes, false), newChaosRun(t, seed, size, nodes, true)
	var group sync.WaitGroup
	var errs [2]error
	for i, r := range []*chaosRun{on, off} {
		group.Go(func() {
			if errs[i] = r.play(patience); errs[i] == nil || r.Context().Err() == nil {
				if err := r.read(); err != nil {
					errs[i] = fmt.Errorf("%v; %w", errs[i], err)
				}
			}
		})
	}
	group.Wait()
	on.alive()
	for i, err := range errs {
		if err != nil {
			t.Errorf("seed %d, priod off: %v: %v", seed, i == 1, err)
		}
	}
	if !t.Failed() {
		on.tell(chaos.Breaches(&on.Run))
	}
	if status := on.daemon.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	t.Logf("seed %d: %d evictions, %d turns", seed, len(on.Journal), len(on.Done))
	if dir := os.Getenv("SLURMPRIO_CHAOS_DIR"); dir != "" {
		on.keep(dir)
	}
}

// keep saves what a person wants to look at later.
func (r *chaosRun) keep(dir string) {
	if err := os.CopyFS(filepath.Join(dir, fmt.Sprint("seed-", r.Seed)), os.DirFS(r.dir)); err != nil {
		r.Log(err)
	}
	_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("seed-%d", r.Seed), "log"), bytes.TrimSpace([]byte(r.daemon.log.String())), 0o644)
	_ = os.CopyFS(filepath.Join(dir, fmt.Sprintf("seed-%d", r.Seed), "work"), os.DirFS(r.work("")))
}

// Everything on at once: see package chaos.
func TestChaosBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	size := chaos.Size{Length: 25 * time.Second, Jobs: 40, Pieces: 20, Types: []string{"a100", "v100"}}
	chaosPair(t, 7, size, []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}}, 5*time.Minute)
}
