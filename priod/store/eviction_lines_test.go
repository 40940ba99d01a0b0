package store

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
	"slurmprio/slurmplug"
)

// journal is what a starting priod goes on with.
func (d *daemon) journal() *evict.Journal {
	d.t.Helper()
	return must[*evict.Journal](d.t)(d.store.LoadEvictions(ctx))
}

// signalled is the turn in which the victim of evicted is told to leave.
func signalled(j *evict.Journal) *evict.Changes {
	t := &evict.Changes{Evictions: []evict.Eviction{*j.Eviction(1)}}
	t.Evictions[0].State, t.Evictions[0].SignalledAt = evict.Signalled, now()
	return t
}

func same(t *testing.T, want, got *evict.Journal) {
	t.Helper()
	if diff := gocmp.Diff(want, got, cmpopts.IgnoreUnexported(evict.Journal{})); diff != "" {
		t.Errorf("what was under way (-) and what goes on (+):\n%s", diff)
	}
}

// A database that is lost, or put back from an old copy, while priod is down costs no
// eviction its end, and nobody's count.
func TestEvictionsOutliveTheDatabase(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, d *daemon, old []byte){
		"deleted": func(t *testing.T, d *daemon, _ []byte) { remove(t, databasePath(d.store.dir)) },
		"broken": func(t *testing.T, d *daemon, _ []byte) {
			if err := os.WriteFile(databasePath(d.store.dir), []byte("no database at all"), 0o640); err != nil {
				t.Fatal(err)
			}
		},
		"older": func(t *testing.T, d *daemon, old []byte) {
			if err := os.WriteFile(databasePath(d.store.dir), old, 0o640); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, j := underWay(t)
			save(t, d.store, j, evicted(now()))
			exec(t, d.store, "PRAGMA wal_checkpoint(TRUNCATE)")
			old := must[[]byte](t)(os.ReadFile(databasePath(d.store.dir)))
			save(t, d.store, j, signalled(j))
			if err := d.store.Close(); err != nil {
				t.Fatal(err)
			}
			lose(t, d, old)
			d.store, d.history = openStore(t, d.store.dir, Options{})
			same(t, j, d.journal())
			d.cycle() // which writes it into the new database
			if n := count(t, d.store, "SELECT count(*) FROM evictions AS e JOIN jobs AS j ON j.job = e.job WHERE e.state = 'signalled' AND j.left_ms = 0"); n != 1 {
				t.Errorf("%d evictions in the database, of the victim's own row", n)
			}
		})
	}
}

// Lines that cannot be read are told once, kept aside and cost nothing else.
func TestEvictionLinesDamaged(t *testing.T) {
	d, j := underWay(t)
	save(t, d.store, j, evicted(now()))
	save(t, d.store, j, signalled(j))
	text := must[[]byte](t)(os.ReadFile(journal.Path(d.store.dir)))
	text = append(text, "{\"turn\":{\"evictions\":[{\"eviction\":1,\"job\":\"18\",\"state\":\"gone fishing\"}]}}\n\x00\xffgarbage\n[]\n{}\n"...)
	var log bytes.Buffer
	o := Options{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}
	d.store.Close()
	if err := os.WriteFile(journal.Path(d.store.dir), text, 0o640); err != nil {
		t.Fatal(err)
	}
	remove(t, databasePath(d.store.dir))
	for range 2 {
		d.store, d.history = openStore(t, d.store.dir, o)
		same(t, j, d.journal())
		d.cycle()
		d.store.Close()
	}
	if n := strings.Count(log.String(), "unreadable"); n != 1 || len(aside(t, d.store.dir)) != 1 {
		t.Errorf("told %d times, %v\n%s", n, aside(t, d.store.dir), &log)
	}
}

// Of another cluster's journal nothing counts: the first cycle sets it aside before
// anything is written.
func TestEvictionsOfAnotherCluster(t *testing.T) {
	d, j := underWay(t)
	save(t, d.store, j, evicted(now()))
	d.loseDatabase()
	var log bytes.Buffer
	d.store.log = hclog.New(&hclog.LoggerOptions{Output: &log})
	d.snapshot.Cluster = "other"
	given := d.journal()
	if _, err := d.step(); err == nil || !strings.Contains(err.Error(), "cluster test's") {
		t.Error(err)
	}
	if !given.Blank() || !must[*evict.Journal](t)(OpenEvictions(d.store.dir)).Blank() || len(aside(t, d.store.dir)) != 1 {
		t.Errorf("%+v %v", given, aside(t, d.store.dir))
	}
	d.cycle()
	save(t, d.store, given, evicted(now()))
	d.loseDatabase()
	same(t, given, d.journal())
	d.cycle()
	if n := strings.Count(log.String(), "another cluster"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &log)
	}
}

