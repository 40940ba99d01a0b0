// Package lives holds a priod that has lived long against one that starts now from what the first
// one stored, over random lives of a cluster.
package lives

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/store"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
)

const programs = `
[[workload]]
name = "even"
speed.fast = { 1 = 1.0, 2 = 2.0, 4 = 4.0 }
speed.slow = { 1 = 1.0, 2 = 2.0, 4 = 4.0 }
[[workload]]
name = "picky"
speed.fast = { 1 = 1.0, 2 = 2.0, 4 = 4.0 }
speed.slow = { 1 = 0.2, 2 = 0.4, 4 = 0.8 }
`

const allOn = `
[cycle]
interval = "15s"
[allocation]
policy = "max-min"
[ranking]
order = "owed"
[steering]
enabled = true
[sizing]
enabled = true
[preemption]
enabled = true
[rounds]
enabled = true
length = "10m"
[locality]
enabled = true
slow_nodes = false
`

func (o *observer) now() time.Time { return o.weather.at }

// observer is the Recorder of the one that lives long: a store, which lets another priod start from
// a copy of itself before a cycle plans.
type observer struct {
	*store.Store
	t                  *testing.T
	dir                string
	c                  *config.Config
	table              *workload.Table
	slurm              cycle.Slurm
	state              *cycle.State
	rand               *rand.Rand
	weather            weather
	fresh              *plan.Plan // of the cycle at hand; nil: none was made
	waits              map[cluster.JobID]map[string]time.Duration
	why                map[cluster.JobID]string // of the last cycle
	last               time.Time
	restarts, compared int
}

func (o *observer) Observed(ctx context.Context, s *cluster.Snapshot, stays func() []cluster.Stay) {
	o.weather.nodes, o.weather.at = s.Nodes, s.At // the virtual Slurm keeps these rows
	if o.fresh = nil; o.rand.IntN(6) == 0 {
		o.fresh = o.restarted(ctx, s)
	}
	o.Store.Observed(ctx, s, stays)
}

// wait adds up for what each TE job waits, by the word for its room.
func (o *observer) wait(p *plan.Plan) {
	for id, why := range o.why {
		if o.waits[id] == nil {
			o.waits[id] = map[string]time.Duration{}
		}
		o.waits[id][why] += p.At.Sub(o.last)
	}
	o.last = p.At
	clear(o.why)
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Ranked && d.Class == cluster.TE && d.Choices.Eviction != nil {
			o.why[d.Job] = d.Choices.Eviction.Why
		}
	}
}

// starved refuses a TE job that waited longer than its victims' grace and a few cycles take, though no
// limit kept it waiting: room was free, or was being made.
func (o *observer) starved() {
	for id, by := range o.waits {
		if by["fits"] > 2*time.Minute || by["evicts"]+by["claimed"] > 5*time.Minute {
			o.t.Errorf("TE job %s waited %v", id, by)
		}
	}
}

func (o *observer) Planned(ctx context.Context, seen plan.Seen) error {
	o.wait(seen.Plan)
	if o.fresh != nil {
		o.restarts++
		o.compare(seen.Plan, seen.Snapshot)
	}
	return o.Store.Planned(ctx, seen)
}

// seenBy is a Slurm that shows one snapshot.
type seenBy struct {
	cycle.Slurm
	s cluster.Snapshot
}

func (s seenBy) Observe(context.Context) (cluster.Snapshot, error) { return s.s, nil }

func (s seenBy) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	outcomes := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		outcomes[i] = plan.Outcome{Action: a, Status: slurmplug.Unknown}
	}
	return outcomes
}

func (s seenBy) Do(_ context.Context, commands []plan.Command) []plan.Result {
	results := make([]plan.Result, len(commands))
	for i, c := range commands {
		results[i] = plan.Result{Command: c, Status: slurmplug.Unknown}
	}
	return results
}

