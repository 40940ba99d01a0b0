package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	priod "slurmprio/priod/cli"
	"slurmprio/priod/config"
	"slurmprio/priod/evict/preemption"
	site "slurmprio/priod/simulate"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/tests/papers/colocation"
	"slurmprio/tests/papers/gavel"
	"slurmprio/tests/papers/policies"
	"slurmprio/tests/papers/preempt"
	"slurmprio/tests/papers/simulate"
	"slurmprio/tests/papers/traces"
)

func simulateCommand() *cli.Command {
	return &cli.Command{
		Name: "simulate", Usage: "run a trace through a policy in virtual time",
		Description: "Jobs come from --trace or --generate, nodes from --cluster or --nodes. Each dimension of policy is one flag.\n" +
			"--order priod runs the daemon's own cycles, as --config and --set say.\n" +
			"    papers simulate --generate 'fitgpp --jobs 2000 --load 0.9' --nodes 84:gpu:8:32:262144 --backfill easy",
		Flags: append(append(simulateFlags(),
			&cli.BoolFlag{Name: "waits", Usage: "with --order priod: also find what jobs waited for, which takes longer"}),
			priod.ShowFlags()...),
		Before: noArgs,
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			s, err := simulation(ctx, c)
			if err != nil {
				return err
			}
			return s.Show(c)
		},
	}
}

// simulatePoint is the point of a sweep.
func simulatePoint(ctx context.Context, config string, args []string) (measured map[string]float64, err error) {
	app := priod.Within("simulate")
	app.Flags = append(simulateFlags(), &cli.StringFlag{Name: "config"})
	app.Before = noArgs
	app.Action = func(c *cli.Context) error {
		s, err := simulation(ctx, c)
		if err != nil {
			return err
		}
		measured, err = figuresByName(&s.Figures)
		return err
	}
	err = app.RunContext(ctx, append([]string{app.Name, "--config=" + config}, args...))
	return measured, err
}

