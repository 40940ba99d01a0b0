package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

// copied is a folder as it was, with the times of its files, as a backup keeps it.
type copied struct {
	t     testing.TB
	dir   string
	texts map[string][]byte
	times map[string]time.Time
}

func copyOf(t testing.TB, dir string) *copied {
	t.Helper()
	c := &copied{t, dir, map[string][]byte{}, map[string]time.Time{}}
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		path := filepath.Join(dir, e.Name())
		c.texts[path] = must[[]byte](t)(os.ReadFile(path))
		c.times[path] = must[os.FileInfo](t)(e.Info()).ModTime()
	}
	return c
}

// restore puts files of the folder back, all of them when none is named.
func (c *copied) restore(names ...string) {
	c.t.Helper()
	if len(names) == 0 {
		for _, e := range must[[]os.DirEntry](c.t)(os.ReadDir(c.dir)) {
			if err := os.Remove(filepath.Join(c.dir, e.Name())); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	for path, text := range c.texts {
		if len(names) > 0 && filepath.Base(path) != names[0] {
			continue
		}
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, text, 0o640), os.Chtimes(path, time.Time{}, c.times[path])); err != nil {
			c.t.Fatal(err)
		}
	}
}

// steered is a host that has written a constraint, has an eviction under way and a job that
// failed; all of it in the shared folder.
func steered(t *testing.T) (*asks, *twoHosts) {
	t.Helper()
	d := &asks{daemon: newDaemon(t, t.TempDir(), pending(1, "be"), pending(17, "te"), pending(18, "be")), own: map[cluster.JobID]string{}}
	hosts := &twoHosts{t: t}
	hosts.begin(d.daemon)
	d.ask(d.job(1), "a100", true, slurmplug.Applied)
	return d, hosts
}

// further takes all of it one step further.
func (d *asks) further(constraint string, state evict.State, failure retry.State) {
	d.t.Helper()
	d.ask(d.job(1), constraint, true, slurmplug.Applied)
	turn := evicted(epoch)
	turn.Evictions[0].State, turn.Evictions[0].SignalledAt = state, epoch
	save(d.t.(*testing.T), d.store, must[*evict.Journal](d.t)(d.store.LoadEvictions(ctx)), turn)
	m := must[*retry.Memory](d.t)(d.store.LoadFailures(ctx))
	rows := failed(now())
	rows.Failures[0].State, rows.Failures[0].Start, rows.Failures[0].Tries = failure, epoch, 1
	saveFailures(d.t.(*testing.T), d.daemon, m, &retry.Changes{Failures: rows.Failures[:1]})
}

// knows fails unless this host, and the folder by itself, know how far all of it is.
func (d *asks) knows(constraint string, state evict.State, failure retry.State) {
	d.t.Helper()
	r := d.history.Requests[slurmplug.Plain(1)][slurmplug.Features]
	line := openUndo(d.t, d.store.journals).Requests()[slurmplug.Plain(1)][slurmplug.Features]
	for name, r := range map[string]cluster.Requested{"history": r, "journal": line} {
		if !r.Ours(slurmplug.Text(constraint)) || r.Was != (slurmplug.Value{}) {
			d.t.Errorf("%s: %q is not known as priod's: %+v", name, constraint, r)
		}
	}
	told := must[*Told](d.t)(ReadJournal(d.store.journals))
	for name, j := range map[string]*evict.Journal{"loaded": must[*evict.Journal](d.t)(d.store.LoadEvictions(ctx)), "journal": told.Evictions} {
		if len(j.Evictions) != 1 || j.Evictions[0].State != state || j.Times[slurmplug.Plain(18)] != 1 {
			d.t.Errorf("evictions, %s: %+v", name, j)
		}
	}
	for name, m := range map[string]*retry.Memory{"loaded": must[*retry.Memory](d.t)(d.store.LoadFailures(ctx)), "journal": told.Failures} {
		if len(m.Failures) != 1 || m.Failures[0].State != failure {
			d.t.Errorf("failures, %s: %+v", name, m.Failures)
		}
	}
}

func (d *asks) idle() error {
	d.history.Observe(&d.snapshot)
	return d.store.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &plan.Plan{At: d.snapshot.At}})
}

