// Package scale measures and counts what a cycle of priod costs with everything on, at the
// size of large centres: on a generated cluster, whose polls are texts of Slurm's commands.
package scale

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/locality"
	"slurmprio/priod/nodespeed"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/tests/usage"
)

// everything switches every feature on. How many writes a cycle may make is not what is
// measured; all else is as shipped.
const everything = `
[ranking]
order = "owed"
[allocation]
policy = "max-min"
[te_budget.account]
gpus = 64
[steering]
enabled = true
[sizing]
enabled = true
[rounds]
enabled = true
[retry]
enabled = true
[locality]
enabled = true
slow_nodes = true
[preemption]
enabled = true
defrag = true
[limits]
writes_per_cycle = 1000000
`

// site is priod in this process, on a generated cluster.
type site struct {
	testing.TB
	slurm   *slurm
	dir     string
	config  *config.Config
	store   *store.Store
	history *cluster.History
	state   *cycle.State
	stages  map[string]float64 // s of the last cycle, by stage
	outside cost               // of the generated cluster in the last cycle
	base    int64              // memory that the generated cluster holds, in bytes

	checkpoint cost // of moving the database's log after the last cycle, while nobody waits
}

func newSite(tb testing.TB, jobs int) *site {
	s := &site{TB: tb, slurm: newSlurm(19, jobs), dir: tb.TempDir(), state: cycle.NewState()}
	file := filepath.Join(s.dir, "priod.toml")
	if err := os.WriteFile(file, []byte(everything), 0o600); err != nil {
		tb.Fatal(err)
	}
	var err error
	if s.config, err = config.Load(file); err != nil {
		tb.Fatal(err)
	}
	s.open()
	tb.Cleanup(func() { s.store.Close() })
	return s
}

// open begins priod with what its store holds.
func (s *site) open() {
	s.Helper()
	var err error
	if s.store, err = store.Open(s.Context(), filepath.Join(s.dir, "state"), store.Options{}); err != nil {
		s.Fatal(err)
	}
	if s.history, err = s.store.Load(s.Context()); err != nil {
		s.Fatal(err)
	}
	if s.state.Journal, err = s.store.LoadEvictions(s.Context()); err != nil {
		s.Fatal(err)
	}
	if s.state.Failures, err = s.store.LoadFailures(s.Context()); err != nil {
		s.Fatal(err)
	}
	if s.state.Ledger, err = s.store.LoadShares(s.Context()); err != nil {
		s.Fatal(err)
	}
	waiting, at, err := s.store.Waits(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.state.Waits.Restore(waiting, at)
}

// restart ends priod and begins it anew.
func (s *site) restart() {
	s.Helper()
	if err := s.store.Close(); err != nil {
		s.Fatal(err)
	}
	s.state = cycle.NewState()
	s.open()
}

// cost is what this process has used so far, or in between two times.
type cost struct {
	user, system, wall time.Duration
}

func (s *site) cost() cost {
	user, system := usage.CPU(s)
	return cost{user, system, time.Since(begun)}
}

var begun = time.Now()

func (c cost) since(o cost) cost { return cost{c.user - o.user, c.system - o.system, c.wall - o.wall} }

func (c cost) plus(o cost) cost { return cost{c.user + o.user, c.system + o.system, c.wall + o.wall} }

// apart is the generated cluster, whose own work is no part of a cycle's cost.
type apart struct {
	*slurm
	site *site
}

func (a apart) Apply(ctx context.Context, actions []plan.Action) []plan.Outcome {
	before := a.site.cost()
	out := a.slurm.Apply(ctx, actions)
	a.site.outside = a.site.outside.plus(a.site.cost().since(before))
	return out
}

// cycle runs one cycle as the daemon does, and tells what it cost.
func (s *site) cycle() (cycle.Result, cost) {
	s.Helper()
	s.ready()
	return s.step()
}

// ready has Slurm's commands say how the cluster is now.
func (s *site) ready() {
	s.slurm.at = nil
	s.slurm.print()
	s.slurm.find(cluster.JobID{})
}

func (s *site) step() (cycle.Result, cost) {
	s.Helper()
	set := s.config.Features(s.slurm, nil, s.state)
	set.Evictions.Recorder, set.Evictions.Now = s.store, func() time.Time { return s.slurm.now }
	set.Retries.Recorder = s.store
	set.Refusals.Slow = locality.SlowNodes{Known: true, Nodes: s.slow()}
	s.stages, s.outside, s.slurm.marking = map[string]float64{}, cost{}, 0
	stage, at := "", time.Now()
	set.Stage = func(next string) {
		if stage != "" {
			s.stages[stage] += time.Since(at).Seconds()
		}
		stage, at = next, time.Now()
	}
	before := s.cost()
	result, err := cycle.Step(s.Context(), apart{s.slurm, s}, s.store, s.history, set)
	used := s.cost().since(before).since(s.outside)
	used.user -= s.slurm.marking
	before = s.cost()
	if err := s.store.Checkpoint(); err != nil {
		s.Fatal(err)
	}
	s.checkpoint = s.cost().since(before)
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range result.Outcomes {
		if o.Status != slurmplug.Applied {
			s.Fatalf("job %s: %s %s", o.Job, o.Status, o.Message)
		}
	}
	return result, used
}

// slow are the nodes that runs showed to be slow: one of two hundred.
func (s *site) slow() []nodespeed.Node {
	var nodes []nodespeed.Node
	for i := 100; i < len(s.slurm.nodes); i += 200 {
		nodes = append(nodes, nodespeed.Node{Name: s.slurm.nodes[i].Name, Slow: true})
	}
	return nodes
}

// settle runs cycles, with nothing but time passing between them, until some in a row
// write nothing and send nothing, or so many at most.
func (s *site) settle(most int) (quiet bool) {
	s.Helper()
	for n := 0; most > 0; most-- {
		s.slurm.pass()
		sent := s.slurm.sent
		r, _ := s.cycle()
		if n++; len(r.Outcomes) > 0 || s.slurm.sent > sent {
			n = 0
		}
		if n == 3 {
			return true
		}
	}
	return false
}

// turn is the next poll after n jobs ended, n started and n came.
func (s *site) turn(n int) {
	s.slurm.pass()
	s.slurm.turn(n, func(j *job, failed bool) {
		final := "COMPLETED"
		if failed {
			final = "NODE_FAIL"
		}
		s.slurm.past[j.ID] = plan.JobStatus{Job: j.Job, Gone: true, Final: final, End: s.slurm.now}
	})
}

// rows are those of the database, each as text, but for the times and numbers of polls in
// the last row of cycles.
func (s *site) rows() map[string]bool {
	s.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(s.dir, "state", "priod.db")+"?mode=ro")
	if err != nil {
		s.Fatal(err)
	}
	defer db.Close()
	all := map[string]bool{}
	for _, table := range s.strings(db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'") {
		columns := s.strings(db, "SELECT name FROM pragma_table_info('"+table+"')")
		if table == "cycles" {
			columns = slices.DeleteFunc(columns, func(c string) bool { return c == "until_ms" || c == "polls" })
		}
		for _, row := range s.strings(db, `SELECT json_array("`+strings.Join(columns, `", "`)+`") FROM "`+table+`"`) {
			all[table+row] = true
		}
	}
	return all
}

