package store

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// world is a small Slurm whose jobs come, wait, run, are requeued, split and go.
type world struct {
	t        *rapid.T
	now      time.Time
	jobs     map[cluster.JobID]*cluster.Job
	statuses []slurmplug.Status // answers to this cycle's writes
	crash    bool               // nobody hears the answers
	past     []cluster.PastStay // as accounting knows it
	used     map[uint32]bool    // ids of the last poll
}

func (w *world) move() {
	steps := []time.Duration{time.Second, 15 * time.Second, 9 * time.Minute, 5 * time.Hour, 20 * time.Hour}
	w.now = w.now.Add(rapid.SampledFrom(steps).Draw(w.t, "step"))
	w.used = map[uint32]bool{}
	for id := range w.jobs {
		w.used[id.ID] = true
	}
	for range rapid.IntRange(0, 6).Draw(w.t, "events") {
		w.event(rapid.Uint32Range(1, 6).Draw(w.t, "id"))
	}
}

func (w *world) event(id uint32) {
	name := slurmplug.Plain(id)
	if rapid.Bool().Draw(w.t, "task") {
		name.Task = rapid.Int32Range(0, 3).Draw(w.t, "which")
	}
	j := w.jobs[name]
	if j == nil {
		w.submit(id)
		return
	}
	switch rapid.SampledFrom([]string{"start", "start", "requeue", "leave", "suspend", "complete", "change", "hold", "foreign"}).Draw(w.t, "event") {
	case "start":
		if j.Tasks != "" {
			w.split(j, 1)
		} else if at := w.now.Add(-time.Second); j.State == cluster.Suspended || j.State == cluster.Pending && at.After(j.Start) {
			if j.State == cluster.Pending {
				j.Start = at // no two runs of a job in one second
			}
			j.State, j.SiteFactorKnown = cluster.Running, false
		}
	case "requeue":
		if j.State == cluster.Running || j.State == cluster.Completing {
			w.account(j)
			j.State, j.Submit, j.Restarts = cluster.Pending, w.now, j.Restarts+1
			j.Eligible = w.now.Add(rapid.SampledFrom([]time.Duration{0, 2 * time.Minute}).Draw(w.t, "begin"))
		}
	case "leave":
		w.account(j)
		delete(w.jobs, name)
	case "suspend":
		if j.State == cluster.Running {
			j.State = cluster.Suspended
		}
	case "complete":
		if j.State == cluster.Running {
			j.State = cluster.Completing
		}
	case "change":
		j.Nice, j.Reason = int64(rapid.IntRange(0, 3).Draw(w.t, "nice")), "Resources"
	case "hold":
		if j.State == cluster.Pending {
			j.Priority = 100 - j.Priority
		}
	case "foreign":
		if j.State == cluster.Pending {
			j.SiteFactor, j.SiteFactorKnown = 0, rapid.Bool().Draw(w.t, "known")
		}
	}
}

// account puts the run that ends now, or began just before, into accounting.
func (w *world) account(j *cluster.Job) {
	if j.State == cluster.Pending || j.Tasks != "" {
		return
	}
	w.past = append(w.past, cluster.PastStay{Submit: j.Submit, Eligible: j.Eligible, Stay: cluster.Stay{
		Job: j.ID, Start: j.Start, End: w.now.Add(-500 * time.Millisecond), Closed: true, GPUType: j.GPUType, GPUs: j.GPUs,
		User: j.User, Account: j.Account, Restarts: j.Restarts,
	}})
}

func (w *world) submit(id uint32) {
	j := pending(id, rapid.SampledFrom([]string{"te", "be", ""}).Draw(w.t, "type"))
	j.User = rapid.SampledFrom([]string{"alice", "bob"}).Draw(w.t, "user")
	j.Submit, j.Eligible = w.now, w.now.Add(rapid.SampledFrom([]time.Duration{0, 0, time.Minute}).Draw(w.t, "begin"))
	j.GPUs = rapid.IntRange(0, 4).Draw(w.t, "gpus")
	if w.used[id] {
		return // Slurm does not use an id again so soon
	}
	w.used[id] = true
	if rapid.Bool().Draw(w.t, "array") {
		j.Tasks, j.TaskCount = "0-3", 4
	}
	w.jobs[j.ID] = &j
}

// split gives the first tasks of an array records of their own.
func (w *world) split(array *cluster.Job, n int) {
	tasks, _ := slurmplug.ExpandTasks(array.Tasks)
	n = min(n, len(tasks))
	for _, task := range tasks[:n] {
		j := *array
		j.ID.Task, j.Tasks, j.TaskCount = task, "", 1
		w.jobs[j.ID] = &j
	}
	if n == len(tasks) {
		delete(w.jobs, array.ID)
		return
	}
	array.Tasks, array.TaskCount = slurmplug.CompactTasks(tasks[n:]), len(tasks)-n
}

func (w *world) Observe(context.Context) (cluster.Snapshot, error) {
	s := cluster.Snapshot{At: w.now, Cluster: "world", Multifactor: cluster.Multifactor{Span: 100}}
	for _, j := range w.jobs {
		s.Jobs = append(s.Jobs, *j)
	}
	slices.SortFunc(s.Jobs, func(a, b cluster.Job) int { return a.ID.Compare(b.ID) })
	return s, nil
}

func (w *world) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	w.statuses = nil
	w.crash = rapid.IntRange(0, 3).Draw(w.t, "crash") == 0
	outcomes := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		status := rapid.SampledFrom([]slurmplug.Status{
			slurmplug.Applied, slurmplug.Applied, slurmplug.Unknown, slurmplug.Refused, slurmplug.Raced, slurmplug.Postponed,
		}).Draw(w.t, "status")
		if status == slurmplug.Applied || status == slurmplug.Unknown && i%2 == 0 {
			w.apply(a)
		}
		if w.crash {
			status = slurmplug.Unknown
		}
		w.statuses = append(w.statuses, status)
		outcomes[i] = plan.Outcome{Action: a, Status: status, Message: "said " + string(status)}
	}
	return outcomes
}

