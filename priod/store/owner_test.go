package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// twoHosts share a folder; one of them acts at a time.
type twoHosts struct {
	t     testing.TB
	other *Store // of the one that does not
	next  int
}

// begin lets a daemon that has a folder of its own share one.
func (h *twoHosts) begin(d *daemon) {
	h.t.Helper()
	opts := Options{Shared: h.t.TempDir()}
	dir := d.store.dir
	if err := d.store.Close(); err != nil {
		h.t.Fatal(err)
	}
	d.store, d.history = openStore(h.t, dir, opts)
}

// takeOver lets the other host act from now on, which never did or did before.
func (h *twoHosts) takeOver(d *daemon) {
	h.t.Helper()
	next := h.other
	if next == nil {
		h.next++
		next = must[*Store](h.t)(Open(ctx, filepath.Join(h.t.TempDir(), fmt.Sprint("host", h.next)), d.store.opts))
		h.t.Cleanup(func() { next.Close() })
	}
	slow := d.store
	d.store, d.history = next, takeOver(h.t, next)
	d.history.Observe(&d.snapshot)
	if err := slow.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &plan.Plan{At: d.snapshot.At}}); !errors.Is(err, ErrTakenOver) {
		h.t.Fatalf("the host that acted before goes on: %v", err)
	}
	h.other = slow
}

func (h *twoHosts) close() error {
	if h.other == nil {
		return nil
	}
	return h.other.Close()
}

// An eviction under way goes on on the other host, in whatever state it was, and the job's
// count with it; the host that acted before can add nothing.
func TestEvictionsGoOnOnTheOtherHost(t *testing.T) {
	for _, state := range evict.States {
		d, _ := underWay(t)
		hosts := twoHosts{t: t}
		hosts.begin(d)
		j := must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
		turn := evicted(now())
		turn.Evictions[0].State, turn.Evictions[0].SignalledAt = state, now()
		save(t, d.store, j, turn)
		first := d.store
		for range 3 { // there and back
			hosts.takeOver(d)
			j = must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
			e, c := j.Eviction(1), j.Claim(1)
			if e == nil || c == nil || e.State != state || c.Pin != "n1" || j.Times[e.Job] != 1 || j.LastEviction != 1 {
				t.Fatalf("%s: %+v", state, j)
			}
			d.cycle()
			if err := hosts.other.SaveEvictions(ctx, turn); !errors.Is(err, ErrTakenOver) {
				t.Errorf("%s: the other host saves a turn: %v", state, err)
			}
		}
		if d.store == first {
			t.Fatal("the first host acts")
		}
		d.restart()
		j = must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
		if e := j.Eviction(1); e == nil || e.State != state || j.Claim(1).Resv != "priod_1_9" {
			t.Errorf("%s, after a restart: %+v", state, j)
		}
		if u := openUndo(t, d.store.journals); u.Find(slurmplug.Plain(17), slurmplug.ReqNodeList) == nil {
			t.Errorf("%s: the undo journal does not say what was pinned", state)
		}
	}
}

// A host that acts again goes by what the other one wrote meanwhile, not by what its
// database knew when it last acted.
func TestValuesOfTheOtherHost(t *testing.T) {
	d := newDaemon(t, t.TempDir(), pending(1, "te"), pending(2, "be"))
	hosts := twoHosts{t: t}
	hosts.begin(d)
	d.cycle()
	run(d.job(2), d.snapshot.At)
	d.cycle()
	first := d.job(1).SiteFactor
	hosts.takeOver(d)
	d.job(1).Tag.Type = "be"
	d.remove(2)
	d.cycle()
	if d.job(1).SiteFactor == first {
		t.Fatal("the other host writes nothing")
	}
	hosts.takeOver(d)
	id := slurmplug.Plain(1)
	if w := d.history.Written[id]; w.Tried != d.job(1).SiteFactor {
		t.Errorf("the value is %d, and known as %+v", d.job(1).SiteFactor, w)
	}
	if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE left_ms = 0") + count(t, d.store, "SELECT count(*) FROM intervals WHERE closed = 0"); n != 0 {
		t.Errorf("%d jobs and stays of its last time count as there", n)
	}
	if r := d.cycle(); len(r.Outcomes) != 0 {
		t.Errorf("it writes %+v", r.Outcomes)
	}
}

// Nor after a restart of it, when a job that was requeued goes on in the row that it had
// there, with what this host wrote before the other one did.
func TestOlderWritesOfThisHost(t *testing.T) {
	requeued := pending(1, "be")
	requeued.Restarts = 1
	d := &asks{daemon: newDaemon(t, t.TempDir(), requeued)}
	hosts := twoHosts{t: t}
	hosts.begin(d.daemon)
	j := &d.snapshot.Jobs[0]
	d.ask(j, "a100", true, slurmplug.Applied)
	hosts.takeOver(d.daemon)
	d.ask(j, "v100", true, slurmplug.Applied)
	hosts.takeOver(d.daemon)
	if err := d.store.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &plan.Plan{At: d.snapshot.At}}); err != nil {
		t.Fatal(err)
	}
	d.restart()
	if n := count(t, d.store, "SELECT count(*) FROM jobs"); n != 1 {
		t.Errorf("the job has %d rows", n)
	}
	if r := d.history.Requests[j.ID][slurmplug.Features]; !r.Ours(slurmplug.Text("v100")) || r.Was != (slurmplug.Value{}) {
		t.Errorf("%+v", r)
	}
}