// The shared folder, or one file of it, is put back from a backup under the host that owns it, while its priod runs: all that
// this host knew stands there again. That is said, and what stood there is kept.
func TestSharedFolderPutBack(t *testing.T) {
	for _, earlier := range []string{"of this host's time", "of the other host's time", "journal.jsonl", "owner.json"} {
		t.Run(earlier, func(t *testing.T) {
			d, hosts := steered(t)
			d.further("a100", evict.Recorded, retry.Delayed)
			backup := copyOf(t, d.store.journals)
			if earlier == "of the other host's time" || earlier == "owner.json" {
				hosts.takeOver(d.daemon)
				must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
				must[*retry.Memory](t)(d.store.LoadFailures(ctx))
				if err := d.idle(); err != nil {
					t.Fatal(err)
				}
			}
			d.further("v100", evict.Signalled, retry.Recorded)
			d.further("t4", evict.Requeued, retry.Requeued)
			log := &bytes.Buffer{}
			d.store.log = hclog.New(&hclog.LoggerOptions{Output: log})
			if strings.HasPrefix(earlier, "of ") {
				backup.restore()
			} else {
				backup.restore(earlier)
			}
			for range 3 {
				if err := d.idle(); err != nil {
					t.Fatal(err)
				}
			}
			d.knows("t4", evict.Requeued, retry.Requeued)
			if n := strings.Count(log.String(), "[ERROR]") + strings.Count(log.String(), "[WARN]"); n == 0 || n > 4 {
				t.Errorf("it says:\n%s", log)
			}
		})
	}
}

// The same before its priod starts: it writes nothing, and says why, until it is told that nothing newer is left.
func TestSharedFolderPutBackBeforeAStart(t *testing.T) {
	for _, earlier := range []string{"", "owner.json"} {
		d, hosts := steered(t)
		d.further("a100", evict.Recorded, retry.Delayed)
		backup := copyOf(t, d.store.journals)
		hosts.takeOver(d.daemon)
		if err := d.idle(); err != nil {
			t.Fatal(err)
		}
		opts := d.store.opts
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		if backup.restore(); earlier != "" {
			backup.restore(earlier)
		}
		if _, err := Open(ctx, d.store.dir, opts); err == nil || !strings.Contains(err.Error(), "delete "+ownerPath(d.store.dir)) {
			t.Errorf("it starts: %v", err)
		}
		remove(t, ownerPath(d.store.dir))
		d.store = must[*Store](t)(Open(ctx, d.store.dir, opts))
		t.Cleanup(func() { d.store.Close() })
		takeOver(t, d.store)
	}
}

// The same while the host that owned the folder is lost: the other one, which watched it,
// writes nothing, and says why, until somebody tells it that nothing newer is left.
func TestOlderFolderIsNotTakenOver(t *testing.T) {
	for _, c := range []struct {
		name    string
		happens func(backup *copied, shared string)
		want    string
	}{
		{"put back", func(b *copied, _ string) { b.restore() }, "there is another owner"},
		{"one journal", func(b *copied, _ string) { b.restore("journal.jsonl") }, "journal.jsonl is older or gone"},
		{"a journal deleted", func(_ *copied, shared string) { os.Remove(journal.Path(shared)) }, "journal.jsonl is older or gone"},
		{"another folder", func(b *copied, shared string) {
			b.restore()
			writeOwner(shared, Owner{Host: "ctl9", Cluster: "test", Key: "another"})
		}, "there is another owner"},
		{"an older owner", func(b *copied, _ string) { b.restore("owner.json") }, "there is another owner"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, hosts := steered(t)
			d.further("a100", evict.Recorded, retry.Delayed)
			shared := d.store.journals
			backup := copyOf(t, shared)
			hosts.takeOver(d.daemon)
			must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
			must[*retry.Memory](t)(d.store.LoadFailures(ctx))
			d.further("v100", evict.Signalled, retry.Recorded)
			watches := hosts.other
			if owner, err := watches.Watch(); err != nil || owner != "host1" {
				t.Fatal(owner, err)
			}
			if c.happens(backup, shared); d.store.Close() != nil {
				t.Fatal("close")
			}
			owner := must[[]byte](t)(os.ReadFile(ownerPath(shared)))
			_, err := watches.Watch()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := watches.TakeOver(ctx, "host0", "test"); err == nil || !strings.Contains(err.Error(), "delete "+ownerPath(watches.dir)) {
				t.Errorf("it takes over: %v", err)
			}
			if now := must[[]byte](t)(os.ReadFile(ownerPath(shared))); !bytes.Equal(now, owner) {
				t.Error("it writes into the folder")
			}
			remove(t, ownerPath(watches.dir))
			if from, err := watches.TakeOver(ctx, "host0", "test"); err != nil || from == "" {
				t.Errorf("once told, it does not take over: %q, %v", from, err)
			}
		})
	}
}

// A stand-by that saw the files of an earlier version is upgraded after the host that owns the folder, whose journal took them
// in: it goes on watching, and can take over.
func TestStandByIsUpgraded(t *testing.T) {
	d, _ := steered(t)
	shared, dir := d.store.journals, t.TempDir()
	early := seenOwner{Owner: d.store.owner, Files: map[string]time.Time{"undo.jsonl": time.Now(), "evictions.jsonl": time.Now()}}
	if err := writeOwner(dir, early); err != nil {
		t.Fatal(err)
	}
	other := must[*Store](t)(Open(ctx, dir, Options{Shared: shared}))
	defer other.Close()
	if owner, err := other.Watch(); err != nil || owner == "" {
		t.Errorf("%q, %v", owner, err)
	}
	if _, err := other.TakeOver(ctx, "ctl2", "test"); err != nil {
		t.Error(err)
	}
}

