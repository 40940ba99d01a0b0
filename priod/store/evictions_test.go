package store

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/slurmplug"
)

// evicted is a journal's first turn: job 17 wants the place of job 18.
func evicted(at time.Time) *evict.Changes {
	return &evict.Changes{
		Claims: []evict.Claim{{
			Number: 1, Purpose: evict.ForRound, Job: slurmplug.Plain(17), RawID: 17, User: "alice", GPUs: 2, Wait: 5 * time.Second, State: evict.Planned,
			Shares: []evict.ClaimShare{{Node: "n1", GPUs: 2, CPUs: 4, MemMB: 100}}, Pin: "n1", Resv: "priod_1_9", At: at, Changed: at,
		}},
		Evictions: []evict.Eviction{{
			Number: 1, Claim: 1, Job: slurmplug.Plain(18), RawID: 18, User: "alice", Start: at.Add(-time.Hour), Restarts: 1, GPUs: 2,
			Signal: "B:USR1", Grace: time.Minute, Eligible: at.Add(-2 * time.Hour), Unsaved: 30 * time.Second, Restart: time.Second,
			Promised: 180, State: evict.Recorded, At: at,
		}},
	}
}

// now is a time as the database keeps it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func underWay(t *testing.T) (*daemon, *evict.Journal) {
	t.Helper()
	d := newDaemon(t, t.TempDir(), pending(17, "te"), pending(18, "be"))
	d.cycle()
	return d, must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
}

func save(t *testing.T, s *Store, j *evict.Journal, turn *evict.Changes) {
	t.Helper()
	if err := s.SaveEvictions(ctx, turn); err != nil {
		t.Fatal(err)
	}
	j.Update(turn)
}

// What is saved comes back as it was, whatever is killed.
func TestEvictionsComeBack(t *testing.T) {
	d, j := underWay(t)
	turn := evicted(now())
	save(t, d.store, j, turn)
	turn.Claims[0].State, turn.Claims[0].Pin, turn.Claims[0].Resv, turn.Claims[0].Ended = evict.Started, "", "", now()
	turn.Claims[0].ResvAt, turn.Claims[0].Room, turn.Claims[0].Changed = now(), now(), now()
	e := &turn.Evictions[0]
	e.State, e.SignalledAt, e.LeftAt, e.RequeuedAt, e.RestoredAt = evict.Restored, now(), now(), now(), now()
	e.How, e.ExitCode, e.ExitSignal, e.Paid, e.Tries, e.Reason = evict.Exited, 99, 3, 70, 2, "why"
	save(t, d.store, j, turn)
	read := must[*evict.Journal](t)(OpenEvictions(d.store.dir))
	if diff := cmp.Diff(j, read, cmpopts.IgnoreUnexported(evict.Journal{})); diff != "" {
		t.Error(diff)
	}
	if read.Times[e.Job] != 1 || read.LastClaim != 1 || read.LastEviction != 1 {
		t.Errorf("%+v", read)
	}
	all := must[[]Eviction](t)(reader(t, d.store.dir).EvictionsOf(ctx, slurmplug.Plain(18), 9))
	if len(all) != 1 || all[0].For != slurmplug.Plain(17) || all[0].State != "restored" || all[0].Purpose != "round" || *all[0].Paid != 70 || all[0].Nodes != "n1" {
		t.Errorf("%+v", all)
	}
}

// A claim is read as long as its victim waits, however long ago it ended: it says
// where that goes back to.
func TestClaimsOfOpenEvictions(t *testing.T) {
	d, j := underWay(t)
	turn := evicted(now())
	turn.Claims[0].State, turn.Claims[0].Pin, turn.Claims[0].Resv = evict.Started, "", ""
	turn.Claims[0].Ended = now().Add(-evict.Memory - time.Hour)
	turn.Evictions[0].State = evict.Restored
	save(t, d.store, j, turn)
	read := must[*evict.Journal](t)(OpenEvictions(d.store.dir))
	if len(read.Evictions) != 1 || len(read.Claims) != 1 || read.Claims[0].Purpose != evict.ForRound {
		t.Errorf("%+v", read)
	}
	turn.Evictions[0].State, turn.Evictions[0].Ended = evict.Done, now()
	save(t, d.store, j, turn)
	read = must[*evict.Journal](t)(OpenEvictions(d.store.dir))
	if read.Forget(now(), func(cluster.JobID) bool { return true }); len(read.Claims) > 0 {
		t.Errorf("%+v", read)
	}
}