func (w *world) apply(a plan.Action) {
	if j := w.jobs[a.Job]; j != nil && a.Part {
		tasks, _ := slurmplug.ExpandTasks(a.Tasks)
		w.split(j, len(tasks))
	}
	var v int64
	_, _ = fmt.Sscan(a.After.String(), &v)
	for _, id := range a.Jobs() {
		switch j := w.jobs[id]; {
		case j == nil:
		case a.Lever == slurmplug.SiteFactor:
			j.SiteFactor = v
		}
	}
}

// replay shows the store's side what the other side saw and was answered.
type replay struct {
	snapshot cluster.Snapshot
	statuses []slurmplug.Status
}

func (r *replay) Observe(context.Context) (cluster.Snapshot, error) { return r.snapshot, nil }

func (r *replay) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	outcomes := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		outcomes[i] = plan.Outcome{Action: a, Status: r.statuses[i], Message: "said " + string(r.statuses[i])}
	}
	return outcomes
}

// nothing records nothing.
type nothing struct{}

func (nothing) Observed(context.Context, *cluster.Snapshot, func() []cluster.Stay) {}
func (nothing) Planned(context.Context, plan.Seen) error                           { return nil }
func (nothing) Done(context.Context, []plan.Outcome) error                         { return nil }

// Property: whatever the cluster does, however often priod is restarted and
// wherever it dies, it knows and decides what it would have without.
func TestRestartsChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "state")
		if err != nil {
			rt.Fatal(err)
		}
		settings := cycle.Settings{Order: order.Feature{Settings: order.Settings{
			Top: 100_000, Step: 1000, WritesPerCycle: rapid.IntRange(0, 3).Draw(rt, "limit"),
			Ranking: plan.Classes{User: plan.Budget{GPUs: rapid.IntRange(0, 8).Draw(rt, "budget"), GPUHours: 20}},
		}}}
		w := &world{t: rt, now: epoch, jobs: map[cluster.JobID]*cluster.Job{}}
		plain := cluster.NewHistory()
		var s *Store
		var h *cluster.History
		start := func() {
			if s, err = Open(ctx, dir, Options{}); err != nil {
				rt.Fatal(err)
			}
			if h, err = s.Load(ctx); err != nil {
				rt.Fatal(err)
			}
		}
		start()
		defer func() { s.Close() }()
		for range rapid.IntRange(2, 10).Draw(rt, "cycles") {
			w.move()
			if rapid.IntRange(0, 4).Draw(rt, "paused") == 0 {
				settings.Hold = "paused"
			} else {
				settings.Hold = ""
			}
			w.crash = false
			if rapid.IntRange(0, 3).Draw(rt, "sacct") == 0 {
				plain.Fill(w.past)
				h.Fill(w.past)
				w.past = nil
			}
			want, err := cycle.Step(ctx, w, nothing{}, plain, settings)
			if err != nil {
				rt.Fatal(err)
			}
			got, err := cycle.Step(ctx, &replay{want.Snapshot, w.statuses}, mortal{s, w.crash}, h, settings)
			if err != nil && !w.crash {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(want.Plan, got.Plan); diff != "" {
				rt.Fatalf("another plan:\n%s", diff)
			}
			if w.crash || rapid.Bool().Draw(rt, "restart") {
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				start()
			}
			known := map[cluster.JobID]bool{}   // of others the journal tells when a poll shows them
			waiting := map[cluster.JobID]bool{} // and tasks still in their array
			for i := range want.Snapshot.Jobs {
				j := &want.Snapshot.Jobs[i]
				known[j.ID], waiting[j.ID] = true, true
				for _, task := range (plan.Action{Job: j.ID, Tasks: j.Tasks, Part: true}).Jobs() {
					waiting[task] = true
				}
			}
			butGone := cmp.Options{
				cmpopts.IgnoreMapEntries(func(id cluster.JobID, _ cluster.Written) bool { return !known[id] }),
				cmpopts.IgnoreMapEntries(func(id cluster.JobID, _ map[slurmplug.Lever]cluster.Refusal) bool { return !waiting[id] }),
			}
			if diff := diffHistory(plain, h, butTooOld(w.now), butGone); diff != "" {
				rt.Fatalf("restart %v, crash %v changed what priod knows (- without):\n%s", true, w.crash, diff)
			}
			r, err := OpenReader(ctx, dir)
			if err != nil {
				rt.Fatal(err)
			}
			shown, err := r.History(ctx, dir)
			if err != nil {
				rt.Fatal(err)
			}
			if diff := diffHistory(plain, shown, butTooOld(w.now), butGone); diff != "" {
				rt.Fatalf("a reader knows something else:\n%s", diff)
			}
			if err := r.Close(); err != nil {
				rt.Fatal(err)
			}
			if n := count(t, s, "SELECT count(*) FROM writes WHERE status = 'planned'"); n != 0 {
				rt.Fatalf("%d writes are still planned", n)
			}
			if n := count(t, s, "SELECT count(*) FROM jobs WHERE left_ms = 0"); int(n) != len(want.Snapshot.Jobs) {
				rt.Fatalf("%d rows for %d jobs", n, len(want.Snapshot.Jobs))
			}
			if n := count(t, s, "SELECT count(*) FROM history"); n > int64(4*len(want.Snapshot.Jobs)) {
				rt.Fatalf("%d rows of history for %d jobs", n, len(want.Snapshot.Jobs))
			}
		}
	})
}
