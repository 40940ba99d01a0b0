package store

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/guarantee"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// rowsOf is what a priod of each schema could have left behind.
var rowsOf = map[int64]string{
	1: `INSERT INTO jobs VALUES (3, 17, -1, 1000, 2000, 3000, 0, 17, '', 1, 0, 0, 'alice', 'physics', 'gpu', 'normal', '',
			'pending', 'Priority', 100, 0, 5000, 1, 0, 1, 8, 1024, 2, 'a100', '', '', '', 3600000, 1000, 1000, 0, 0, 'prio:type=te&v=1', '');
		INSERT INTO history VALUES (17, -1, 1000, 'te', 'SiteFactor', 5000, 5000, 0, 3000, 0);
		INSERT INTO cycles VALUES (8, 2000, 3000, 2, 'old', 'SiteFactor', 1, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, '', '[]');
		INSERT INTO decisions (decision, job, cycle, at_ms, class, ranked, value, own_priority, why, detail, since_ms, unmoved)
			VALUES (5, 3, 8, 2000, 'te', 1, 5000, 100, 'te', '', 1000, '');
		INSERT INTO writes VALUES (9, 3, 8, 2000, '', 0, 'SiteFactor', '0', '5000', '0', 'te', 'applied', '');
		INSERT INTO intervals VALUES (3, 500, 900, 0, 1, 'a100', 2, 'alice', 'physics', 'te', 0);
		INSERT INTO nodes VALUES ('n1', 2000, 1, 'IDLE', 'a100', 'a100', 8, 0, 64, 0, 1000, 0, 0);`,
	2: `INSERT INTO claims (claim, job, cycle, state, reason, node_list, at_ms, changed_ms) VALUES (1, 3, 8, 'holding', '', 'n1', 2000, 2000);
		INSERT INTO evictions (eviction, claim, job, start_ms, restarts, gpus, signal, grace_ms, eligible_ms, cost_promised, cost_paid,
			state, reason, recorded_ms, signalled_ms, left_ms, requeued_ms, ended_ms) VALUES (1, 1, 3, 500, 0, 2, 'USR1', 1000, 0, 1.5, 0, 'recorded', '', 2000, 0, 0, 0, 0);`,
	3: `UPDATE claims SET gpus = 2, shares = '[{"node":"n1","gpus":2,"cpus":8,"mem_mb":1024}]', wait_ms = 1000, pin = 'n1', room_ms = 4000;
		UPDATE evictions SET unsaved_ms = 500, restart_ms = 30000, how = 'exited', exit_code = 99, restored_ms = 5000;`,
	4: `INSERT INTO shares VALUES (3, 8, 2000, 2000, 0, 1.5, '[{"gpu_type":"a100","speed":1,"source":"tag","within_factor":1,"runs":0,"time_fraction":0.5,"promised_s":7}]', '[]');
		INSERT INTO stays (raw_id, start_ms, end_ms, state, gpu_type, gpus, user, name, tag, steps) VALUES (7, 1000, 2000, 'COMPLETED', 'a100', 1, 'alice', 'train', '', 0);
		INSERT INTO lessons VALUES (1, 3000, 0, 0, '');`,
	5: `UPDATE decisions SET steer = 'waits 5 min for a100';`,
	6: `UPDATE claims SET purpose = 'round';`,
	7: `INSERT INTO eviction_turns VALUES ('one', 7);`,
	8: `INSERT INTO waits VALUES (17, -1, 1000, 0, '', 'alice', 'physics', 'gpu', 'a100', 2, 1, '', 0, 1000, 0);
		INSERT INTO wait_spans (id, task, submit_ms, from_ms, until_ms, cause, what, words) VALUES (17, -1, 1000, 1000, 0, 'capacity', '', 'requests 2 GPUs; 0 are free');`,
	9:  `INSERT INTO failures VALUES (1, 17, -1, 2000, 'node', '{"failure":1,"job":"17","state":"noted"}'); INSERT INTO drained VALUES ('n1', 2000, 'node');`,
	10: `UPDATE stays SET node_list = 'n1';`,
	11: `UPDATE wait_spans SET fits = '{"gpus":1}'; UPDATE decisions SET choices = '{"gpu_type":{"why":"waits","gpu_type":"a100"}}'; INSERT INTO starts VALUES (3, 2000, 9000);
		INSERT INTO findings VALUES (1, 2000, 'FAIL', 'rights', 'user priod may not change other users'' jobs', 'sacctmgr ...');`,
	12: `UPDATE decisions SET counted = 'te'; UPDATE history SET counted = 'te'; INSERT INTO lesson_programs VALUES ('', 'alice', 'train', 1, 1, '{}');`,
	13: `UPDATE stays SET limit_s = 3600; INSERT INTO lesson_programs VALUES ('', 'alice', 'train', 1, 2, '{}');`,
	16: `UPDATE starts SET run_ms = 600000; INSERT INTO ends VALUES (3, 5000, 6000); INSERT INTO samples VALUES (2000, 8, 4, 1, 1, 2, 3, 250, '{"capacity":4}', '{"n1":1.4}', '[]');`,
	15: `UPDATE starts SET least_ms = 2500, most_ms = 3500;`,
	17: `UPDATE nodes SET partitions = 'gpu,long';`,
	18: `UPDATE intervals SET charge = 5.5;`,
	20: `UPDATE cycles SET journal = 1;`,
	21: `INSERT INTO share_hours VALUES (0, 'physics', '["physics"]', 8, 3600, 1800, 600, 60, 900); INSERT INTO share_returns VALUES (17, -1, 1000, 0, 0, 1, 'physics', 'alice', 2, 120000, '');`,
	22: `UPDATE samples SET gpus_down = 1, gpus_reserved = 2, gpus_idle = 1;`,
	23: `UPDATE jobs SET state = 'running', changed_ms = 4000; UPDATE nodes SET gpus_used = 2, changed_ms = 4000;`,
	24: `INSERT INTO idle_spells VALUES (17, -1, 1000, 5000, 5000, 0, '{"job":"17","start":"1970-01-01T00:00:01Z","kind":"hung"}');`,
	19: `UPDATE nodes SET partitions = 'gpu';`,
	14: `UPDATE starts SET median_ms = 3000, p90_ms = 4000; INSERT INTO promises VALUES (3, 2000, 9000, 3000, 4000, 3500);`,
}

