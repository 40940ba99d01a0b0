package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"slurmprio/priod/config"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/simulate"
	"slurmprio/priod/simulate/ideal/colocation"
	"slurmprio/priod/simulate/ideal/gavel"
	"slurmprio/priod/simulate/ideal/policies"
	"slurmprio/priod/simulate/ideal/preempt"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

func simulateCommand() *cli.Command {
	return &cli.Command{
		Name: "simulate", Usage: "run a trace through a policy in virtual time",
		Description: "Jobs come from --trace, --generate or --from-slurm, nodes from --cluster, --nodes or --from-slurm. Each\n" +
			"dimension of policy is one flag. --order priod runs the daemon's own cycles, as --config says.\n" +
			"    priod simulate --generate 'fitgpp --jobs 2000 --load 0.9' --nodes 84:gpu:8:32:262144 --backfill easy\n" +
			"    priod simulate --from-slurm --since 30d --order priod --html after.html\n" +
			"--compare runs the same jobs twice, through Slurm as it is and with priod beside it, and shows both beside\n" +
			"what really happened, where the trace has start and end times:\n" +
			"    priod simulate --from-slurm --since 30d --compare --html compared.html",
		Flags: append(simulateFlags(),
			&cli.BoolFlag{Name: "compare", Usage: "what happened, Slurm as it is and with priod, side by side; --order is then Slurm's own (default: as this Slurm's with --from-slurm, else multifactor and easy backfill)"},
			&cli.BoolFlag{Name: "waits", Usage: "with --order priod: also find what jobs waited for, which takes longer"},
			&cli.StringFlag{Name: "jobs-out", Usage: "write what became of every job to this CSV `FILE`"},
			&cli.StringFlag{Name: "html", Usage: "write a page with plots, which opens without a network, to `FILE`"},
			jsonFlag()),
		Before: noArgs,
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			if c.Bool("compare") {
				return compareRuns(ctx, c)
			}
			r, err := simulation(ctx, c, c.App.ErrWriter)
			if err != nil {
				return err
			}
			return showSimulation(c, r)
		},
	}
}

