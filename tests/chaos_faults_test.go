package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"slurmprio/tests/chaos"
	"slurmprio/tests/growth"
	"slurmprio/tests/lab"
	"slurmprio/tests/usage"
)

// start starts priod anew. With faults its end is nobody's surprise: tend sees a crash.
func (r *chaosRun) start() {
	r.grown = growth.Table{}
	if r.shim != nil {
		r.daemon = r.doomed()
	} else {
		r.daemon = r.site.daemon()
	}
	r.logs = append(r.logs, r.daemon.log)
}

// revive starts a slurmctld again that ended by itself, as systemd would: 22.05.8 does
// that now and then as a job ends, beside priod and without it.
func (r *chaosRun) revive() {
	if _, err := r.lab.PID("slurmctld"); err == nil {
		return
	}
	r.Logf("seed %d, priod off: %v: slurmctld ended by itself at %s", r.Seed, r.off, time.Now().Format(time.TimeOnly))
	r.happened(chaos.ControllerEnded)
	if err := r.lab.StartDaemon(r.Context(), "slurmctld"); err != nil {
		r.Log(err)
	}
}

// tend starts a priod again that a fault has killed, as systemd would, and counts what
// the one without faults holds.
func (r *chaosRun) tend() {
	r.revive()
	if r.off {
		return
	}
	select {
	case <-r.daemon.gone:
		if status := r.daemon.cmd.ProcessState.ExitCode(); crashed(status) {
			r.Errorf("seed %d: priod crashed: %s", r.Seed, lastWords(r.daemon.log.String()))
		}
		r.start()
	default:
		r.sample()
	}
}

func (r *chaosRun) sampleDaemon() {
	if r.shim != nil || r.Size.Length < growthJudged || !strings.Contains(r.daemon.log.String(), "started") {
		return
	}
	p := usage.Of(r, r.daemon.cmd.Process.Pid)
	r.grown.Add(float64(p.OpenFiles()), growth.Quantity{Name: "open files", Judged: true, Slack: 4})
	r.grown.Add(float64(p.Threads()), growth.Quantity{Name: "threads", Judged: true, Slack: 6})
	r.grown.Add(float64(p.Anonymous()), growth.Quantity{Name: soakMemory, Judged: true, Margin: 0.2, Slack: 8 << 20})
	if m := (scraper{r.daemon, "unix:" + filepath.Join(r.dir, "metrics")}); fileExists(filepath.Join(r.dir, "metrics")) {
		r.grown.Add(m.value("go_goroutines"), growth.Quantity{Name: "goroutines", Judged: true, Slack: 6})
	}
}

func fileExists(path string) bool { _, err := os.Stat(path); return err == nil }

