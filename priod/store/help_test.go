package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var _ cycle.Recorder = (*Store)(nil)

var ctx = context.Background()

var testSeed = maphash.MakeSeed()

// epoch is where the tests' clocks begin.
var epoch = time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)

// openStore opens a state folder and loads it.
func openStore(t testing.TB, dir string, o Options) (*Store, *cluster.History) {
	t.Helper()
	s, err := Open(ctx, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, takeOver(t, s)
}

// takeOver lets a host act, and reads what is known.
func takeOver(t testing.TB, s *Store) *cluster.History {
	t.Helper()
	if _, err := s.TakeOver(ctx, filepath.Base(s.dir), "test"); err != nil {
		t.Fatal(err)
	}
	return must[*cluster.History](t)(s.Load(ctx))
}

// daemon runs cycles as the real one does: the same Step, the same policies;
// the cluster is the snapshot at hand and takes every write, unless answer says
// otherwise.
type daemon struct {
	t        testing.TB
	store    *Store
	history  *cluster.History
	snapshot cluster.Snapshot
	settings cycle.Settings
	answer   func(plan.Action) slurmplug.Status
	die      bool // between the writes and Done
}

func newDaemon(t testing.TB, dir string, jobs ...cluster.Job) *daemon {
	t.Helper()
	d := &daemon{t: t, settings: cycle.Settings{Order: order.Feature{Settings: order.Settings{
		Top: 1_000_000, Step: 1000,
	}}}}
	if files, _ := os.ReadDir(dir); len(files) == 0 {
		if err := os.CopyFS(dir, must[fstest.MapFS](t)(fresh())); err != nil {
			t.Fatal(err)
		}
	}
	d.store, d.history = openStore(t, dir, Options{})
	d.snapshot = cluster.Snapshot{At: epoch, Cluster: "test", Jobs: jobs}
	return d
}

// fresh holds the files of a state folder that was opened once: most of what a new one costs are its migrations.
var fresh = sync.OnceValues(func() (fstest.MapFS, error) {
	dir, err := os.MkdirTemp("", "fresh-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := Open(ctx, dir, Options{})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	files, found := fstest.MapFS{}, os.DirFS(dir)
	return files, fs.WalkDir(found, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(found, path)
		files[path] = &fstest.MapFile{Data: text, Mode: 0o600}
		return err
	})
})

var errDied = errors.New("died before Done")

// Done lets the test die between Apply and Done.
type mortal struct {
	*Store
	die bool
}

func (m mortal) Done(ctx context.Context, o []plan.Outcome) error {
	if m.die {
		return errDied
	}
	return m.Store.Done(ctx, o)
}

// Observe gives each job's tag the text that it would have been read from.
func (d *daemon) Observe(context.Context) (cluster.Snapshot, error) {
	for i := range d.snapshot.Jobs {
		if err := setText(&d.snapshot.Jobs[i]); err != nil {
			return d.snapshot, err
		}
	}
	return d.snapshot, nil
}

func setText(j *cluster.Job) (err error) {
	j.TagText, err = jobtag.Encode(j.Tag)
	return err
}

func (d *daemon) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	outcomes := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		outcomes[i] = plan.Outcome{Action: a, Status: slurmplug.Applied}
		if d.answer != nil {
			outcomes[i].Status = d.answer(a)
		}
		if outcomes[i].Status == slurmplug.Applied {
			for k := range d.snapshot.Jobs {
				if j := &d.snapshot.Jobs[k]; j.ID == a.Job && a.Lever == slurmplug.SiteFactor {
					_, _ = fmt.Sscan(a.After.String(), &j.SiteFactor)
				}
			}
		}
	}
	return outcomes
}

// step runs one cycle 15 s after the last.
func (d *daemon) step() (cycle.Result, error) {
	d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
	return cycle.Step(ctx, d, mortal{d.store, d.die}, d.history, d.settings)
}

func (d *daemon) cycle() cycle.Result {
	d.t.Helper()
	r, err := d.step()
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// restart ends the process, cleanly or not, and starts the next one.
func (d *daemon) restart() {
	d.t.Helper()
	dir := d.store.dir
	if err := d.store.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.store, d.history = openStore(d.t, dir, d.store.opts)
}

// loseDatabase restarts without the database.
func (d *daemon) loseDatabase() {
	d.t.Helper()
	dir := d.store.dir
	if err := d.store.Close(); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Remove(databasePath(dir)); err != nil {
		d.t.Fatal(err)
	}
	d.store, d.history = openStore(d.t, dir, d.store.opts)
}

func (d *daemon) job(id uint32) *cluster.Job {
	d.t.Helper()
	for i := range d.snapshot.Jobs {
		if d.snapshot.Jobs[i].ID == slurmplug.Plain(id) {
			return &d.snapshot.Jobs[i]
		}
	}
	d.t.Fatalf("no job %d", id)
	return nil
}

// remove takes a job out of the queue.
func (d *daemon) remove(id uint32) {
	kept := d.snapshot.Jobs[:0:0]
	for _, j := range d.snapshot.Jobs {
		if j.ID.ID != id {
			kept = append(kept, j)
		}
	}
	d.snapshot.Jobs = kept
}

// pending is a job that waits since its id's minute.
func pending(id uint32, class string) cluster.Job {
	at := epoch.Add(-time.Duration(id) * time.Minute)
	return cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "alice", Account: "physics", Partition: "gpu",
		State: cluster.Pending, Reason: "Priority", Priority: 100, SiteFactorKnown: true, Nodes: 1, CPUs: 8, MemMB: 1024,
		GPUs: 2, GPUType: "a100", TimeLimit: time.Hour, Submit: at, Eligible: at, Tag: jobtag.Tag{Type: class},
	}
}

func run(j *cluster.Job, at time.Time) {
	j.State, j.Reason, j.Start, j.NodeList, j.SiteFactorKnown = cluster.Running, "None", at, "n1", false
}

// diffHistory leaves out Written.Older, which only the journal keeps, until it is
// compacted.
func diffHistory(a, b *cluster.History, but ...cmp.Option) string {
	return cmp.Diff(a, b, append(but, cmp.AllowUnexported(cluster.History{}), cmpopts.IgnoreFields(cluster.Written{}, "Older"),
		mapped[time.Time](), mapped[cluster.Class](), mapped[*cluster.Stay](),
		cmpopts.IgnoreFields(cluster.History{}, "seen", "tags", "poll", "at", "former", "swept", "ends", "changes"), cmpopts.EquateEmpty())...)
}

// mapped compares a JobMap by what it holds.
func mapped[T any]() cmp.Option {
	return cmp.Transformer("All", func(m cluster.JobMap[T]) map[cluster.JobID]T { return maps.Collect(m.All()) })
}

// butTooOld leaves out the stays that no longer reach into cluster.UsePeriod: a History
// sweeps them out by and by, and nobody reads them meanwhile.
func butTooOld(now time.Time) cmp.Option {
	return cmpopts.IgnoreMapEntries(func(_ any, i *cluster.Stay) bool { return !i.End.After(now.Add(-cluster.UsePeriod)) })
}

func count(t testing.TB, s *Store, query string, args ...any) (n int64) {
	t.Helper()
	if err := s.db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(query, err)
	}
	return n
}

func exec(t testing.TB, s *Store, statement string) {
	t.Helper()
	rows, err := s.db.Query(statement)
	if err != nil {
		t.Fatal(statement, err)
	}
	for rows.Next() {
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(statement, err)
	}
}

func reader(t testing.TB, dir string) *Reader {
	t.Helper()
	r, err := OpenReader(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