// Lines that somebody removed, repeated, spoiled or added, found by a host that takes over:
// what is left counts once, and unreadable lines are said and kept.
func TestJournalsEditedBeforeATakeOver(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(line string, n, last int) string
		lost bool // the last line
		said bool
	}{
		{"repeated", func(l string, _, _ int) string { return l + l }, false, false},
		{"junk between", func(l string, _, _ int) string { return "\x00junk\n" + l }, false, true},
		{"the last one removed", func(l string, n, last int) string {
			if n == last {
				return ""
			}
			return l
		}, true, false},
		{"cut off in the middle of the last one", func(l string, n, last int) string {
			if n == last {
				return l[:len(l)/2]
			}
			return l
		}, true, false},
		{"another program's line", func(l string, n, last int) string {
			if n == last {
				return l + "{\"time\":\"2026-01-01T00:00:00Z\",\"level\":\"info\"}\n"
			}
			return l
		}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, hosts := steered(t)
			d.further("v100", evict.Recorded, retry.Delayed)
			d.further("t4", evict.Signalled, retry.Recorded)
			path := journal.Path(d.store.journals)
			lines := strings.SplitAfter(string(must[[]byte](t)(os.ReadFile(path))), "\n")
			lines = lines[:len(lines)-1]
			text := lines[0] // its head
			for n, l := range lines[1:] {
				text += c.edit(l, n, len(lines)-2)
			}
			write(t, path, text)
			log := &bytes.Buffer{}
			d.store.opts.Logger = hclog.New(&hclog.LoggerOptions{Output: log})
			hosts.takeOver(d.daemon)
			state, failure := evict.Signalled, retry.Recorded
			if c.lost {
				failure = retry.Delayed
			}
			must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
			must[*retry.Memory](t)(d.store.LoadFailures(ctx))
			for range 2 {
				if err := d.idle(); err != nil {
					t.Fatal(err)
				}
			}
			d.knows("t4", state, failure)
			if said := strings.Count(log.String(), "unreadable"); (said == 1) != c.said || said > 1 {
				t.Errorf("it says %d times that lines are unreadable:\n%s", said, log)
			}
			if kept := len(aside(t, d.store.journals)); (kept >= 1) != c.said {
				t.Errorf("%d copies are kept", kept)
			}
		})
	}
}

// Two resets, the second one by a host whose clock is behind: both count, and a journal that
// was put back from before them is no reset.
func TestResetsByTwoClocks(t *testing.T) {
	d, _ := ranked(t, t.TempDir())
	dir := d.store.dir
	backup := copyOf(t, dir)
	at := d.snapshot.At
	for _, by := range []time.Duration{10 * time.Minute, 0} {
		if err := openUndo(t, dir).TookBack(at.Add(by), func(*undo.Change) bool { return false }); err != nil {
			t.Fatal(err)
		}
		if err := d.store.file.Follow(); err != nil {
			t.Errorf("a reset at %v is taken for a loss: %v", by, err)
		}
		for i := range d.snapshot.Jobs {
			d.snapshot.Jobs[i].SiteFactor = 0
		}
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(uint32(len(d.snapshot.Jobs)+1), "te")) // something to write
		if _, err := d.step(); !errors.Is(err, ErrGaveWay) {
			t.Fatalf("the reset at %v is not noticed: %v", by, err)
		}
		d.cycle()
	}
	backup.restore("journal.jsonl")
	if err := d.store.file.Follow(); !errors.Is(err, journal.ErrLost) {
		t.Errorf("an older journal is taken for a reset: %v", err)
	}
}

// The clocks of the hosts differ by minutes: whoever takes over knows the values, the
// constraint, the eviction and the failure of the other one, and writes nothing anew.
func TestClocksOfTheHostsDiffer(t *testing.T) {
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		d, hosts := steered(t)
		d.job(17).Priority = 90
		d.cycle()
		d.further("v100", evict.Signalled, retry.Recorded)
		for n := range 4 {
			d.snapshot.At = d.snapshot.At.Add(by)
			by = -by
			hosts.takeOver(d.daemon)
			must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
			must[*retry.Memory](t)(d.store.LoadFailures(ctx))
			d.knows("v100", evict.Signalled, retry.Recorded)
			if r := d.cycle(); len(r.Outcomes) != 0 {
				t.Errorf("by %v, take-over %d: it writes %+v", by, n, r.Outcomes)
			}
		}
		d.ask(d.job(1), "t4", true, slurmplug.Applied)
		d.restart()
		must[*evict.Journal](t)(d.store.LoadEvictions(ctx))
		d.knows("t4", evict.Signalled, retry.Recorded)
	}
}
