package store

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// asks are jobs whose constraints a daemon and their users change.
type asks struct {
	*daemon
	own   map[cluster.JobID]string // what the users want
	crash bool                     // between the write and its outcome
}

// ask sends a value, as cycle does; taken says whether it arrives.
func (d *asks) ask(j *cluster.Job, value string, taken bool, answer slurmplug.Status) {
	d.t.Helper()
	d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
	d.history.Observe(&d.snapshot)
	was := j.Features
	if r, known := d.history.Requests[j.ID][slurmplug.Features]; known {
		if r.Theirs(slurmplug.Text(j.Features)) {
			return
		}
		was = r.Was.String()
	}
	a := plan.Action{Job: j.ID, Lever: slurmplug.Features, Before: slurmplug.Text(j.Features), After: slurmplug.Text(value), Was: slurmplug.Text(was), Reason: "steer"}
	if value == "" {
		a.After = slurmplug.Text(was)
	}
	p := plan.Plan{At: d.snapshot.At, Actions: []plan.Action{a}}
	if err := d.store.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &p}); err != nil {
		d.t.Fatal(err)
	}
	if taken {
		j.Features = a.After.String()
	}
	if d.crash {
		return
	}
	if answer == slurmplug.Applied || answer == slurmplug.Unknown {
		d.history.Asked(j.ID, a.Lever, a.Was, a.After, answer == slurmplug.Applied, d.snapshot.At)
	}
	if err := d.store.Done(ctx, []plan.Outcome{{Action: a, Status: answer}}); err != nil {
		d.t.Fatal(err)
	}
}

// Whatever is written, lost and edited, with the database or without:
// what holds priod's value is known with what its user asked for, and what a user
// wrote last is nobody else's.
func TestRequestsAreRemembered(t *testing.T) { remember(t, false) }

// Nor is anything lost when another host takes over, whose database knows of earlier days
// and whose clock may be wrong, when a host never comes back, and when an older copy of the
// shared folder is put back under priod. The one that is slow to notice writes nothing.
func TestRequestsAreRememberedByAllHosts(t *testing.T) { remember(t, true) }

func remember(t *testing.T, shared bool) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &asks{daemon: newDaemon(t, t.TempDir(), pending(1, "be"), pending(2, "be"), pending(3, "be")), own: map[cluster.JobID]string{}}
		events := []string{"write", "write", "refused", "lost", "late", "crash", "edit", "restart", "no database"}
		hosts := twoHosts{t: t}
		if shared {
			events = append(events, "take over", "take over", "host gone", "copy", "put back")
			hosts.begin(d.daemon)
			d.snapshot.Jobs[0].Restarts = 1 // its row goes on when the host acts again
		}
		for i := range d.snapshot.Jobs {
			j := &d.snapshot.Jobs[i]
			j.Features = rapid.SampledFrom([]string{"", "ssd", "ssd|nvme"}).Draw(rt, "own")
			d.own[j.ID] = j.Features
		}
		var backup *copied
		if shared {
			backup = copyOf(t, d.store.journals)
		}
		for step := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			j := &d.snapshot.Jobs[rapid.IntRange(0, 2).Draw(rt, "job")]
			value := rapid.SampledFrom([]string{"a100", "v100", "t4", ""}).Draw(rt, "value")
			switch rapid.SampledFrom(events).Draw(rt, "event") {
			case "write":
				d.ask(j, value, true, slurmplug.Applied)
			case "refused":
				d.ask(j, value, false, slurmplug.Refused)
			case "lost":
				d.ask(j, value, false, slurmplug.Unknown)
			case "late":
				d.ask(j, value, true, slurmplug.Unknown)
			case "crash":
				d.crash = true
				d.ask(j, value, rapid.Bool().Draw(rt, "taken"), "")
				d.crash = false
				d.restart()
			case "edit":
				j.Features = fmt.Sprint("mine", step)
				d.own[j.ID] = j.Features
			case "restart":
				d.restart()
			case "no database":
				d.loseDatabase()
			case "copy":
				backup = copyOf(t, d.store.journals)
			case "put back":
				backup.restore()
				if err := d.idle(); err != nil {
					rt.Fatal(err)
				}
			case "take over":
				d.snapshot.At = d.snapshot.At.Add(time.Duration(rapid.IntRange(-10, 10).Draw(rt, "minutes")) * time.Minute)
				hosts.takeOver(d.daemon)
			case "host gone":
				gone := d.store
				hosts.takeOver(d.daemon)
				if err := errors.Join(gone.Close(), os.RemoveAll(gone.dir)); err != nil {
					rt.Fatal(err)
				}
				hosts.other = nil
			}
			d.history.Observe(&d.snapshot)
			told := openUndo(t, d.store.journals).Requests()
			for i := range d.snapshot.Jobs {
				j := &d.snapshot.Jobs[i]
				for name, requests := range map[string]map[slurmplug.Lever]cluster.Requested{"history": d.history.Requests[j.ID], "journal": told[j.ID]} {
					r, known := requests[slurmplug.Features]
					if j.Features != d.own[j.ID] && (!known || !r.Ours(slurmplug.Text(j.Features)) || r.Was.String() != d.own[j.ID]) {
						rt.Fatalf("step %d, %s, job %s: %q is not known as priod's in place of %q: %+v", step, name, j.ID, j.Features, d.own[j.ID], r)
					}
					if j.Features == d.own[j.ID] && known && r.Ours(slurmplug.Text(j.Features)) {
						rt.Fatalf("step %d, %s, job %s: the user's own %q counts as priod's: %+v", step, name, j.ID, j.Features, r)
					}
				}
			}
		}
		if err := errors.Join(d.store.Close(), hosts.close()); err != nil {
			rt.Fatal(err)
		}
	})
}