// simulateFlags say what is simulated. They are also the keys of a sweep.
func simulateFlags() []cli.Flag {
	const input, policy, costs = "INPUT", "POLICY", "WHAT MOVING A JOB COSTS"
	choice := func(d simulate.Choice, usage string) cli.Flag {
		return &cli.StringFlag{Category: policy, Name: d.Flag, Usage: usage + ": `POLICY` is " + d.Values()}
	}
	seconds := func(name, usage string) cli.Flag {
		return &cli.DurationFlag{Category: costs, Name: name, Usage: usage}
	}
	flags := evictionFlags("EVICTION")
	for _, k := range keyFlags {
		flags = append(flags, k.flag("KEYS OF PRIOD.TOML, WHERE PRIOD RUNS"))
	}
	return append([]cli.Flag{
		&cli.StringFlag{Category: input, Name: "trace", Usage: "read jobs from `FILE`, gzip or plain; - is standard input"},
		&cli.StringFlag{Category: input, Name: "format", Value: string(trace.CSV), Usage: "how the trace is written: `FORMAT` is csv, gavel, synergy or sacct"},
		&cli.Float64Flag{Category: input, Name: "jobs-per-hour", Usage: "spread the unit arrivals of a recorded stream of Gavel's at this `RATE`; inf: all at once"},
		&cli.BoolFlag{Category: input, Name: "skip-bad", Usage: "leave bad rows out instead of stopping at the first one; accounting is always read so"},
		&cli.BoolFlag{Category: input, Name: "strict", Usage: "accounting: stop at the first bad row, and at the first job that these nodes cannot run, instead of leaving them out"},
		&cli.BoolFlag{Category: input, Name: "sort", Usage: "sort the trace by submission, in memory"},
		&cli.StringFlag{Category: input, Name: "generate", Usage: "make the jobs, as priod trace generate `\"KIND FLAGS\"` does"},
		&cli.BoolFlag{Category: input, Name: "from-slurm", Usage: "jobs from this Slurm's accounting, its nodes unless others are given"},
		&cli.StringFlag{Category: input, Name: "since", Value: "7d", Usage: "how much `TIME` of accounting, with --from-slurm: 12h, 30d"},
		&cli.StringFlag{Category: input, Name: "cluster", Usage: "read nodes from `FILE`, TOML with [[nodes]] tables"},
		&cli.StringSliceFlag{Category: input, Name: "nodes", Usage: "nodes as `COUNT:TYPE:GPUS[:CPUS[:MEM_MB]]`; again for more"},
		&cli.IntFlag{Category: input, Name: "switch-nodes", Usage: "with --nodes: so many `NODES` each hang on one leaf switch; 0: nothing is known of switches"},
		&cli.StringFlag{Category: input, Name: "workloads", Usage: "speeds of programs, from `FILE` (default: speeds.workloads of the configuration, else those that priod brings along); where both are set priod is told the latter"},
		&cli.StringFlag{Category: input, Name: "pairs", Usage: "read how fast two workloads run on the same GPUs from CSV `FILE`, for --allocation gandiva or POLICY:packed"},
		&cli.Float64Flag{Category: input, Name: "pairs-tried", Usage: "plan with estimates: of a new job's pairs with each reference a `PART` such as 0.2 is tried, the rest is estimated as by Gavel; 0: all pairs are known"},
		&cli.IntFlag{Category: input, Name: "pair-references", Usage: "with --pairs-tried: how many `WORKLOADS` of the file are known in all pairs, drawn by the seed; 0: all"},
		&cli.StringFlag{Category: input, Name: "retry", Usage: "jobs that do not say count as sent with --prio-retry `WHEN`: " + strings.Join(trace.Retries, ", ")},
		&cli.StringFlag{Category: input, Name: "window", Usage: "measure jobs `FIRST:LAST` in order of arrival, counted from 0; later ones keep coming until these are done"},
		&cli.Uint64Flag{Category: input, Name: "seed", Value: 1, Usage: "`NUMBER` that settles what is left to chance"},

		choice(simulate.Engines, "a Slurm, or rounds at whose start every job may be moved at no cost"),
		choice(simulate.Orders, "order of the queue; owed is priod with ranking.order = \"owed\""),
		&cli.StringFlag{Category: policy, Name: "las-queues", Usage: "`BORDERS` of order las's queues in GPU-seconds, such as 3250,7200"},
		choice(simulate.SlurmOrders, "with order priod: what Slurm itself orders jobs by (default there: multifactor; where a short form stands for it: fifo)"),
		choice(simulate.Backfills, "which jobs may start before the head of the queue (default where priod steers: easy)"),
		&cli.IntFlag{Category: policy, Name: "depth", Usage: "how many `JOBS` conservative backfill plans for; 0: all"},
		choice(simulate.Placements, "where"),
		&cli.BoolFlag{Category: policy, Name: "pool", Usage: "the same as --placement pool: GPUs are counted, not placed"},
		choice(simulate.Allocations, "which share of which GPU type; with --engine slurm short for --order priod with allocation.policy and steering.enabled"),
		choice(simulate.Preemptions, "whether TE jobs go first, and which jobs are evicted for them; least-loss is short for --order priod with preemption.enabled"),
		choice(simulate.Sizings, "with how many CPUs and how much memory"),
		&cli.DurationFlag{Category: policy, Name: "round", Usage: "`TIME` that a round takes; with --order priod rounds.enabled and rounds.length"},
		choice(simulate.Speeds, "how the allocation knows how fast jobs are: told; from completed jobs and their steps; from their run times alone, as if no job had a tag"),
		&cli.IntFlag{Category: policy, Name: "history-jobs", Usage: "learn speeds from the first so many completed `JOBS` only; 0: from all"},
		&cli.StringFlag{Category: policy, Name: simulate.RoundModels.Flag, Usage: "how time counts in a round: `MODEL` is " + simulate.RoundModels.Values() + " (default: synergy with its format, else gavel)"},
		&cli.DurationFlag{Category: policy, Name: "first-round", DefaultText: "1s when all jobs come within the first second, else 0s", Usage: "`TIME` at which the first round of model synergy begins"},
		&cli.IntFlag{Category: policy, Name: "user-gpus", Usage: "`GPUS` that one user may hold at once; 0: no limit"},
		&cli.IntFlag{Category: policy, Name: "account-gpus", Usage: "`GPUS` that one account may hold at once; 0: no limit"},

		seconds("hold", "`TIME` that sbatchwrap holds back jobs that may be steered or sized, as /etc/slurmprio/hold says"),
		seconds("grace", "`TIME` to leave, for jobs that do not say"),
		&cli.DurationFlag{Category: costs, Name: "requeue-delay", DefaultText: "121s, as Slurm's; 0s for srtf, las and rounds", Usage: "`TIME` from leaving to being eligible again"},
		seconds("prolog", "`TIME` before each run"),
		seconds("epilog", "`TIME` after each run"),
		seconds("checkpoint", "`TIME` between two checkpoints, for jobs that do not say"),
		seconds("restart-cost", "`TIME` that each later run takes before it makes progress again"),
		&cli.StringFlag{Category: costs, Name: "spread-costs", Usage: "`PARTS` of their speed that jobs lose on 2, 4, 8 ... times as many leaf switches as they need, such as 0.146,0.199,0.441"},
		&cli.StringFlag{Category: costs, Name: "node-costs", Usage: "`PARTS` of their speed that jobs lose on 2, 4, 8 ... times as many nodes as they need"},
		seconds("mtbf", "mean `TIME` between failures of one node"),
		seconds("repair", "`TIME` until a failed node is back"),
		&cli.StringFlag{Category: costs, Name: "node-events", Usage: "nodes fail, drain, reboot and join as `FILE` says, TOML with [[events]] tables"},
	}, flags...)
}