// restarted is the plan of a priod that starts now.
func (o *observer) restarted(ctx context.Context, s *cluster.Snapshot) *plan.Plan {
	dir := o.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(o.dir)); err != nil {
		o.t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	kept, err := store.Open(ctx, dir, store.Options{Now: o.now})
	if err != nil {
		o.t.Fatal(err)
	}
	defer kept.Close()
	h, st, err := load(ctx, kept)
	if err != nil {
		o.t.Fatal(err)
	}
	set := o.c.Features(o.slurm, o.table, st)
	snapshot := *s
	snapshot.Jobs, snapshot.Nodes = slices.Clone(s.Jobs), slices.Clone(s.Nodes)
	shown := seenBy{o.slurm, snapshot}
	set.Evictions.Slurm, set.Retries.Slurm = shown, shown
	set.Evictions.Recorder, set.Retries.Recorder = nothing{}, nothing{}
	set.Evictions.Now = func() time.Time { return s.At }
	r, err := cycle.Step(ctx, shown, nothing{}, h, set)
	if err != nil {
		o.t.Fatal(err)
	}
	return &r.Plan
}

// load is what the daemon does as it starts.
func load(ctx context.Context, s *store.Store) (h *cluster.History, st *cycle.State, err error) {
	st = cycle.NewState()
	if h, err = s.Load(ctx); err != nil {
		return nil, nil, err
	}
	if st.Journal, err = s.LoadEvictions(ctx); err != nil {
		return nil, nil, err
	}
	if st.Failures, err = s.LoadFailures(ctx); err != nil {
		return nil, nil, err
	}
	if st.Ledger, err = s.LoadShares(ctx); err != nil {
		return nil, nil, err
	}
	open, at, err := s.Waits(ctx)
	if err != nil {
		return nil, nil, err
	}
	st.Waits.Restore(open, at)
	st.Rounds.Restore(at)
	return h, st, nil
}

type nothing struct{}

func (nothing) Observed(context.Context, *cluster.Snapshot, func() []cluster.Stay) {}
func (nothing) Planned(context.Context, plan.Seen) error                           { return nil }
func (nothing) SaveEvictions(context.Context, *cycle.Evictions) error              { return nil }
func (nothing) SaveSpells(context.Context, cycle.Spells) error                     { return nil }
func (nothing) SaveFailures(context.Context, *cycle.Failures) error                { return nil }
func (nothing) Done(context.Context, []plan.Outcome) error                         { return nil }

// weather changes what Slurm shows of nodes.
type weather struct {
	rand  *rand.Rand
	nodes []cluster.Node
	at    time.Time
	until map[string]time.Time
	was   map[string]cluster.Node
}

func (w *weather) change() {
	for i := range w.nodes {
		n := &w.nodes[i]
		switch until, changed := w.until[n.Name]; {
		case changed && w.at.After(until):
			was := w.was[n.Name]
			n.Features, n.MemMB, n.Partitions = was.Features, was.MemMB, was.Partitions
			delete(w.until, n.Name)
		case !changed && w.rand.IntN(80) == 0:
			w.was[n.Name], w.until[n.Name] = *n, w.at.Add(time.Duration(w.rand.IntN(600))*time.Second)
			switch w.rand.IntN(3) {
			case 0:
				n.Features = nil
			case 1:
				n.MemMB /= 2
			case 2:
				n.Partitions = []string{"other"}
			}
		}
	}
}