// ownDisk gives the state folder a small disk of its own, which can be full.
func (r *chaosRun) ownDisk() {
	if os.Geteuid() != 0 {
		return
	}
	state := filepath.Join(r.dir, "state")
	if err := os.Mkdir(state, 0o755); err != nil {
		r.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=64m"); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) })
}

func (r *chaosRun) happened(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Faults = append(r.Faults, chaos.Happened{At: time.Now(), What: what})
}

// weatherSteps are the commands of a change of the cluster, each at its time. One that Slurm
// refuses (it is down just then) is tried once more as the weather ends.
func (r *chaosRun) weatherSteps(w chaos.Weather) (all []step) {
	begun := -1 // its number in Weather
	name := r.lab.Nodes[w.Node%len(r.lab.Nodes)]
	changes := w.Changes(r.lab.Nodes)
	for i, c := range changes {
		all = append(all, step{w.At + c.After, func() error {
			r.mu.Lock()
			if begun < 0 {
				begun = len(r.Weather)
				r.Weather = append(r.Weather, chaos.Weathered{Weather: w, Name: name, From: time.Now(), Until: time.Now().Add(w.Lasts)})
			}
			r.mu.Unlock()
			change := func() error {
				_, err := r.lab.Run(r.Context(), c.Argv[0], c.Argv[1:]...)
				if err != nil && strings.Contains(err.Error(), "Invalid node state") {
					return nil // it is back already: its slurmd has registered ("specified" up to 24.11, "transition" on 26.05)
				}
				return err
			}
			err := change()
			for try := 0; err != nil && i == len(changes)-1 && try < 20; try++ {
				_ = rest(r.Context(), time.Second) // the next command sees why
				r.revive()
				err = change()
			}
			r.mu.Lock()
			r.Weather[begun].Until = time.Now()
			r.mu.Unlock()
			if err != nil && i == len(changes)-1 {
				return fmt.Errorf("%s of %s does not end: %w", w.What, name, err)
			}
			return nil
		}})
	}
	return all
}

// harm brings a fault about, and its end.
func (r *chaosRun) harm(f chaos.Fault) error {
	r.happened(f.String())
	if f.Command != nil {
		thrown := strings.Join(r.shim.Thrown(), "\n")
		armed := r.armed
		r.armed = nil
		for _, a := range armed {
			if !strings.Contains(thrown, a.String()) && a.Command != f.Command.Command {
				r.armed = append(r.armed, a) // its command has not come yet
			}
		}
		r.armed = append(r.armed, *f.Command)
		return r.shim.Throw(r.armed...)
	}
	ctx := r.Context()
	switch f.What {
	case "kill priod":
		r.end()
		r.start()
	case "stop priod":
		_ = r.daemon.cmd.Process.Signal(syscall.SIGSTOP)
		defer r.daemon.cmd.Process.Signal(syscall.SIGCONT)
		return rest(ctx, f.Lasts)
	case "stop slurmctld", "stop slurmdbd":
		daemon := strings.TrimPrefix(f.What, "stop ")
		if err := r.lab.Pause(daemon); err != nil {
			return err
		}
		err := rest(ctx, f.Lasts)
		return errors.Join(err, r.lab.Continue(daemon))
	case "kill slurmctld":
		if !r.saved() {
			return nil
		}
		return r.again(ctx, "slurmctld", f.Lasts)
	case "kill slurmd":
		return r.again(ctx, lab.Slurmd(r.lab.Nodes[f.Node%len(r.lab.Nodes)]), f.Lasts)
	case "disk full":
		ballast := filepath.Join(r.dir, "state", "ballast")
		_ = os.WriteFile(ballast, make([]byte, 96<<20), 0o600) // ends as the disk is full
		defer os.Remove(ballast)
		return rest(ctx, f.Lasts)
	case "lose database":
		r.keepJournal()
		r.loseDatabase()
	case "lose database while priod is down":
		r.end()
		r.keepJournal()
		r.loseDatabase()
		r.start()
	}
	return nil
}

// end kills priod.
func (r *chaosRun) end() {
	_ = r.daemon.cmd.Process.Kill()
	r.daemon.ends()
}

func (r *chaosRun) keepJournal() {
	now := r.evictions()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remember(now)
}

// again kills one of Slurm's daemons and starts it again.
func (r *chaosRun) again(ctx context.Context, daemon string, after time.Duration) error {
	if err := r.lab.Kill(ctx, daemon); err != nil {
		return err
	}
	if err := rest(ctx, after); err != nil {
		return err
	}
	return r.lab.StartDaemon(ctx, daemon)
}

// saved waits until slurmctld has written down the queue as it is: killed before, it
// would forget jobs. Jobs that start and end make it write. 26.05 does not start again
// before it has once written what associations used, which takes it five minutes.
func (r *chaosRun) saved() bool {
	now := time.Now()
	if lab.AtLeast(26, 5) && !fileExists(filepath.Join(r.lab.Dir, "state", "assoc_usage")) {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	return nil == lab.WaitFor(ctx, "slurmctld to save its state", func(context.Context) (bool, error) {
		info, err := os.Stat(filepath.Join(r.lab.Dir, "state", "job_state"))
		return err == nil && info.ModTime().After(now.Add(time.Second)), nil
	})
}

// reset takes back all that priod did, in the middle of it, and lets it go on.
func (r *chaosRun) reset() error {
	if err := r.takeBack(); err != nil {
		return err
	}
	r.goOn()
	return nil
}

// takeBack ends priod, takes back all that it did, and sees what is left.
func (r *chaosRun) takeBack() error {
	if r.shim != nil {
		r.armed = nil
		r.throw(r.shim)
	}
	r.Stopped = time.Now()
	r.daemon.await()
	_ = r.daemon.cmd.Process.Signal(syscall.SIGTERM)
	r.daemon.ends()
	out, errs, status := r.priod("reset")
	v, err := r.look(r.Context())
	if err != nil {
		return err
	}
	factors, err := r.lab.Run(r.Context(), "sprio", "--noheader", "--format=%i %S")
	if err != nil {
		return err
	}
	bounded, err := r.bounded(r.Context(), &v)
	if err != nil {
		return err
	}
	reservations, _ := r.lab.Run(r.Context(), "scontrol", "--oneliner", "show", "reservation") // fails where there is none
	r.mu.Lock()
	r.Reset = v
	if status != 0 {
		r.Left = append(r.Left, "it fails: "+out+errs)
	}
	r.Left = append(r.Left, bounded...)
	if strings.Contains(reservations, "priod_") {
		r.Left = append(r.Left, reservations)
	}
	for line := range strings.Lines(factors) {
		if f := strings.Fields(line); len(f) == 2 && f[1] != "0" {
			r.Left = append(r.Left, "SiteFactor "+strings.TrimSpace(line))
		}
	}
	r.mu.Unlock()
	return nil
}

// goOn starts priod again after a reset, which pauses it.
func (r *chaosRun) goOn() {
	if out, errs, status := r.priod("resume"); status != 0 {
		r.Left = append(r.Left, "resume fails: "+out+errs)
	}
	r.start()
}

// bounded are the waiting jobs that left their number of nodes open and ask for another one
// than their users did. A slurmctld that was started again shows no bound, and none shows more
// nodes than the job has GPUs.
func (r *chaosRun) bounded(ctx context.Context, v *chaos.View) (all []string, err error) {
	for i := range v.Queue {
		s := &v.Queue[i]
		n := slices.Index(r.IDs, s.Shown)
		if n < 0 || r.Jobs[n].Open == "" || s.State != "PENDING" {
			continue
		}
		out, err := r.lab.Run(ctx, "scontrol", "show", "job", s.Shown)
		if err != nil {
			return nil, err
		}
		own := r.Jobs[n].Open
		if is := field(out, "NumNodes"); strings.Contains(is, "-") && is != own && (own == "open" || is != fmt.Sprintf("1-%d", r.Jobs[n].GPUs)) {
			all = append(all, fmt.Sprintf("job %s asks for %s nodes, its user for %s", s.Shown, is, own))
		}
	}
	return all, nil
}

// asked asks priod about jobs, by every name that squeue prints, and of what happened.
func (r *chaosRun) asked() {
	verbs := [][]string{{"evictions", "--json"}, {"report", "history", "--json"}, {"queue", "--json"}}
	seen, since := map[string]bool{}, map[string]time.Time{}
	first := 10 * time.Second // until some cycle has seen a job
	if len(r.Faults) > 0 {
		first *= 3 // one that waits for a command in vain takes ten seconds, and the next is due after that
	}
	for _, v := range r.Views {
		for _, s := range v.Queue {
			if since[s.Shown].IsZero() {
				since[s.Shown] = v.At
			}
			early := v.At.Sub(since[s.Shown]) < first
			if !early && !seen[s.Shown] && !strings.Contains(s.Shown, "[") && len(seen) < 60 && (s.State == "PENDING" || s.State == "RUNNING") {
				seen[s.Shown] = true
				verbs = append(verbs, []string{"explain", "--json", s.Shown})
				if array, _, of := strings.Cut(s.Shown, "_"); of && !seen[array] {
					seen[array] = true
					verbs = append(verbs, []string{"explain", "--json", array})
				}
			}
		}
	}
	for _, argv := range verbs {
		out, errs, status := r.priod(argv...)
		if strings.Contains(errs, "nothing is stored about job") && slices.ContainsFunc(r.Faults, func(f chaos.Happened) bool { return strings.HasPrefix(f.What, "lose database") }) {
			continue // it ended before
		}
		if status != 0 || strings.Contains(out, ": null") && strings.Contains(out, `"jobs": null`) {
			r.Answers = append(r.Answers, strings.Join(argv, " ")+": "+errs)
		}
	}
}