// Nor does the retention take either, though the row of the job that it was for, or of
// the victim in a database that was started over, left the queue long ago.
func TestOpenEvictionsArePrunedLater(t *testing.T) {
	for _, left := range []uint32{17, 18} {
		d, j := underWay(t)
		d.store.opts.Retention = 72 * time.Hour
		turn := evicted(now())
		turn.Claims[0].State, turn.Claims[0].Pin, turn.Claims[0].Resv, turn.Claims[0].Ended = evict.Started, "", "", now()
		turn.Evictions[0].State = evict.Restored
		save(t, d.store, j, turn)
		d.remove(left)
		d.cycle()
		for _, want := range []int{1, 0} {
			if err := d.store.Prune(ctx, d.snapshot.At.Add(73*time.Hour)); err != nil {
				t.Fatal(err)
			}
			if rows := count(t, d.store, "SELECT count(*) FROM evictions"); int(rows) != want {
				t.Errorf("job %d left: %d rows, want %d", left, rows, want)
			}
			turn.Evictions[0].State, turn.Evictions[0].Ended = evict.Done, now()
			save(t, d.store, j, turn)
		}
	}
}

// A pin goes into the undo journal before it goes to Slurm, and is no value of
// the ranking.
func TestPinsAreUndone(t *testing.T) {
	d, j := underWay(t)
	save(t, d.store, j, evicted(now()))
	u := openUndo(t, d.store.dir)
	id := slurmplug.Plain(17)
	c := u.Find(id, slurmplug.ReqNodeList)
	if c == nil || c.Was != (slurmplug.Value{}) || c.To.String() != "n1" || c.User == "" || c.Submit.IsZero() {
		t.Fatalf("%+v", c)
	}
	if last := u.Find(id, slurmplug.SiteFactor); last == nil || last.Lever != slurmplug.SiteFactor || u.Written()[id].Lever != slurmplug.SiteFactor {
		t.Errorf("%+v %+v", last, u.Written()[id])
	}
	turn := &evict.Changes{Claims: []evict.Claim{*j.Claim(1)}}
	turn.Claims[0].Pin = ""
	save(t, d.store, j, turn)
	if c := openUndo(t, d.store.dir).Find(id, slurmplug.ReqNodeList); c.To != (slurmplug.Value{}) || c.From.String() != "n1" {
		t.Errorf("%+v", c)
	}
}

// A task of an array that has no record of its own is submitted as the array was.
func TestPinOfATask(t *testing.T) {
	d, j := underWay(t)
	turn := evicted(now())
	turn.Claims[0].Job.Task = 3
	save(t, d.store, j, turn)
	c := openUndo(t, d.store.dir).Find(turn.Claims[0].Job, slurmplug.ReqNodeList)
	if c == nil || c.Job.Task != 3 || c.Submit.IsZero() {
		t.Fatalf("%+v", c)
	}
	split := cluster.Job{ID: c.Job, User: c.User, Submit: c.Submit, State: cluster.Pending}
	if other := (cluster.Job{ID: c.Job, User: "mallory", Submit: c.Submit}); !c.Of(&split) || c.Of(&other) {
		t.Errorf("%+v", c)
	}
	if c.Submit = (time.Time{}); !c.Of(&split) {
		t.Error("where the submission is not known the user tells")
	}
}

// While reset changes jobs, no pin is written.
func TestNoPinWhileResetActs(t *testing.T) {
	d, _ := underWay(t)
	lock := must[*os.File](t)(acquire(d.store.dir + "/act.lock"))
	defer lock.Close()
	if err := d.store.SaveEvictions(ctx, evicted(now())); !errors.As(err, new(*HeldError)) {
		t.Errorf("%v", err)
	}
	if n := count(t, d.store, "SELECT count(*) FROM claims"); n != 0 {
		t.Errorf("%d claims", n)
	}
}

// A database that is lost is rewritten with what is under way, also of jobs
// that left the queue, and of tasks that have no record of their own.
func TestEvictionsInANewDatabase(t *testing.T) {
	d, j := underWay(t)
	turn := evicted(now())
	turn.Claims[0].Job = cluster.JobID{ID: 17, Task: 3}
	save(t, d.store, j, turn)
	for _, name := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(databasePath(d.store.dir) + name); err != nil {
			t.Fatal(err)
		}
	}
	turn = &evict.Changes{Evictions: []evict.Eviction{j.Evictions[0]}}
	turn.Evictions[0].State, turn.Evictions[0].SignalledAt = evict.Signalled, now()
	save(t, d.store, j, turn)
	read := must[*evict.Journal](t)(OpenEvictions(d.store.dir))
	if diff := cmp.Diff(j, read, cmpopts.IgnoreUnexported(evict.Journal{})); diff != "" {
		t.Error(diff)
	}
	if n := count(t, d.store, "SELECT count(*) FROM pragma_foreign_key_check"); n != 0 {
		t.Errorf("%d broken references", n)
	}
}