// compare refuses two plans that differ beyond what a priod is told to remember: README.md.
func (o *observer) compare(long *plan.Plan, s *cluster.Snapshot) {
	same := true
	for i := range s.Jobs {
		j := &s.Jobs[i]
		a, b := long.Shares.Jobs.Get(j.ID), o.fresh.Shares.Jobs.Get(j.ID)
		if a == nil && b == nil {
			continue
		}
		if a != nil && b != nil && j.State != cluster.Pending && !slices.Equal(a.Speed, b.Speed) {
			return // what a running job asked for is known in part after a restart
		}
		if a == nil || b == nil || !slices.Equal(a.Speed, b.Speed) {
			o.t.Errorf("%s: job %s: share %+v, a new priod has %+v", s.At.Format(time.TimeOnly), j.ID, a, b)
			return
		}
		same = same && slices.EqualFunc(a.Time, b.Time, func(x, y float64) bool { return math.Abs(x-y) < 1e-12 })
	}
	if !same {
		return
	}
	steered := !fromMemory(long) && !fromMemory(o.fresh)
	old, fresh := choicesOf(long, steered), choicesOf(o.fresh, steered)
	if diff := cmp.Diff(old, fresh, cmpopts.EquateEmpty()); diff != "" {
		o.t.Errorf("%s: a new priod plans otherwise (- the old one):\n%s", s.At.Format(time.TimeOnly), diff)
	}
	if steered {
		o.compared++
	}
}

// fromMemory reports whether a plan takes back a GPU type, or gives none, by what a restart forgets: the
// time that was allocated on the type when the job was bound to it, for how many cycles the job could
// have started there, and when its last type was taken back.
func fromMemory(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Decisions, func(d plan.Decision) bool {
		t := d.Choices.GPUType
		return t == nil && d.Steer != "" || t != nil && (t.Back != "" || t.Why == "not-started")
	})
}

// choice is what is decided about a job, without figures.
type choice struct {
	Class                 cluster.Class
	Ranked                bool
	Why                   string
	Value                 int64
	Type, TypeWhy, Evicts string
	Size, Locality        string
	Writes                []string
}

// choicesOf leaves out GPU types, and what depends on them, where steered is false.
func choicesOf(p *plan.Plan, steered bool) map[string]*choice {
	all := map[string]*choice{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		c := &choice{Class: d.Class, Ranked: d.Ranked, Why: d.Why, Value: d.Value, Locality: d.Locality}
		if p := d.Choices.Switches; p != nil {
			c.Locality = plan.Joined(c.Locality, p.Words())
		}
		if n := d.Choices.Refused; n != nil {
			c.Locality = plan.Joined(c.Locality, n.Words())
		}
		if steered {
			c.Size = d.Size
		}
		if t := d.Choices.GPUType; t != nil && steered {
			c.Type, c.TypeWhy = t.GPUType, string(t.Why)
		}
		if e := d.Choices.Eviction; e != nil && e.For != "round" {
			c.Evicts = string(e.Why)
		}
		all[d.Job.String()] = c
	}
	for _, a := range p.Actions {
		if c := all[a.Job.String()]; c != nil && (steered || a.Lever.Ranks()) {
			c.Writes = append(c.Writes, fmt.Sprint(a.Lever, a.After))
		}
	}
	return all
}

// variants are what an operator may change in priod.toml.
var variants = [][]string{ // replaced texts and new ones
	{}, {},
	{"[steering]\nenabled = true", "[steering]\nenabled = false", "[rounds]\nenabled = true", "[rounds]\nenabled = false"},
	{"[sizing]\nenabled = true", "[sizing]\nenabled = false"},
	{"[preemption]\nenabled = true", "[preemption]\nenabled = false"},
	{"[locality]\nenabled = true", "[locality]\nenabled = false"},
	{`order = "owed"`, `order = "slurm"`},
	{`policy = "max-min"`, `policy = "max-throughput"`},
	{"[cycle]", "[te_budget.user]\ngpus = 2\n[cycle]"},
}

// reload takes over another priod.toml, as the daemon does.
func (o *observer) reload(set *cycle.Settings, _ []cluster.PastStay) {
	v := variants[o.rand.IntN(len(variants))]
	o.c = configOf(o.t, strings.NewReplacer(v...).Replace(allOn))
	was := *set
	*set = o.c.Features(o.slurm, o.table, o.state)
	set.Stage, set.Evictions.Slurm, set.Evictions.Recorder, set.Evictions.Now = was.Stage, was.Evictions.Slurm, was.Evictions.Recorder, was.Evictions.Now
}