// Every schema since the first is brought up to date with what it holds.
func TestMigrateFromEverySchema(t *testing.T) {
	for from := range rowsOf {
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) {
			dir := t.TempDir()
			old := must[*sql.DB](t)(sql.Open("sqlite3", "file:"+databasePath(dir)+"?_auto_vacuum=incremental"))
			p, err := migrations(old)
			if err != nil {
				t.Fatal(err)
			}
			for v := int64(1); v <= from; v++ {
				if _, err := p.UpTo(ctx, v); err != nil {
					t.Fatal(err)
				}
				if _, err := old.Exec(rowsOf[v]); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(old.Close(), os.WriteFile(journal.Path(dir), []byte(`{"journal":{"format":2}}`+"\n"+`{"write":{"job":"17","user":"alice","lever":"SiteFactor","was":"0","from":"0","to":"5000"}}`+"\n"), 0o640)); err != nil {
				t.Fatal(err)
			}
			if _, known := rowsOf[from+1]; known {
				if _, err := OpenReader(ctx, dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has schema %d and this priod reads", from)) {
					t.Errorf("a reader before the daemon: %v", err)
				}
			}
			d := newDaemon(t, dir, pending(17, "te"))
			id := slurmplug.Plain(17)
			if w := d.history.Written[id]; w.Tried != 5000 || d.history.FirstEligible.Len() != 1 {
				t.Errorf("%+v", w)
			}
			story := must[Story](t)(reader(t, dir).Job(ctx, id, 5))
			if story.Job.User != "alice" || len(story.Writes) != 1 || len(story.Stays) != 1 || len(story.Decisions) != 1 {
				t.Errorf("%+v", story)
			}
			if k := story.Known; k == nil || k.Counted != "te" || k.Value != 5000 || !k.FirstEligible.Equal(time.UnixMilli(1000)) {
				t.Errorf("%+v", k)
			}
			checkMigrated(t, dir, from, &story)
			d.snapshot.Jobs[0].Submit = story.Job.Submit
			d.cycle()
			for _, table := range []string{"claims", "evictions"} {
				want := int64(0)
				if from >= 2 {
					want = 1
				}
				if n := count(t, d.store, "SELECT count(*) FROM "+table); n != want {
					t.Errorf("%s: %d rows", table, n)
				}
			}
			if n := count(t, d.store, "PRAGMA auto_vacuum"); n != 2 {
				t.Errorf("auto_vacuum is %d, want 2 (incremental)", n)
			}
			if n := count(t, d.store, "SELECT count(*) FROM pragma_foreign_key_check"); n != 0 {
				t.Errorf("%d broken references", n)
			}
			if err := d.store.db.QueryRow("PRAGMA integrity_check").Scan(new(string)); err != nil {
				t.Error(err)
			}
		})
	}
	s, _ := openStore(t, t.TempDir(), Options{})
	p, err := migrations(s.db)
	if err != nil {
		t.Fatal(err)
	}
	if newest, _ := p.GetDBVersion(ctx); rowsOf[newest] == "" || len(p.ListSources()) != len(rowsOf) {
		t.Errorf("schema %d has no rows in rowsOf: add what that priod leaves behind", newest)
	}
	for pragma, want := range map[string]int64{"auto_vacuum": 2, "foreign_keys": 1, "synchronous": 2, "busy_timeout": 5000} {
		if n := count(t, s, "PRAGMA "+pragma); n != want {
			t.Errorf("%s is %d, want %d", pragma, n, want)
		}
	}
	if _, err := p.DownTo(ctx, 0); err != nil {
		t.Errorf("down: %v", err)
	}
}