// evictionFlags are the settings of those preemptions that are there to compare with.
func evictionFlags(category string) []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Category: category, Name: "fitgpp-s", Value: 4, Usage: "`WEIGHT` of the grace period against the size in FitGpp's score"},
		&cli.IntFlag{Category: category, Name: "fitgpp-p", Value: 1, Usage: "FitGpp evicts one job so many `TIMES` at most; 0: no limit"},
		&cli.StringFlag{Category: category, Name: "fitgpp-fallback", Value: string(preemption.FallRandom), Usage: "when no single victim makes room: `WHO` is random, anybody (also those evicted P times), node-set, none"},
		&cli.IntFlag{Category: category, Name: "evictions-at-once", Usage: "`VICTIMS` in their grace period; 0: no limit"},
		&cli.IntFlag{Category: category, Name: "evictions-per-hour", Usage: "`VICTIMS` of any hour; 0: no limit"},
		&cli.Float64Flag{Category: category, Name: "eviction-gpu-hours-per-day", Usage: "`GPU-HOURS` that evictions may lose in any day; 0: no limit"},
	}
}

func evictionOf(c *cli.Context) preempt.Settings {
	set := preempt.Settings{
		S: c.Float64("fitgpp-s"), Fallback: preemption.Fallback(c.String("fitgpp-fallback")),
		Limits: preemption.Limits{MaxAtOnce: c.Int("evictions-at-once"), MaxPerHour: c.Int("evictions-per-hour"), GPUHoursPerDay: c.Float64("eviction-gpu-hours-per-day")},
	}
	if c.String("preemption") == string(preemption.FitGpp) {
		set.MaxEvictions = c.Int("fitgpp-p")
	}
	return set
}

// simulated is a finished simulation with what was left out of it.
type simulated struct {
	simulate.Result
	spec  simulate.Spec
	stats trace.Stats
	notes []string

	failed int // allocations
	left   unrunnable
	strict bool
}

// simulation runs what the flags say. Progress goes to bar when it is a
// terminal.
func simulation(ctx context.Context, c *cli.Context, bar io.Writer) (*simulated, error) {
	spec, err := specOf(c)
	if err != nil {
		return nil, usageError{err}
	}
	s := &simulated{spec: spec}
	in, done, err := s.input(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	return s, s.run(ctx, in, bar)
}

// input opens what the flags say that is simulated; done closes it.
func (s *simulated) input(ctx context.Context, c *cli.Context) (in simulate.Input, done func(), err error) {
	var cfg *config.Config
	if c.Bool("from-slurm") || s.spec.Priod() || s.spec.Speeds != "known" {
		if cfg, err = loadConfig(c); err != nil {
			return in, nil, err
		}
	}
	table, told, err := workloads(c, cfg)
	if err != nil {
		return in, nil, usageError{err}
	}
	if in.Pairs, in.PairWorkloads, err = pairsOf(c.String("pairs"), &s.spec, table); err != nil {
		return in, nil, usageError{err}
	}
	if err := s.nodes(ctx, c, cfg, &in); err != nil {
		return in, nil, err
	}
	if cfg != nil {
		s.notes = append(s.notes, in.Unprofile(cfg)...)
	}
	if err := s.nodeEvents(c, &in); err != nil {
		return in, nil, err
	}
	jobs, done, err := s.jobs(ctx, c, cfg, table)
	if err != nil {
		return in, nil, err
	}
	if s.spec.RoundModel == "synergy" && !c.IsSet("first-round") {
		if jobs, err = static(jobs, &s.spec); err != nil {
			done()
			return in, nil, err
		}
	}
	in.Speed, in.Curve = speeds(table), curves(table)
	in.Trouble, in.Config, in.Table = s.trouble, cfg, told
	if cfg != nil {
		shorten(c, cfg)
		in.Within = cfg.Speeds.Within
	}
	in.Jobs = func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			if err == nil {
				err = runnable(&j, table)
			}
			if !yield(j, err) {
				return
			}
		}
	}
	if accounting(c) {
		s.strict = c.Bool("strict")
		in.Fitting(&s.spec, s.leaveOut)
	}
	return in, done, nil
}