func (s *site) strings(db *sql.DB, query string) (all []string) {
	s.Helper()
	rows, err := db.QueryContext(s.Context(), query)
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			s.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
	return all
}

// written counts rows that are new or changed since, by table.
func written(before, after map[string]bool) map[string]int {
	tables := map[string]int{}
	for row := range after {
		if !before[row] {
			table, _, _ := strings.Cut(row, "[")
			tables[table]++
		}
	}
	return tables
}

// A cycle in which nothing changed writes nothing into Slurm, and no row, unless something goes
// by the clock: what a job is owed, or what steering expects of it.
func TestQuietCycleWritesNothing(t *testing.T) {
	s := newSite(t, 1000)
	if !s.settle(300) {
		t.Fatal("priod keeps writing although nothing changes")
	}
	const cycles, least = 12, 6
	quiet, wrote := 0, false
	for range cycles {
		before, sent := s.rows(), s.slurm.sent
		s.slurm.pass()
		r, _ := s.cycle()
		if s.slurm.sent > sent {
			t.Errorf("%d commands", s.slurm.sent-sent)
		}
		after := wrote // the poll shows something new, then
		if wrote = len(r.Outcomes) > 0; wrote || after {
			continue
		}
		quiet++
		tables := written(before, s.rows())
		if tables["decisions"] > 5 || tables["cycles"] > tables["decisions"] { // of 1,000 jobs some start at another time than was said
			t.Errorf("rows %v", tables)
		}
		delete(tables, "decisions")
		delete(tables, "cycles")
		if len(tables) > 0 {
			t.Errorf("rows %v", tables)
		}
	}
	if quiet < least {
		t.Errorf("%d of %d cycles wrote nothing, want %d", quiet, cycles, least)
	}
}

// What a cycle writes goes by what changed since the last one, not by the length of the queue.
func TestWritesFollowChanges(t *testing.T) {
	const turned = 20
	for _, jobs := range []int{1000, 4000} {
		s := newSite(t, jobs)
		if !s.settle(300) {
			t.Fatal("priod keeps writing although nothing changes")
		}
		before := s.rows()
		s.turn(turned)
		r, _ := s.cycle()
		tables := written(before, s.rows())
		// Each job that ended, started or came has a row in some tables; each write makes a
		// row, a decision and what is remembered of the job.
		for table, most := range map[string]int{
			"jobs": 3 * turned, "nodes": 2 * turned, "intervals": 2 * turned, "failures": turned, "waits": 3 * turned,
			"cycles": 1, "writes": len(r.Outcomes), "history": turned + len(r.Outcomes), "decisions": 3*turned + len(r.Outcomes),
		} {
			if tables[table] > most {
				t.Errorf("%d jobs: %d rows of %s, want no more than %d", jobs, tables[table], table, most)
			}
		}
		if tables["jobs"] < turned || tables["waits"] == 0 {
			t.Errorf("%d jobs: rows %v", jobs, tables)
		}
	}
}