// What each host kept for itself before the folder was shared is not lost.
func TestJournalsMoveIntoTheSharedFolder(t *testing.T) {
	shared := t.TempDir()
	for n, id := range []uint32{17, 18} {
		d := &asks{daemon: newDaemon(t, filepath.Join(t.TempDir(), fmt.Sprint("host", n)), pending(id, "be")), own: map[cluster.JobID]string{}}
		d.ask(d.job(id), "a100", true, slurmplug.Applied)
		j := must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
		turn := evicted(now())
		turn.Claims[0].Job, turn.Evictions[0].Job = slurmplug.Plain(id), slurmplug.Plain(id+100)
		save(t, d.store, j, turn)
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		d.store, d.history = openStore(t, d.store.dir, Options{Shared: shared})
		j = must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
		u := openUndo(t, shared)
		for k := range n + 1 {
			of := slurmplug.Plain(uint32(17 + k))
			if len(j.Claims) != n+1 || j.Claims[k].Job != of || j.Times[slurmplug.Plain(of.ID+100)] != j.Times[slurmplug.Plain(117)] {
				t.Errorf("host %d: %+v", n, j.Claims)
			}
			if c := u.Find(of, slurmplug.Features); c == nil || c.To.String() != "a100" {
				t.Errorf("host %d: the undo journal has lost job %s: %+v", n, of, c)
			}
		}
		if _, err := os.Stat(journal.Path(d.store.dir)); err == nil {
			t.Errorf("host %d keeps a journal of its own", n)
		}
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A shared folder that is not mounted, of another cluster, or spoiled.
func TestBadSharedFolders(t *testing.T) {
	open := func(t *testing.T, dir, shared string) error {
		s, err := Open(ctx, dir, Options{Shared: shared})
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.TakeOver(ctx, "ctl1", "test")
		return err
	}
	for name, c := range map[string]struct {
		happens func(t *testing.T, dir, shared string)
		want    string // "": it goes on
	}{
		"as it was":       {func(*testing.T, string, string) {}, ""},
		"gone":            {func(t *testing.T, _, shared string) { removeAll(t, shared) }, "mount it"},
		"not mounted":     {func(t *testing.T, _, shared string) { removeAll(t, shared); mkdir(t, shared) }, "is it mounted?"},
		"a file":          {func(t *testing.T, _, shared string) { removeAll(t, shared); write(t, shared, "x") }, "is no folder"},
		"another cluster": {func(t *testing.T, _, shared string) { write(t, ownerPath(shared), `{"key":"K","cluster":"other"}`) }, "there is another owner"},
		"spoiled":         {func(t *testing.T, _, shared string) { write(t, ownerPath(shared), "\x00\x01") }, ""},
		"begun anew": {func(t *testing.T, dir, shared string) {
			removeAll(t, shared)
			mkdir(t, shared)
			remove(t, ownerPath(dir))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, shared := t.TempDir(), filepath.Join(t.TempDir(), "shared")
			mkdir(t, shared)
			if err := open(t, dir, shared); err != nil {
				t.Fatal(err)
			}
			c.happens(t, dir, shared)
			if err := open(t, dir, shared); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A host that stands by notes that the folder was there, so that it does not take over an
// empty one.
func TestStandByNotesTheOwner(t *testing.T) {
	shared := t.TempDir()
	acts, _ := openStore(t, t.TempDir(), Options{Shared: shared})
	dir := t.TempDir()
	other := must[*Store](t)(Open(ctx, dir, Options{Shared: shared}))
	defer other.Close()
	if _, err := other.Watch(); err != nil {
		t.Fatal(err)
	}
	if err := acts.owns(); err != nil {
		t.Error(err)
	}
	remove(t, ownerPath(shared))
	if _, err := other.Watch(); err == nil || !strings.Contains(err.Error(), "is it mounted?") {
		t.Error(err)
	}
	if _, err := other.TakeOver(ctx, "ctl2", "test"); err == nil {
		t.Error("it takes over a folder that is not mounted")
	}
	if err := acts.owns(); !errors.Is(err, ErrUnowned) {
		t.Error(err)
	}
}

// A priod that acts and whose owner.json somebody deletes or spoils takes over anew, and goes on.
func TestOwnerIsWrittenAnew(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"deleted": remove,
		"spoiled": func(t *testing.T, path string) { write(t, path, "\x00") },
	} {
		t.Run(name, func(t *testing.T) {
			d := &asks{daemon: newDaemon(t, t.TempDir(), pending(1, "be")), own: map[cluster.JobID]string{}}
			hosts := twoHosts{t: t}
			hosts.begin(d.daemon)
			j := &d.snapshot.Jobs[0]
			d.ask(j, "a100", true, slurmplug.Applied)
			before := d.store.owner.Key
			harm(t, ownerPath(d.store.journals))
			if err := d.store.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &plan.Plan{At: d.snapshot.At}}); !errors.Is(err, ErrUnowned) {
				t.Fatal(err)
			}
			d.history = takeOver(t, d.store)
			d.ask(j, "v100", true, slurmplug.Applied)
			if r := d.history.Requests[j.ID][slurmplug.Features]; !r.Ours(slurmplug.Text("v100")) || r.Was != (slurmplug.Value{}) {
				t.Errorf("%+v", r)
			}
			if now, err := CheckShared(d.store.dir, d.store.journals); err != nil || now == nil || now.Key != d.store.owner.Key || !now.follows(before) {
				t.Error(now, err)
			}
		})
	}
}

// A pause stands for all hosts.
func TestPauseOfAllHosts(t *testing.T) {
	shared := t.TempDir()
	s, _ := openStore(t, t.TempDir(), Options{Shared: shared})
	if err := SetPause(shared, Pause{Who: "ann", When: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if hold, err := s.Hold(); err != nil || !strings.Contains(hold, "ann") {
		t.Error(hold, err)
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o750); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}