// workloads reads how fast programs are (--workloads, else what priod is told) and what priod is told
// of them (speeds.workloads, else the same).
func workloads(c *cli.Context, cfg *config.Config) (table, told *workload.Table, err error) {
	path, key := c.String("workloads"), ""
	if cfg != nil {
		key = cfg.Speeds.Workloads
	}
	if table, err = workload.Load(cmp.Or(path, key)); err != nil || path == "" || key == "" {
		return table, table, err
	}
	told, err = workload.Load(key)
	return table, told, err
}

// accounting tells whether the jobs come from Slurm's accounting: it holds what no user typed
// for a replay, and jobs of nodes that are gone.
func accounting(c *cli.Context) bool {
	return c.Bool("from-slurm") || c.String("format") == string(trace.Sacct)
}

// run simulates.
func (s *simulated) run(ctx context.Context, in simulate.Input, bar io.Writer) (err error) {
	debug.SetGCPercent(400) // a simulation keeps little, and makes and drops much
	tick, finish := progress(bar)
	jobs := in.Jobs
	in.Jobs = func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			tick()
			if !yield(j, err) {
				return
			}
		}
	}
	s.Result, err = simulate.Run(ctx, s.spec, in)
	finish()
	if errors.As(err, new(virtual.OptionError)) {
		err = usageError{err}
	}
	if s.failed > 1 {
		s.notes = append(s.notes, fmt.Sprintf("%d allocations failed in all", s.failed))
	}
	return err
}

// trouble keeps the first problem that the optimiser failed on, and counts.
func (s *simulated) trouble(now float64, err error, p *policies.Problem) {
	if s.failed++; s.failed > 1 {
		return
	}
	text, cannot := p.MarshalJSON()
	where := fmt.Sprintf("and the instance could not be written: %v", cannot)
	if cannot == nil {
		where = kept(text)
	}
	s.notes = append(s.notes, fmt.Sprintf("at %.0f s: %v; %s; the last allocation stayed", now, err, where))
}

// static reads a trace of Synergy's whole: when all of its jobs come within the
// first second, the published simulator begins at 1 s.
func static(jobs iter.Seq2[trace.Job, error], spec *simulate.Spec) (iter.Seq2[trace.Job, error], error) {
	var all []trace.Job
	for j, err := range jobs {
		if err != nil {
			return nil, err
		}
		all = append(all, j)
	}
	if n := len(all); n > 0 && all[n-1].Submit < 1 {
		spec.FirstRound = 1
	}
	return trace.Each(all), nil
}

// runnable refuses a job whose workload nobody knows.
func runnable(j *trace.Job, table *workload.Table) error {
	if j.Duration > 0 || j.Workload == "" {
		return nil
	}
	if _, known := table.Lookup(j.Workload); !known {
		return fmt.Errorf("job %s: no workload %.80q; see priod workloads list, or give --workloads FILE", j.ID, j.Workload)
	}
	return nil
}

// speeds looks a job up in the table.
func speeds(table *workload.Table) func(*trace.Job, string) float64 {
	return func(j *trace.Job, gpuType string) float64 {
		if j.Duration > 0 {
			return 1
		}
		id, known := table.Lookup(j.Workload)
		if !known {
			return 0
		}
		s, _ := table.Speed(id, j.GPUs, gpuType)
		return s
	}
}