// simulateFlags say what is simulated. They are also the keys of a sweep.
func simulateFlags() []cli.Flag {
	const input, policy, costs = "INPUT", "POLICY", "WHAT MOVING A JOB COSTS"
	choice := func(d site.Choice, usage string) cli.Flag {
		return &cli.StringFlag{Category: policy, Name: d.Flag, Usage: usage + ": `POLICY` is " + d.Values()}
	}
	seconds := func(name, usage string) cli.Flag {
		return &cli.DurationFlag{Category: costs, Name: name, Usage: usage}
	}
	return append([]cli.Flag{
		&cli.StringFlag{Category: input, Name: "trace", Usage: "read jobs from `FILE`, gzip or plain; - is standard input"},
		&cli.StringFlag{Category: input, Name: "format", Value: string(trace.CSV), Usage: "how the trace is written: `FORMAT` is csv, gavel, synergy, sacct, swf or swf-gpu"},
		&cli.Float64Flag{Category: input, Name: "jobs-per-hour", Usage: "spread the unit arrivals of a recorded stream of Gavel's at this `RATE`; inf: all at once"},
		&cli.BoolFlag{Category: input, Name: "skip-bad", Usage: "leave bad rows out instead of stopping at the first one"},
		&cli.BoolFlag{Category: input, Name: "sort", Usage: "sort the trace by submission, in memory"},
		&cli.StringFlag{Category: input, Name: "generate", Usage: "make the jobs, as papers generate `\"KIND FLAGS\"` does"},
		&cli.StringFlag{Category: input, Name: "cluster", Usage: "read nodes from `FILE`, TOML with [[nodes]] tables"},
		&cli.StringSliceFlag{Category: input, Name: "nodes", Usage: "nodes as `COUNT:TYPE:GPUS[:CPUS[:MEM_MB]]`; again for more"},
		&cli.IntFlag{Category: input, Name: "switch-nodes", Usage: "with --nodes: so many `NODES` each hang on one leaf switch; 0: nothing is known of switches"},
		&cli.StringFlag{Category: input, Name: "workloads", Usage: "speeds of programs, from `FILE` (default: speeds.workloads of the configuration, else those that priod brings along); where both are set priod is told the latter"},
		&cli.StringFlag{Category: input, Name: "pairs", Usage: "read how fast two workloads run on the same GPUs from CSV `FILE`, for --allocation gandiva or POLICY:packed"},
		&cli.Float64Flag{Category: input, Name: "pairs-tried", Usage: "plan with estimates: of a new job's pairs with each reference a `PART` such as 0.2 is tried, the rest is estimated as by Gavel; 0: all pairs are known"},
		&cli.IntFlag{Category: input, Name: "pair-references", Usage: "with --pairs-tried: how many `WORKLOADS` of the file are known in all pairs, drawn by the seed; 0: all"},
		&cli.StringFlag{Category: input, Name: "retry", Usage: "jobs that do not say count as sent with --prio-retry `WHEN`: " + strings.Join(trace.Retries, ", ")},
		&cli.StringFlag{Category: input, Name: "window", Usage: "measure jobs `FIRST:LAST` in order of arrival, counted from 0; later ones keep coming until these are done"},
		&cli.Uint64Flag{Category: input, Name: "seed", Value: 1, Usage: "random seed `NUMBER`"},

		&cli.StringSliceFlag{Category: policy, Name: "set", Usage: "`KEY=VALUE` of priod.toml, where priod runs; again for more"},
		choice(simulate.Engines, "a Slurm, rounds at whose start every job may be moved at no cost, or a pool of GPUs of one type that are counted and not placed"),
		choice(simulate.Orders, "order of the queue; owed is priod with ranking.order = \"owed\""),
		&cli.StringFlag{Category: policy, Name: "las-queues", Usage: "`BORDERS` of order las's queues in GPU-seconds, such as 3250,7200"},
		choice(simulate.SlurmOrders, "with order priod: what Slurm itself orders jobs by (default there: multifactor; where a short form stands for it: fifo)"),
		choice(simulate.Backfills, "which jobs may start before the head of the queue (default where priod steers: easy)"),
		choice(simulate.Placements, "where"),
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

		seconds("hold", "`TIME` that sbatchwrap holds jobs that may be steered or sized (/etc/slurmprio/hold)"),
		seconds("grace", "`TIME` to leave, for jobs that do not say"),
		&cli.DurationFlag{Category: costs, Name: "requeue-delay", DefaultText: "121s, as Slurm's; 0s without one", Usage: "`TIME` from leaving to being eligible again"},
		seconds("prolog", "`TIME` before each run"),
		seconds("epilog", "`TIME` after each run"),
		seconds("checkpoint", "`TIME` between two checkpoints, for jobs that do not say"),
		seconds("restart-cost", "`TIME` that each later run takes before it makes progress again"),
		&cli.StringFlag{Category: costs, Name: "spread-costs", Usage: "`PARTS` of their speed that jobs lose on 2, 4, 8 ... times as many leaf switches as they need, such as 0.146,0.199,0.441"},
		&cli.StringFlag{Category: costs, Name: "node-costs", Usage: "`PARTS` of their speed that jobs lose on 2, 4, 8 ... times as many nodes as they need"},
		seconds("mtbf", "mean `TIME` between failures of one node"),
		seconds("repair", "`TIME` until a failed node is back"),
		&cli.StringFlag{Category: costs, Name: "node-events", Usage: "nodes fail, drain, reboot and join as `FILE` says, TOML with [[events]] tables"},
	}, evictionFlags("EVICTION")...)
}

// evictionFlags are the settings of those preemptions that are there to compare with.
func evictionFlags(category string) []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Category: category, Name: "fitgpp-s", Value: 4, Usage: "`WEIGHT` of the grace period against the size in FitGpp's score"},
		&cli.IntFlag{Category: category, Name: "fitgpp-p", Value: 1, Usage: "FitGpp evicts one job so many `TIMES` at most; 0: no limit"},
		&cli.StringFlag{Category: category, Name: "fitgpp-fallback", Value: string(preempt.FallRandom), Usage: "when no single victim makes room: `WHO` is random, anybody (also those evicted P times), node-set, none"},
		&cli.IntFlag{Category: category, Name: "evictions-per-hour", Usage: "`VICTIMS` of any hour; 0: no limit"},
		&cli.Float64Flag{Category: category, Name: "eviction-gpu-hours-per-day", Usage: "`GPU-HOURS` that evictions may lose in any day; 0: no limit"},
	}
}