// Cycles that make up one figure of the benchmark, and those after the first that let what
// it began come to an end.
const (
	benchCycles = 3
	benchSettle = 4
)

// BenchmarkEverything is a cycle with everything on, on as many jobs that wait as its name
// says, half as many that run and a tenth as many nodes: the first one, one in which nothing
// changed but the time, one after 100 jobs ended, 100 started and 100 came, the same where one
// node of a hundred changes its state as well, and the first one after a restart. Other work may share the machine, so the first two are what counts:
//
//	user_s     processor time of this process in user mode, the garbage collector's too
//	system_s   in the kernel: most of it writes to disk
//	wall_s     as a clock on the wall tells it
//	written_B  what the kernel wrote to disk for it
//	writes     into Slurm
//	from_snapshot_s  of wall_s, without the read: from the snapshot to the plan, recorded
//	load_s           after a restart: before the cycle, what the store holds
//	checkpoint_s     behind wall_s: moving the database's log; user_s, system_s and written_B hold it, too
//	own_MB     the most memory that the process held, without the generated cluster
//
// The garbage collector runs before each cycle, and then when it has to. A daemon that has run
// for a while has the memory that it needs; so here, but for one more cycle like the others,
// which begins without any and tells own_MB.
func BenchmarkEverything(b *testing.B) {
	for _, jobs := range []int{10_000, 30_000, 100_000, 300_000} {
		b.Run(strconv.Itoa(jobs), func(b *testing.B) {
			s := newSite(b, jobs)
			debug.FreeOSMemory()
			s.base = usage.Self(b).Resident()
			b.Run("first", func(b *testing.B) {
				s.TB = b
				for done := false; b.Loop(); done = true {
					if !done { // there is one first cycle
						s.measure(1, func() {})
					}
				}
			})
			s.TB = b
			s.settle(benchSettle)
			b.Run("quiet", func(b *testing.B) {
				s.TB = b
				for b.Loop() {
					s.measure(benchCycles, s.slurm.pass)
				}
			})
			b.Run("turn", func(b *testing.B) {
				s.TB = b
				for b.Loop() {
					s.measure(benchCycles, func() { s.turn(100) })
				}
			})
			b.Run("weather", func(b *testing.B) {
				s.TB = b
				for b.Loop() {
					s.measure(benchCycles, func() { s.weather(100) })
				}
			})
			b.Run("restart", func(b *testing.B) {
				s.TB = b
				for done := false; b.Loop(); done = true {
					if !done {
						s.slurm.pass()
						begun := time.Now()
						s.restart()
						loaded := time.Since(begun).Seconds()
						s.measure(1, func() {})
						b.ReportMetric(loaded, "load_s")
					}
				}
			})
		})
	}
}

// measure reports the median of cycles, each after some change. The first cycle is the only
// one of its kind.
func (s *site) measure(cycles int, change func()) {
	b := s.TB.(*testing.B)
	all := map[string][]float64{}
	for range cycles {
		change()
		for name, value := range s.measured(cycles == 1) {
			all[name] = append(all[name], value)
		}
	}
	if cycles > 1 {
		change()
		all["own_MB"] = []float64{s.measured(true)["own_MB"]}
	}
	b.ReportMetric(0, "ns/op")
	for name, values := range all {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
}

// measured runs a cycle; bare says that the process holds no memory that it does not need
// when that begins.
func (s *site) measured(bare bool) map[string]float64 {
	s.ready()
	if runtime.GC(); bare {
		debug.FreeOSMemory()
	}
	self := usage.Self(s)
	self.ForgetPeak()
	disk := self.Written()
	r, c := s.step()
	return map[string]float64{
		"user_s": (c.user + s.checkpoint.user).Seconds(), "system_s": (c.system + s.checkpoint.system).Seconds(), "wall_s": c.wall.Seconds(),
		"from_snapshot_s": c.wall.Seconds() - s.stages["observe"], "observe_s": s.stages["observe"], "decide_s": s.stages["decide"], "record_s": s.stages["record"],
		"checkpoint_s": s.checkpoint.wall.Seconds(), "writes": float64(len(r.Outcomes)),
		"written_B": float64(self.Written() - disk), "own_MB": float64(self.Peak()-s.base) / 1e6,
	}
}