// pairsOf reads the speeds of pairs, which a policy with space sharing needs, and
// of which workloads they are.
func pairsOf(path string, spec *simulate.Spec, table *workload.Table) (speeds gavel.Pairs, workloads []string, err error) {
	switch {
	case path == "" && spec.Pairs():
		return nil, nil, fmt.Errorf("--allocation %s: which pairs run how fast? Give --pairs FILE; priod workloads import gavel --pairs makes one", spec.Allocation)
	case path == "":
		return nil, nil, nil
	case !spec.Pairs():
		return nil, nil, errors.New("--pairs belongs to --allocation gandiva or POLICY:packed")
	}
	pairs, err := colocation.LoadPairs(path, table)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range pairs.Workloads() {
		workloads = append(workloads, table.Get(id).Name)
	}
	if spec.PairsTried > 0 && len(workloads) == 0 {
		return nil, nil, fmt.Errorf("--pairs-tried %v: %s has no pair to estimate from", spec.PairsTried, path)
	}
	if spec.PairReferences > len(workloads) {
		return nil, nil, fmt.Errorf("--pair-references %d: %s has pairs of %d workloads", spec.PairReferences, path, len(workloads))
	}
	return func(a, b *trace.Job, gpuType string) (float64, float64) {
		x, knownA := table.Lookup(a.Workload)
		y, knownB := table.Lookup(b.Workload)
		speedA, speedB, ok := pairs.Speed(x, y, a.GPUs, gpuType)
		if !knownA || !knownB || !ok {
			return 0, 0
		}
		if a.Duration > 0 { // counted in seconds of itself alone
			alone, _ := table.Speed(x, a.GPUs, gpuType)
			speedA /= alone
		}
		if b.Duration > 0 {
			alone, _ := table.Speed(y, b.GPUs, gpuType)
			speedB /= alone
		}
		return speedA, speedB
	}, workloads, nil
}

// curves looks a job's sensitivity up in the table.
func curves(table *workload.Table) func(*trace.Job, string) *workload.Curve {
	all := make([]map[string]*workload.Curve, len(table.All()))
	for id, w := range table.All() {
		all[id] = make(map[string]*workload.Curve, len(w.Curves))
		for gpuType, c := range w.Curves {
			all[id][gpuType] = &c
		}
	}
	return func(j *trace.Job, gpuType string) *workload.Curve {
		if id, known := table.Lookup(j.Workload); known {
			return all[id][gpuType]
		}
		return nil
	}
}

func (s *simulated) nodes(ctx context.Context, c *cli.Context, cfg *config.Config, in *simulate.Input) (err error) {
	file, groups := c.String("cluster"), c.StringSlice("nodes")
	switch {
	case file != "" && len(groups) > 0:
		return usagef("simulate: --cluster and --nodes both describe the nodes; give one")
	case file != "":
		in.Cluster, err = trace.ReadCluster(file)
	case len(groups) > 0:
		if in.Cluster, err = trace.ParseNodes(groups); err == nil {
			err = in.Cluster.Hang(c.Int("switch-nodes"))
		}
	case c.Bool("from-slurm"):
		snapshot, err := live.New(newClient(cfg)).Observe(ctx)
		if err != nil {
			return fmt.Errorf("read Slurm: %w", err)
		}
		var left [2]int
		in.Cluster, left = trace.FromSnapshot(&snapshot)
		for i, kind := range []string{"GPU nodes", "nodes without GPUs"} {
			if left[i] > 0 {
				s.notes = append(s.notes, fmt.Sprintf("%d %s are down or drained and left out", left[i], kind))
			}
		}
		if in.Cluster.TotalGPUs() == 0 {
			return errors.New("this Slurm shows no usable GPU nodes; describe them with --nodes")
		}
		return nil
	default:
		return usagef("simulate: which nodes? Give --nodes COUNT:TYPE:GPUS, --cluster FILE or --from-slurm")
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// nodeEvents reads what happens to the nodes.
func (s *simulated) nodeEvents(c *cli.Context, in *simulate.Input) (err error) {
	file := c.String("node-events")
	if file == "" {
		return nil
	}
	if s.spec.Engine == "rounds" {
		return usagef("--node-events belongs to --engine slurm: in rounds no node changes")
	}
	if in.NodeEvents, err = trace.ReadNodeEvents(file, &in.Cluster); err != nil {
		return usageError{err}
	}
	return nil
}

// jobs opens the trace; done closes it.
func (s *simulated) jobs(ctx context.Context, c *cli.Context, cfg *config.Config, table *workload.Table) (jobs iter.Seq2[trace.Job, error], done func(), err error) {
	sources := 0
	for _, given := range []bool{c.String("trace") != "", c.String("generate") != "", c.Bool("from-slurm")} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return nil, nil, usagef("simulate: which jobs? Give one of --trace FILE, --generate \"KIND FLAGS\" and --from-slurm")
	}
	if c.Bool("strict") && !accounting(c) {
		return nil, nil, usagef("--strict belongs to --from-slurm and --format sacct: other traces stop at what is wrong, unless --skip-bad is given")
	}
	opts := trace.Options{Format: trace.Format(c.String("format")), SkipBad: c.Bool("skip-bad") || accounting(c) && !c.Bool("strict"), Sort: c.Bool("sort"), Workloads: table, JobsPerHour: c.Float64("jobs-per-hour"), GPUsOnly: s.spec.GPUsOnly()}
	if cfg != nil {
		opts.TEQOS, opts.BEQOS = cfg.Ranking.TEQOS, cfg.Ranking.BEQOS
	}
	switch {
	case c.String("generate") != "":
		all, err := generate(c.String("generate"))
		return trace.Each(all), func() {}, err
	case c.Bool("from-slurm"):
		all, err := s.past(ctx, c, cfg, opts)
		return trace.Each(all), func() {}, err
	}
	r, err := trace.Open(c.String("trace"), opts)
	if err != nil {
		return nil, nil, err
	}
	return r.All(), func() {
		s.stats = r.Stats()
		r.Close()
	}, nil
}

// past reads accounting.
func (s *simulated) past(ctx context.Context, c *cli.Context, cfg *config.Config, opts trace.Options) ([]trace.Job, error) {
	last, err := span(c, "simulate", false)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	runs, err := newClient(cfg).History(ctx, now.Add(-last), now)
	if err != nil {
		return nil, fmt.Errorf("read accounting: %w", err)
	}
	jobs, stats, err := trace.FromRuns(runs, opts)
	s.stats = stats
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("accounting holds no finished GPU jobs of the last %s", c.String("since"))
	}
	return jobs, err
}