// The file is as long as what is of use, and keeps counts of evictions that it dropped.
func TestEvictionLinesAreCompacted(t *testing.T) {
	d, j := underWay(t)
	long := now().Add(-evict.Memory - 2*time.Hour)
	for i := range int64(1200) {
		turn := evicted(long)
		c, e := &turn.Claims[0], &turn.Evictions[0]
		c.Number, e.Number, e.Claim = i+1, i+1, i+1
		c.State, c.Pin, c.Resv, c.Ended = evict.Started, "", "", long
		e.State, e.SignalledAt, e.Ended = evict.Done, long, long
		save(t, d.store, j, turn)
		j.Forget(now().Add(time.Duration(i)*time.Hour), func(cluster.JobID) bool { return true })
	}
	d.cycle()
	told := must[*evict.Journal](t)(OpenEvictions(d.store.dir))
	if n := undoLines(t, d.store.dir); n > 100 || told.Times[slurmplug.Plain(18)] != 1200 || told.LastEviction != 1200 {
		t.Fatal(n, told.Times, told.LastEviction)
	}
	d.loseDatabase()
	got := d.journal()
	if got.Forget(now(), func(cluster.JobID) bool { return true }); got.Times[slurmplug.Plain(18)] != 1200 {
		t.Errorf("%+v", got.Times)
	}
	d.cycle()
	d.restart() // the new database never saw them
	if got := d.journal(); got.Times[slurmplug.Plain(18)] != 1200 {
		t.Errorf("%+v", got.Times)
	}
}

// Without room for the line, or for the rows, no command goes out and nothing is left
// in the file.
func TestNoRoomForEvictions(t *testing.T) {
	dir := small(t)
	d := newDaemon(t, dir+"/state", pending(17, "te"), pending(18, "be"))
	d.cycle()
	j := d.journal()
	save(t, d.store, j, evicted(now()))
	before := must[[]byte](t)(os.ReadFile(journal.Path(d.store.dir)))
	for _, room := range []int{0, 4 << 10, 8 << 10, 16 << 10} {
		fill(t, dir, dir+"/ballast", room)
		turn := signalled(j)
		turn.Evictions[0].Reason = strings.Repeat("x", 64<<10)
		if err := d.store.SaveEvictions(ctx, turn); err == nil {
			t.Fatalf("%d bytes: saved", room)
		}
		if text := must[[]byte](t)(os.ReadFile(journal.Path(d.store.dir))); !bytes.Equal(text, before) {
			t.Fatalf("%d bytes: %d bytes instead of %d are left in the file", room, len(text), len(before))
		}
		remove(t, dir+"/ballast")
	}
	save(t, d.store, j, signalled(j))
	d.loseDatabase()
	same(t, j, d.journal())
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// Deleted while priod runs, it is rewritten by the next turn.
func TestEvictionFileDeleted(t *testing.T) {
	d, j := underWay(t)
	save(t, d.store, j, evicted(now()))
	remove(t, journal.Path(d.store.dir))
	save(t, d.store, j, signalled(j))
	if n, what := d.store.Mended(); n != 1 || !strings.Contains(what, "the journal was deleted") {
		t.Error(n, what)
	}
	d.loseDatabase()
	same(t, j, d.journal())
}

// A job that failed is not in the queue until it is requeued: it stays one job, with
// all its runs, and what priod wrote into it stays priod's. So it is when the priod that
// wrote it was killed before it knew the outcome.
func TestRequeuedAfterItLeft(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprint(killed, lost), func(t *testing.T) {
				d := newDaemon(t, t.TempDir(), pending(17, "te"), pending(18, "te"))
				d.die = killed
				if _, err := d.step(); (err != nil) != killed {
					t.Fatal(err)
				}
				d.die = false
				d.restart()
				run(d.job(18), d.snapshot.At)
				d.cycle()
				j := *d.job(18)
				d.remove(18)
				d.cycle()
				if lost {
					d.loseDatabase()
				} else {
					d.restart()
				}
				d.cycle()
				j.State, j.Restarts, j.SiteFactorKnown, j.Submit = cluster.Pending, 1, true, d.snapshot.At
				j.Tag.Type = "be" // of a TE job priod takes any value for its own
				d.snapshot.Jobs = append(d.snapshot.Jobs, j)
				if r := d.cycle(); len(r.Plan.Notes) > 0 || d.job(18).SiteFactor != 0 {
					t.Errorf("%v, its value is %d", r.Plan.Notes, d.job(18).SiteFactor)
				}
				if lost {
					return
				}
				run(d.job(18), d.snapshot.At)
				d.cycle()
				d.remove(18)
				d.cycle()
				story := must[Story](t)(reader(t, d.store.dir).Job(ctx, slurmplug.Plain(18), 9))
				if rows := count(t, d.store, "SELECT count(*) FROM jobs WHERE id = 18"); rows != 1 || len(story.Stays) != 2 || story.Job.Restarts != 1 || story.Job.Left.IsZero() {
					t.Errorf("%d rows, %+v", rows, story.Stays)
				}
			})
		}
	}
}