// sharedFlags set keys of priod.toml, too, where priod runs.
var sharedFlags = map[string]string{
	"fitgpp-s":           "preemption.fitgpp_s",
	"evictions-per-hour": "preemption.max_per_hour", "eviction-gpu-hours-per-day": "preemption.gpu_hours_per_day",
}

func evictionOf(c *cli.Context) preempt.Settings {
	set := preempt.Settings{Fallback: preempt.Fallback(c.String("fitgpp-fallback")), Settings: preemption.Settings{
		S:      c.Float64("fitgpp-s"),
		Limits: preemption.Limits{MaxPerHour: c.Int("evictions-per-hour"), GPUHoursPerDay: c.Float64("eviction-gpu-hours-per-day")},
	}}
	if c.String("preemption") == string(preemption.FitGpp) {
		set.MaxEvictions = c.Int("fitgpp-p")
	}
	return set
}

// simulated is a finished simulation.
type simulated struct {
	priod.Simulated
	spec   simulate.Spec
	failed int // allocations
}

// simulation runs what the flags say.
func simulation(ctx context.Context, c *cli.Context) (*simulated, error) {
	spec, err := specOf(c)
	if err != nil {
		return nil, priod.WrongUsage(err)
	}
	s := &simulated{spec: spec}
	in, done, err := s.input(c)
	if err != nil {
		return nil, err
	}
	defer done()
	debug.SetGCPercent(400) // a simulation keeps little, and makes and drops much
	s.Result, err = simulate.Run(ctx, s.spec, in)
	s.Policy = s.spec.String()
	if errors.As(err, new(virtual.OptionError)) {
		err = priod.WrongUsage(err)
	}
	if s.failed > 1 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d allocations failed in all", s.failed))
	}
	return s, err
}

// input opens what the flags say that is simulated; done closes it.
func (s *simulated) input(c *cli.Context) (in simulate.Input, done func(), err error) {
	var cfg *config.Config
	if s.spec.Priod() || s.spec.Speeds != "known" {
		set := c.StringSlice("set")
		for flag, key := range sharedFlags {
			if c.IsSet(flag) {
				set = append(set, key+"="+fmt.Sprint(c.Value(flag)))
			}
		}
		if cfg, err = config.Load(c.String("config"), set...); err != nil {
			return in, nil, priod.WrongUsage(err)
		}
	}
	table, told, err := workloads(c, cfg)
	if err != nil {
		return in, nil, priod.WrongUsage(err)
	}
	if in.Pairs, in.PairWorkloads, err = pairsOf(c.String("pairs"), &s.spec, table); err != nil {
		return in, nil, priod.WrongUsage(err)
	}
	if c.String("node-events") != "" && s.spec.GPUsOnly() {
		return in, nil, usagef("--node-events belongs to --engine slurm: in rounds and in a pool no node changes")
	}
	if in.Cluster, in.NodeEvents, err = nodes(c); err != nil {
		return in, nil, priod.WrongUsage(err)
	}
	if cfg != nil {
		s.Notes = append(s.Notes, (&site.Input{Cluster: in.Cluster}).Unprofile(cfg)...)
	}
	jobs, done, err := s.jobs(c, cfg, table)
	if err != nil {
		return in, nil, err
	}
	if s.spec.RoundModel == "synergy" && !c.IsSet("first-round") {
		if jobs, err = static(jobs, &s.spec); err != nil {
			done()
			return in, nil, err
		}
	}
	in.Speed, in.Curve = site.Speeds(table), site.Curves(table)
	in.Trouble, in.Config, in.Table = s.trouble, cfg, told
	in.Jobs = func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			if err == nil {
				err = site.Runnable(&j, table)
			}
			if !yield(j, err) {
				return
			}
		}
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