// generate makes a trace as the words behind priod trace generate say.
func generate(words string) (made []trace.Job, err error) {
	app := within("--generate")
	app.Commands = generators(func(_ *cli.Context, jobs []trace.Job) error {
		made = jobs
		return nil
	})
	app.Action = which(fmt.Sprintf("%.80q: want gavel, synergy, fitgpp or philly and its flags", words))
	for _, g := range app.Commands {
		prepare(g)
		g.HideHelp = true // its flag is one value for all that run at once
	}
	if err := app.Run(append([]string{app.Name}, strings.Fields(words)...)); err != nil {
		return nil, usagef("--generate %w", err)
	}
	if made == nil { // --help
		return nil, usagef("--generate: see priod trace generate --help")
	}
	return made, nil
}

// slurmRequeue is how long a requeued job may not start, s: cred_expire and a
// second (slurmctld, job_mgr.c).
const slurmRequeue = 121

// specOf is the policy that the flags say, checked.
func specOf(c *cli.Context) (simulate.Spec, error) {
	spec, err := flagSpec(c)
	if err != nil {
		return spec, err
	}
	if err := spec.Check(); err != nil {
		return spec, err
	}
	return spec, checkKeyFlags(c, &spec)
}

// flagSpec is what the flags say, before defaults are filled in.
func flagSpec(c *cli.Context) (simulate.Spec, error) {
	s := func(name string) float64 { return c.Duration(name).Seconds() }
	for _, f := range simulateFlags() {
		if d, ok := f.(*cli.DurationFlag); ok && c.Duration(d.Name) < 0 {
			return simulate.Spec{}, fmt.Errorf("--%s %s: want 0s or more", d.Name, c.Duration(d.Name))
		}
	}
	spec := simulate.Spec{
		Engine: c.String("engine"), Order: c.String("order"), SlurmOrder: c.String("slurm-order"), Backfill: c.String("backfill"), Depth: c.Int("depth"), Placement: c.String("placement"),
		Retry: c.String("retry"), Allocation: c.String("allocation"), Preemption: c.String("preemption"), Eviction: evictionOf(c), Sizing: c.String("sizing"), Speeds: c.String("speeds"), HistoryJobs: c.Int("history-jobs"), RoundModel: c.String("round-model"),
		Round: s("round"), FirstRound: s("first-round"), Seed: c.Uint64("seed"), PairsTried: c.Float64("pairs-tried"), PairReferences: c.Int("pair-references"), UserGPUs: c.Int("user-gpus"), AccountGPUs: c.Int("account-gpus"), Waits: c.Bool("waits"),
		Overheads: simulate.Overheads{
			Hold: s("hold"), Grace: s("grace"), Requeue: s("requeue-delay"), Prolog: s("prolog"), Epilog: s("epilog"),
			Checkpoint: s("checkpoint"), Restart: s("restart-cost"), MTBF: s("mtbf"), Repair: s("repair"),
		},
	}
	if free := spec.Order == "srtf" || spec.Order == "las" || spec.Engine == "rounds"; !free && !c.IsSet("requeue-delay") {
		spec.Overheads.Requeue = slurmRequeue
	}
	if spec.Waits && !spec.Priod() {
		return spec, fmt.Errorf("--waits needs priod's cycles: add --order priod")
	}
	if c.Bool("pool") {
		if spec.Placement != "" && spec.Placement != "pool" {
			return spec, fmt.Errorf("--pool and --placement %s contradict each other", spec.Placement)
		}
		spec.Placement = "pool"
	}
	if spec.Engine == "rounds" && spec.RoundModel == "" && c.String("format") == string(trace.Synergy) {
		spec.RoundModel = "synergy"
	}
	var err error
	if spec.LASQueues, err = numbers("las-queues", c.String("las-queues")); err != nil {
		return spec, err
	}
	if spec.SpreadCosts, err = numbers("spread-costs", c.String("spread-costs")); err != nil {
		return spec, err
	}
	if spec.NodeCosts, err = numbers("node-costs", c.String("node-costs")); err != nil {
		return spec, err
	}
	spec.Window, err = windowOf(c.String("window"))
	return spec, err
}