// checkMigrated looks at what migrations made over.
func checkMigrated(t *testing.T, dir string, from int64, story *Story) {
	t.Helper()
	hours, open := must[[]guarantee.Hour](t)(reader(t, dir).ShareHours(ctx, time.Time{})), must[[]guarantee.Return](t)(reader(t, dir).Returns(ctx, time.Time{}))
	if kept := from >= 21; kept != (len(hours) == 1) || kept != (len(open) == 1 && open[0].User == "alice" && open[0].Promise == 2*time.Minute) {
		t.Errorf("%+v, %+v", hours, open)
	}
	if half := 0.5; from >= 4 {
		want := []ShareOfType{{GPUType: "a100", Speed: 1, Source: "tag", Factor: 1, Time: &half, PromisedS: 7}}
		if diff := cmp.Diff(want, story.Share.Types); diff != "" {
			t.Error(diff)
		}
	}
	if from >= 8 {
		want := []plan.WaitSpan{{From: instant(1000), Cause: plan.Capacity, Words: "requests 2 GPUs; 0 are free"}}
		if from >= 11 {
			want[0].Fits = &plan.FitsNow{GPUs: 1}
		}
		all := must[[]*plan.Wait](t)(reader(t, dir).OpenWaits(ctx))
		if len(all) != 1 || !all[0].Until.Equal(instant(1000)) {
			t.Fatalf("%+v", all)
		}
		if diff := cmp.Diff(want, all[0].Spans); diff != "" {
			t.Error(diff)
		}
	}
}

// What the newest migration made over it makes back.
func TestMigrateBack(t *testing.T) {
	path := databasePath(t.TempDir())
	handle := must[*sql.DB](t)(sql.Open("sqlite3", "file:"+path))
	defer handle.Close()
	p, err := migrations(handle)
	if err != nil {
		t.Fatal(err)
	}
	dump := func() (all []string) {
		for _, table := range []string{"history", "waits", "wait_spans", "decisions"} {
			rows := must[*sql.Rows](t)(handle.Query("SELECT * FROM " + table))
			columns := must[[]string](t)(rows.Columns())
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			for rows.Next() {
				if err := rows.Scan(values...); err != nil {
					t.Fatal(err)
				}
				text := table
				for i, c := range columns {
					text += fmt.Sprintf(" %s=%v", c, *values[i].(*any))
				}
				all = append(all, text)
			}
			rows.Close()
		}
		return all
	}
	for v := int64(1); v <= 11; v++ {
		if _, err := p.UpTo(ctx, v); err != nil {
			t.Fatal(err)
		}
		if _, err := handle.Exec(rowsOf[v]); err != nil {
			t.Fatal(err)
		}
	}
	before := dump()
	if _, err := p.UpTo(ctx, 12); err != nil {
		t.Fatal(err)
	}
	if _, err := p.DownTo(ctx, 11); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, dump()); diff != "" || len(before) != 4 {
		t.Error(diff)
	}
}

// A newer database is refused and left as it is.
func TestNewerDatabase(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, Options{})
	exec(t, s, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var newer *NewerError
	_, err := Open(ctx, dir, Options{})
	if !errors.As(err, &newer) || newer.Has != 99 || !strings.Contains(err.Error(), "newer priod (schema 99, this one knows ") {
		t.Errorf("daemon: %v", err)
	}
	if _, err := OpenReader(ctx, dir); !errors.As(err, &newer) {
		t.Errorf("reader: %v", err)
	}
	if len(aside(t, dir)) != 0 {
		t.Error("it was set aside")
	}
	if _, err := acquire(dir + "/lock"); err != nil {
		t.Errorf("the folder stays locked: %v", err)
	}
}

// The checked-in package db has every query of sql/queries and no other.
func TestQueriesAreGenerated(t *testing.T) {
	names := func(pattern string, find *regexp.Regexp) map[string]bool {
		all := map[string]bool{}
		for _, path := range must[[]string](t)(filepath.Glob(pattern)) {
			for _, m := range find.FindAllSubmatch(must[[]byte](t)(os.ReadFile(path)), -1) {
				all[string(m[1])] = true
			}
		}
		return all
	}
	written := names("../../sql/queries/*.sql", regexp.MustCompile(`(?m)^-- name: (\w+)`))
	generated := names("db/*.sql.go", regexp.MustCompile(`(?m)^func \(q \*Queries\) (\w+)`))
	if diff := cmp.Diff(written, generated); diff != "" || len(written) == 0 {
		t.Errorf("run go generate in priod/store:\n%s", diff)
	}
}