// nodes reads the nodes, and what happens to them.
func nodes(c *cli.Context) (cluster trace.Cluster, events []trace.NodeEvent, err error) {
	file, groups := c.String("cluster"), c.StringSlice("nodes")
	switch {
	case file != "" && len(groups) > 0:
		return cluster, nil, errors.New("simulate: --cluster and --nodes both describe the nodes; give one")
	case file != "":
		cluster, err = trace.ReadCluster(file)
	case len(groups) > 0:
		if cluster, err = trace.ParseNodes(groups); err == nil {
			err = cluster.Hang(c.Int("switch-nodes"))
		}
	default:
		err = errors.New("simulate: which nodes? Give --nodes COUNT:TYPE:GPUS or --cluster FILE")
	}
	if path := c.String("node-events"); path != "" && err == nil {
		events, err = trace.ReadNodeEvents(path, &cluster)
	}
	return cluster, events, err
}

// jobs opens the trace; done closes it.
func (s *simulated) jobs(c *cli.Context, cfg *config.Config, table *workload.Table) (jobs iter.Seq2[trace.Job, error], done func(), err error) {
	words, path := c.String("generate"), c.String("trace")
	if (words == "") == (path == "") {
		return nil, nil, usagef("simulate: which jobs? Give one of --trace FILE and --generate \"KIND FLAGS\"")
	}
	if words != "" {
		all, err := generate(words)
		return trace.Each(all), func() {}, err
	}
	opts := trace.Options{SkipBad: c.Bool("skip-bad"), Sort: c.Bool("sort"), Workloads: table, GPUsOnly: s.spec.GPUsOnly()}
	switch format := c.String("format"); format {
	case "gavel":
		opts.Source = traces.Gavel(traces.Options{Workloads: table, JobsPerHour: c.Float64("jobs-per-hour")})
	case "synergy":
		opts.Source = traces.Synergy
	default:
		opts.Format = trace.Format(format)
	}
	if cfg != nil {
		opts.TEQOS, opts.BEQOS = cfg.Ranking.TEQOS, cfg.Ranking.BEQOS
	}
	r, err := trace.Open(path, opts)
	if err != nil {
		return nil, nil, err
	}
	return r.All(), func() {
		s.Stats = r.Stats()
		r.Close()
	}, nil
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
	s.Notes = append(s.Notes, fmt.Sprintf("at %.0f s: %v; %s; the last allocation stayed", now, err, where))
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

// pairsOf reads the speeds of pairs, which a policy with space sharing needs, and
// of which workloads they are.
func pairsOf(path string, spec *simulate.Spec, table *workload.Table) (speeds gavel.Pairs, workloads []string, err error) {
	switch {
	case path == "" && spec.Pairs():
		return nil, nil, fmt.Errorf("--allocation %s: which pairs run how fast? Give --pairs FILE; papers import gavel --pairs makes one", spec.Allocation)
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
	return spec, nil
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
		Engine: c.String("engine"), Order: c.String("order"), SlurmOrder: c.String("slurm-order"), Backfill: c.String("backfill"), Placement: c.String("placement"),
		Retry: c.String("retry"), Allocation: c.String("allocation"), Preemption: c.String("preemption"), Eviction: evictionOf(c), Sizing: c.String("sizing"), Speeds: c.String("speeds"), HistoryJobs: c.Int("history-jobs"), RoundModel: c.String("round-model"),
		Round: s("round"), FirstRound: s("first-round"), Seed: c.Uint64("seed"), PairsTried: c.Float64("pairs-tried"), PairReferences: c.Int("pair-references"), UserGPUs: c.Int("user-gpus"), AccountGPUs: c.Int("account-gpus"), Waits: c.Bool("waits"),
		Overheads: site.Overheads{
			Hold: s("hold"), Grace: s("grace"), Requeue: s("requeue-delay"), Prolog: s("prolog"), Epilog: s("epilog"),
			Checkpoint: s("checkpoint"), Restart: s("restart-cost"), MTBF: s("mtbf"), Repair: s("repair"),
		},
	}
	if !spec.GPUsOnly() && !c.IsSet("requeue-delay") {
		spec.Overheads.Requeue = slurmRequeue
	}
	if spec.Waits && !spec.Priod() {
		return spec, fmt.Errorf("--waits needs priod's cycles: add --order priod")
	}
	if spec.Engine == "rounds" && spec.RoundModel == "" && c.String("format") == "synergy" {
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