// numbers reads the numbers above 0 of a flag; nil for none.
func numbers(flag, text string) (all []float64, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return nil, fmt.Errorf("--%s %.80q: %.40q is no number above 0", flag, text, word)
		}
		all = append(all, n)
	}
	return all, nil
}

// windowOf reads "4000:4999", the jobs that are measured; nil for all.
func windowOf(text string) (*metrics.Window, error) {
	if text == "" {
		return nil, nil
	}
	first, last, ok := strings.Cut(text, ":")
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if !ok || err1 != nil || err2 != nil || from < 0 || to < from {
		return nil, fmt.Errorf("--window %.40q: want FIRST:LAST, such as 4000:4999", text)
	}
	return &metrics.Window{First: from, Last: to}, nil
}

// progress shows on a terminal how many jobs have arrived.
func progress(w io.Writer) (tick, finish func()) {
	if !isTerminal(w) {
		return func() {}, func() {}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(200*time.Millisecond))
	bar := p.New(0, mpb.SpinnerStyle(), mpb.AppendDecorators(decor.CurrentNoUnit(" %d jobs submitted")), mpb.BarRemoveOnComplete())
	n := int64(0)
	return func() {
			if n++; n%1024 == 0 {
				bar.IncrBy(1024)
			}
		}, func() {
			bar.SetTotal(-1, true)
			p.Wait()
		}
}

// showSimulation prints the figures and writes the files that were asked for.
func showSimulation(c *cli.Context, s *simulated) error {
	s.showNotes(c.App.ErrWriter)
	if path := c.String("jobs-out"); path != "" {
		if err := writeFile(path, s.writeJobs); err != nil {
			return err
		}
	}
	if path := c.String("html"); path != "" {
		if err := writeFile(path, s.page().Write); err != nil {
			return err
		}
	}
	return answer(c, struct {
		metrics.Figures
		Waited  map[plan.Cause]float64 `json:"waited_for_s,omitempty"` // by cause, of all jobs together
		Bad     int                    `json:"bad_rows"`
		Skipped map[string]int         `json:"skipped_rows"` // by why
		Left    *leftOutJSON           `json:"left_out,omitempty"`
	}{s.Figures, s.Waited, s.stats.Bad, s.stats.Skipped, s.leftOut()}, func(w io.Writer) {
		report.Table(w, []string{"FIGURE", "VALUE"}, s.rows())
		for _, words := range s.words() {
			fmt.Fprintln(w, words)
		}
	})
}

func (s *simulated) showNotes(w io.Writer) {
	for _, n := range s.notes {
		fmt.Fprintf(w, "priod: note: %s\n", n)
	}
	for _, words := range s.leftOutWords() {
		fmt.Fprintf(w, "priod: note: %s\n", words)
	}
}

// words say of which jobs the figures are, where that is not plain.
func (s *simulated) words() []string {
	if s.Figures.CPUOnly == nil {
		return nil
	}
	return []string{fmt.Sprintf("Figures are of the jobs with GPUs (%d); jobs without (%d) are counted apart.", s.Figures.Jobs, s.Figures.CPUOnly.Jobs)}
}