// A task of an array that was written as a whole, written again by itself: what its
// user asked for is known without the database, too.
func TestTaskOfAWrittenArray(t *testing.T) {
	array := pending(1, "be")
	array.Tasks, array.TaskCount = "0-3", 4
	d := &asks{daemon: newDaemon(t, t.TempDir(), array)}
	d.ask(&d.snapshot.Jobs[0], "a100", true, slurmplug.Applied)
	task := d.snapshot.Jobs[0]
	task.ID.Task, task.RawID, task.Tasks, task.TaskCount = 2, 9, "", 1
	d.snapshot.Jobs = append(d.snapshot.Jobs, task)
	d.ask(&d.snapshot.Jobs[1], "v100", true, slurmplug.Applied)
	d.loseDatabase()
	d.history.Observe(&d.snapshot)
	r := d.history.Requests[task.ID][slurmplug.Features]
	if line := openUndo(t, d.store.dir).Find(task.ID, slurmplug.Features); r.Was != (slurmplug.Value{}) || !r.Ours(slurmplug.Text("v100")) || line == nil || line.Was != (slurmplug.Value{}) {
		t.Errorf("%+v, in the journal %+v", r, line)
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// The write that splits tasks off their array is the last of a priod whose database was
// started over: what their user asked for is known from the journal.
func TestSplitTasksAfterALostDatabase(t *testing.T) {
	array := pending(1, "be")
	array.Tasks, array.TaskCount, array.Features = "0-3", 4, "ssd"
	d := &asks{daemon: newDaemon(t, t.TempDir(), array)}
	d.ask(&d.snapshot.Jobs[0], "ssd&a100", true, slurmplug.Applied)
	d.loseDatabase()
	j := &d.snapshot.Jobs[0]
	d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
	d.history.Observe(&d.snapshot)
	a := plan.Action{Job: j.ID, Tasks: "2-3", Part: true, Lever: slurmplug.Features, Before: slurmplug.Text(j.Features), After: slurmplug.Text("ssd&v100"), Was: slurmplug.Text("ssd"), Reason: "steer"}
	if err := d.store.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &plan.Plan{At: d.snapshot.At, Actions: []plan.Action{a}}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range a.Jobs() {
		d.history.Asked(id, a.Lever, a.Was, a.After, true, d.snapshot.At)
	}
	if err := d.store.Done(ctx, []plan.Outcome{{Action: a, Status: slurmplug.Applied}}); err != nil {
		t.Fatal(err)
	}
	d.restart()
	for _, id := range a.Jobs() {
		if r := d.history.Requests[id][slurmplug.Features]; r.Was.String() != "ssd" || !r.Ours(slurmplug.Text("ssd&v100")) {
			t.Errorf("task %s: %+v", id, r)
		}
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// What became of a size outlives a restart, and as far as the journal tells it also the
// loss of the database; a reset forgets it, and so does another run of the job.
func TestSizesAreRemembered(t *testing.T) {
	for _, c := range []struct {
		name      string
		reason    string
		status    slurmplug.Status
		happens   func(*daemon)
		lost      bool // the database is
		rests     bool
		isRefused bool
	}{
		{"not started", plan.SizeRests, slurmplug.Applied, func(*daemon) {}, false, true, false},
		{"without the database", plan.SizeRests, slurmplug.Applied, func(*daemon) {}, true, true, false},
		{"killed meanwhile", plan.SizeRests, Planned, func(*daemon) {}, false, true, false},
		{"given back", "size", slurmplug.Applied, func(*daemon) {}, false, false, false},
		{"refused", "size", slurmplug.Refused, func(*daemon) {}, false, false, true},
		{"refused, without the database", "size", slurmplug.Refused, func(*daemon) {}, true, false, true},
		{"is not requeued", plan.SizeRests, slurmplug.Applied, func(d *daemon) {
			d.snapshot.Jobs[0].Submit, d.snapshot.Jobs[0].Restarts = d.snapshot.At.Add(time.Minute), 1
		}, false, false, false},
	} {
		d := newDaemon(t, t.TempDir(), pending(1, "be"))
		d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
		d.history.Observe(&d.snapshot)
		a := plan.Action{Job: slurmplug.Plain(1), Lever: slurmplug.Size, Before: slurmplug.Size.Value("NumCPUs=3"), After: slurmplug.Size.Value("NumCPUs=1"), Was: slurmplug.Size.Value("NumCPUs=1"), Reason: c.reason}
		p := plan.Plan{At: d.snapshot.At, Actions: []plan.Action{a}}
		if err := d.store.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &p}); err != nil {
			t.Fatal(err)
		}
		switch c.status { // as package size hears of it
		case slurmplug.Applied:
			d.history.Sized(a.Job, c.reason == plan.SizeRests, false, d.snapshot.At)
		case slurmplug.Refused:
			d.history.Refuse(a.Job, a.Lever, "veto", d.snapshot.At)
		}
		if c.status != Planned {
			if err := d.store.Done(ctx, []plan.Outcome{{Action: a, Status: c.status, Message: "veto"}}); err != nil {
				t.Fatal(err)
			}
		}
		if c.status == Planned { // which is the end of its process
			d.restart()
		}
		c.happens(d)
		at := d.snapshot.At
		p = plan.Plan{At: at}
		if err := d.store.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &p}); err != nil {
			t.Fatal(err)
		}
		if d.restart(); c.lost {
			d.loseDatabase()
			d.history.Observe(&d.snapshot)
		}
		past := d.history.Sizes[a.Job]
		if past.Rests.Equal(at) != c.rests || (d.history.Refused[a.Job][slurmplug.Size].Words == "veto") != c.isRefused {
			t.Errorf("%s: %+v", c.name, past)
		}
	}
}