func configOf(t *testing.T, text string) *config.Config {
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func jobs(seed uint64, n int) (all []trace.Job) {
	rnd, at := rand.New(rand.NewPCG(seed, 3)), 0.0
	for i := range n {
		j := trace.Job{
			ID: fmt.Sprint(i), GPUs: []int{1, 1, 2, 2, 4}[rnd.IntN(5)], Workload: []string{"even", "picky"}[rnd.IntN(2)], Steps: math.Ceil(180 * math.Exp(4*rnd.Float64())),
			User: fmt.Sprint("u", rnd.IntN(5)), Account: fmt.Sprint(rnd.IntN(2)), Submit: at, Grace: 30, Weight: 1, Deadline: trace.NoDeadline,
		}
		if rnd.IntN(4) == 0 {
			j.Limit = j.Steps * 60
		}
		if rnd.IntN(5) == 0 {
			j.Class, j.Steps = cluster.TE, 100
		}
		all = append(all, j)
		at += math.Floor(rnd.ExpFloat64() * 200)
	}
	return all
}

// A priod that starts now plans, ranks and writes as one that has lived long, but for what ARCHITECTURE.md
// lists as lost, and no TE job waits while there is room: while jobs come, are evicted, end rounds and fail with their nodes, nodes lose and regain
// features, memory and partitions, and priod.toml is reloaded.
func TestRestartPlansTheSame(t *testing.T) {
	seeds, n := uint64(1), 50
	if os.Getenv("SLURMPRIO_LONG") != "" {
		seeds, n = 40, 80
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { live(t, seed, n) })
	}
}

// live lets one life of so many jobs pass, with a restart tried in each sixth cycle.
func live(t *testing.T, seed uint64, n int) {
	o := &observer{t: t, rand: rand.New(rand.NewPCG(seed, 1)), waits: map[cluster.JobID]map[string]time.Duration{}, why: map[cluster.JobID]string{}}
	o.live(seed, n, func(s cycle.Slurm) virtual.Recorder { o.slurm = s; return o })
	o.starved()
	t.Logf("%d restarts, %d plans compared", o.restarts, o.compared)
}

// live lets one life of so many jobs pass, which a recorder records.
func (o *observer) live(seed uint64, n int, record func(cycle.Slurm) virtual.Recorder) {
	t := o.t
	ctx, dir := context.Background(), t.TempDir()
	c := configOf(t, allOn)
	table, err := workload.Parse("programs", programs)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := trace.ParseNodes([]string{"3:fast:2:16:64000", "3:slow:2:16:64000"})
	if err != nil {
		t.Fatal(err)
	}
	o.dir, o.c, o.table, o.weather = dir, c, table, weather{rand: o.rand, until: map[string]time.Time{}, was: map[string]cluster.Node{}}
	if o.Store, err = store.Open(ctx, dir, store.Options{Now: o.now}); err != nil {
		t.Fatal(err)
	}
	defer o.Store.Close()
	h, st, err := load(ctx, o.Store)
	if err != nil {
		t.Fatal(err)
	}
	o.state = st
	opt := virtual.Options{
		Order: virtual.Priod, Placement: placement.Packed, Backfill: virtual.EASY, RequeueDelay: 121, Hold: 20, MTBF: 40000, Repair: 900, Seed: seed,
		Speed: func(j *trace.Job, gpuType string) float64 {
			id, _ := table.Lookup(j.Workload)
			s, _ := table.Speed(id, j.GPUs, gpuType)
			return s
		},
		Daemon: virtual.Daemon{
			Learn: o.reload, LearnEvery: 20 * time.Minute,
			Settings: c.Features(nil, table, st), Interval: time.Duration(c.Cycle.Interval), Watch: c.Constants.Watch, Calls: c.Constants.Polls,
			Record: record, History: h, Every: true,
		},
	}
	opt.Daemon.Settings.Stage = func(stage string) {
		if stage == "observe" {
			o.weather.change()
		}
	}
	if _, err := virtual.Run(ctx, nodes, trace.Each(jobs(seed, n)), opt); err != nil {
		t.Fatal(err)
	}
}