// rows are the figures for people; those of an empty group are left out.
func (s *simulated) rows() [][]any {
	f := &s.Figures
	all := "jobs"
	if f.CPUOnly != nil {
		all = "jobs with GPUs"
	}
	rows := [][]any{
		{all, f.Jobs},
		{"JCT mean, p50, p95, p99", spans(f.MeanJCT, f.P50JCT, f.P95JCT, f.P99JCT)},
		{"wait mean, p90, p95, max", spans(f.MeanWait, f.P90Wait, f.P95Wait, f.MaxWait)},
		{"makespan", spans(f.Makespan)},
		{"GPUs in use", fmt.Sprintf("%.1f %%", 100*f.GPUUtilisation)},
		{"preemptions", f.Preemptions},
		{"GPU-hours wasted", fmt.Sprintf("%.1f", f.Wasted/3600)},
	}
	if f.FailedTrials > 0 {
		rows = append(rows,
			[]any{"trials, that failed", fmt.Sprintf("%d, %d (%.1f %%)", f.Trials, f.FailedTrials, 100*float64(f.FailedTrials)/float64(f.Trials))},
			[]any{"GPU-hours lost to failures", fmt.Sprintf("%.1f", f.Lost/3600)},
			[]any{"jobs that failed, of these held", fmt.Sprintf("%d, %d", f.FailedJobs, f.HeldJobs)})
	}
	if words := s.causes(); words != "" {
		rows = append(rows, []any{"waited for", words})
	}
	if f.MeanWaitGE8 != nil && f.MeanWaitLT8 != nil {
		rows = append(rows, []any{"mean wait below 8 GPUs, from 8 on", spans(*f.MeanWaitLT8, *f.MeanWaitGE8)})
	}
	if f.TESlowdownP50 != nil {
		rows = append(rows, []any{"TE slowdown p50, p95, p99", fmt.Sprintf("%.2f, %.2f, %.2f", *f.TESlowdownP50, *f.TESlowdownP95, *f.TESlowdownP99)})
	}
	if f.BESlowdownP50 != nil {
		rows = append(rows, []any{"BE slowdown p50, p95, p99", fmt.Sprintf("%.2f, %.2f, %.2f", *f.BESlowdownP50, *f.BESlowdownP95, *f.BESlowdownP99)})
	}
	if o := f.CPUOnly; o != nil {
		rows = append(rows,
			[]any{"jobs without GPUs, that failed", fmt.Sprintf("%d, %d", o.Jobs, o.FailedJobs)},
			[]any{"their JCT mean, p50, p95", spans(o.MeanJCT, o.P50JCT, o.P95JCT)},
			[]any{"their wait mean, p90, max", spans(o.MeanWait, o.P90Wait, o.MaxWait)})
	}
	return rows
}

// causes are the parts that causes have in all waiting, where priod saw it.
func (s *simulated) causes() string {
	sum := 0.0
	for _, seconds := range s.Waited {
		sum += seconds
	}
	var parts []string
	for _, c := range plan.Causes {
		if part := s.Waited[c]; part > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", c, 100*part/sum))
		}
	}
	return strings.Join(parts, ", ")
}

// spans renders times: seconds below two hours, hours above.
func spans(seconds ...float64) string {
	words := make([]string, len(seconds))
	for i, s := range seconds {
		if s < 7200 {
			words[i] = strconv.FormatFloat(s, 'f', 1, 64) + " s"
		} else {
			words[i] = strconv.FormatFloat(s/3600, 'f', 2, 64) + " h"
		}
	}
	return strings.Join(words, ", ")
}

func (s *simulated) writeJobs(w io.Writer) error {
	out := csv.NewWriter(w)
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	err := out.Write([]string{"job_id", "submit_s", "start_s", "end_s", "wait_s", "ran_s", "preemptions", "gpus", "gpu_type", "type", "done", "nodes"})
	for i := range s.Jobs {
		j, o := &s.Jobs[i], &s.Outcomes[i]
		row := []string{j.ID, number(j.Submit), "", "", "", number(o.Ran), strconv.Itoa(int(o.Preemptions)), strconv.Itoa(int(j.GPUs)), "", j.Class.String(), strconv.FormatBool(o.Done), o.Nodes}
		if o.Ran > 0 || o.Done {
			row[2] = number(o.Start)
		}
		if o.Done {
			row[3], row[4] = number(o.End), number(metrics.Wait(j, o))
		}
		if o.Type >= 0 && int(o.Type) < len(s.Types) && row[2] != "" {
			row[8] = s.Types[o.Type]
		}
		err = errors.Join(err, out.Write(row))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}
