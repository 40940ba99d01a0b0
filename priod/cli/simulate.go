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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/simulate"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/store"
	"slurmprio/priod/trace"
	"slurmprio/priod/view"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
)

func simulateCommand() *cli.Command {
	return &cli.Command{
		Name: "simulate", Usage: "replay jobs in virtual time: Slurm as it is, and with priod",
		Description: "Jobs come from --trace or --from-slurm, nodes from --nodes, --cluster or --from-slurm. --order priod runs the\n" +
			"daemon's own cycles, as --config and --set say. --compare runs the same jobs twice, and shows both beside what\n" +
			"happened, where the trace has start and end times:\n" +
			"    priod simulate --from-slurm --since 30d --compare --html compared.html\n" +
			"    priod simulate --from-slurm --since 30d --order priod --set profile=balanced\n" +
			"--state records both runs of --compare as the daemon records its life, to be walked through (nothing is written to Slurm):\n" +
			"    priod simulate --from-slurm --since 30d --set profile=balanced --state month && priod web --state month",
		Flags: append(append(simulateFlags(),
			&cli.BoolFlag{Name: "compare", Usage: "real history, Slurm alone and with priod, side by side; --order is then Slurm's (default: this Slurm's with --from-slurm, else multifactor with easy backfill)"}),
			append(ShowFlags(), &cli.StringFlag{Name: recordTo, Usage: "record --compare in this `FOLDER`, for --state of web, explain, queue, evictions and report"})...),
		Before: noArgs,
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			if c.IsSet(recordTo) {
				return recordRuns(ctx, c)
			}
			if c.Bool("compare") {
				return compareRuns(ctx, c)
			}
			r, err := simulation(ctx, c, c.App.ErrWriter)
			if err != nil {
				return err
			}
			return r.Show(c)
		},
	}
}

// ShowFlags are what Show goes by.
func ShowFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "jobs-out", Usage: "write what became of every job to this CSV `FILE`"},
		&cli.StringFlag{Name: "series-out", Usage: "write GPUs in use and jobs that wait over time to this CSV `FILE`"},
		&cli.StringFlag{Name: "html", Usage: "write a page with plots, and with --order priod causes of waiting, to `FILE`"},
		jsonFlag(),
	}
}

// simulateFlags say what is simulated. They are also keys of a sweep.
func simulateFlags() []cli.Flag {
	const input, policy, costs = "JOBS AND NODES", "WHAT RUNS", "WHAT MOVING A JOB COSTS, AND FAILURES"
	seconds := func(name, usage string) cli.Flag {
		return &cli.DurationFlag{Category: costs, Name: name, Usage: usage}
	}
	return []cli.Flag{
		&cli.StringFlag{Category: input, Name: "trace", Usage: "read jobs from `FILE`, gzip or plain; - is standard input"},
		&cli.StringFlag{Category: input, Name: "format", Value: string(trace.CSV), Usage: "of the trace: csv, sacct, swf (Standard Workload Format), or swf-gpu, whose processors are GPUs"},
		&cli.BoolFlag{Category: input, Name: "from-slurm", Usage: "jobs from this Slurm's accounting, its nodes unless others are given"},
		&cli.StringFlag{Category: input, Name: "since", Value: "7d", Usage: "how much `TIME` of accounting, with --from-slurm: 12h, 30d"},
		&cli.BoolFlag{Category: input, Name: "strict", Usage: "accounting: stop at the first bad row or job that these nodes cannot run"},
		&cli.StringFlag{Category: input, Name: "cluster", Usage: "read nodes from `FILE`, TOML with [[nodes]] tables"},
		&cli.StringSliceFlag{Category: input, Name: "nodes", Usage: "`NODES` as COUNT:TYPE:GPUS[:CPUS[:MEM_MB]]; again for more"},
		&cli.StringFlag{Category: input, Name: "workloads", Usage: "speeds of programs, from `FILE` (default: speeds.workloads, else those built in); where both are set priod is told the latter"},
		&cli.Uint64Flag{Category: input, Name: "seed", Value: 1, Usage: "random seed `NUMBER`"},

		&cli.StringFlag{Category: policy, Name: "order", Usage: "of the queue: " + simulate.Orders.Values() + " (Slurm's multifactor, with priod); fair-share, quotas, owners: what a Slurm makes of [[share]] tables"},
		&cli.StringFlag{Category: policy, Name: "backfill", Usage: simulate.Backfills.Values() + " (default: this Slurm's with --from-slurm, else none; easy where priod steers, sizes or places)"},
		&cli.StringFlag{Category: policy, Name: "preemption", Usage: simulate.SlurmQOS + ": Slurm's own, TE jobs in a QOS that preempts, youngest victims first; not with --order priod"},
		setFlag(policy),
		&cli.StringFlag{Category: policy, Name: "trial", Usage: "priod on and off as priod trial would have it, as in `blocks=12h,days=14,seed=7,from=3d`; off: always off"},

		seconds("hold", "`TIME` that sbatchwrap holds jobs that may be steered or sized (/etc/slurmprio/hold)"),
		&cli.DurationFlag{Category: costs, Name: "requeue-delay", Value: slurmRequeue * time.Second, Usage: "`TIME` from leaving to being eligible again"},
		seconds("prolog", "`TIME` before each run"),
		seconds("restart-cost", "`TIME` that each later run takes before it makes progress again"),
		&cli.StringFlag{Category: costs, Name: "spread-costs", Usage: "`PARTS` of their speed that jobs lose on 2, 4, 8 ... times as many leaf switches as they need, such as 0.146,0.199,0.441"},
		seconds("mtbf", "mean `TIME` between failures of one node"),
		seconds("repair", "`TIME` until a failed node is back"),
		&cli.StringFlag{Category: costs, Name: "node-events", Usage: "nodes fail, drain, reboot and join as `FILE` says, TOML with [[events]] tables"},
	}
}

// setFlag is --set, on verbs that run cycles without the daemon.
func setFlag(category string) cli.Flag {
	return &cli.StringSliceFlag{Category: category, Name: "set", Usage: "`KEY=VALUE` of priod.toml, over the file, such as preemption.max_evictions=2; again for more"}
}

// Simulated is a finished simulation with what was left out of it.
type Simulated struct {
	simulate.Result
	Policy string // in the words of the flags
	Stats  trace.Stats
	Notes  []string

	profile  []string // what of the profile is not simulated
	title    string   // of the run, for its progress
	expected int64    // jobs; 0: it is not known how many

	spec    simulate.Spec
	jobID   func(id string, place int) cluster.JobID // nil: by the order of arrival
	left    unrunnable
	strict  bool
	present map[string]bool // nodes of this Slurm by name; nil: it was not asked for nodes
	// divided is whether jobs wait for the nodes of their partitions.
	divided bool
	// reserved are the reservations of this Slurm from second 0 of a trace on; nil: not asked for.
	reserved func(origin time.Time) ([]trace.NodeEvent, error)
}

// simulation runs what the flags say. Progress goes to bar when it is a
// terminal.
func simulation(ctx context.Context, c *cli.Context, bar io.Writer) (*Simulated, error) {
	spec, err := specOf(c)
	if err != nil {
		return nil, usageError{err}
	}
	s := &Simulated{spec: spec}
	in, done, err := s.input(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	if c.Bool("from-slurm") {
		alone, with, err := policies(ctx, c)
		if err != nil {
			return nil, err
		}
		if s.spec = alone; spec.Priod() {
			s.spec = with
		}
	}
	return s, s.run(ctx, in, bar)
}

// input opens what the flags say that is simulated; done closes it.
func (s *Simulated) input(ctx context.Context, c *cli.Context) (in simulate.Input, done func(), err error) {
	var cfg *config.Config
	if c.Bool("from-slurm") || s.spec.Priod() || s.spec.Owned() {
		if cfg, err = loadConfig(c); err != nil {
			return in, nil, err
		}
	}
	table, told, err := workloads(c, cfg)
	if err != nil {
		return in, nil, usageError{err}
	}
	if err := s.nodes(ctx, c, cfg, &in); err != nil {
		return in, nil, err
	}
	s.divided = in.Cluster.Divided()
	if cfg != nil && !s.spec.Owned() {
		s.profile = in.Unprofile(cfg)
	}
	if err := s.nodeEvents(c, &in); err != nil {
		return in, nil, err
	}
	jobs, done, err := s.jobs(ctx, c, cfg, table)
	if err != nil {
		return in, nil, err
	}
	if s.reserved != nil {
		events, err := s.reserved(s.Stats.Origin)
		if err != nil {
			return in, nil, err
		}
		in.NodeEvents = append(in.NodeEvents, events...)
	}
	in.Speed, in.Curve = simulate.Speeds(table), simulate.Curves(table)
	in.Config, in.Table, in.Origin = cfg, told, s.Stats.Origin
	in.Jobs = func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			if err == nil {
				err = simulate.Runnable(&j, table)
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

// accounting reports whether the jobs come from accounting, or a log in its place: it holds what no user typed
// for a replay, and jobs of nodes that are gone.
func accounting(c *cli.Context) bool {
	return c.Bool("from-slurm") || c.String("format") != string(trace.CSV)
}

// run simulates.
func (s *Simulated) run(ctx context.Context, in simulate.Input, bar io.Writer) (err error) {
	debug.SetGCPercent(400) // a simulation keeps little, and makes and drops much
	seen, finish := progress(bar, []string{s.title}, s.expected, func(_ string, n int64) string {
		if s.expected > 0 {
			return fmt.Sprintf("%d of %d jobs submitted", n, s.expected)
		}
		return report.Plural(int(n), "job", "jobs") + " submitted"
	})
	jobs := in.Jobs
	in.Jobs = func(yield func(trace.Job, error) bool) {
		n := int64(0)
		for j, err := range jobs {
			if n++; n%256 == 0 {
				seen(s.title, n)
			}
			if !yield(j, err) {
				return
			}
		}
	}
	s.Result, err = simulate.Run(ctx, s.spec, in)
	s.Policy = s.spec.String()
	finish()
	if errors.As(err, new(virtual.OptionError)) {
		err = usageError{err}
	}
	return err
}

func (s *Simulated) nodes(ctx context.Context, c *cli.Context, cfg *config.Config, in *simulate.Input) (err error) {
	file, groups := c.String("cluster"), c.StringSlice("nodes")
	switch {
	case file != "" && len(groups) > 0:
		return usagef("simulate: --cluster and --nodes both describe the nodes; give one")
	case file != "":
		in.Cluster, err = trace.ReadCluster(file)
	case len(groups) > 0:
		in.Cluster, err = trace.ParseNodes(groups)
	case c.Bool("from-slurm"):
		client := newClient(cfg)
		snapshot, err := live.New(client).Observe(ctx)
		var reservations []slurmplug.NodeReservation
		if err == nil {
			reservations, err = client.Reservations(ctx)
		}
		var limits trace.Cluster
		if err == nil {
			err = s.readLimits(ctx, client, &limits)
		}
		if err != nil {
			return fmt.Errorf("read Slurm: %w", err)
		}
		s.present = map[string]bool{}
		for i := range snapshot.Nodes {
			s.present[snapshot.Nodes[i].Name] = true
		}
		var left [2]int
		in.Cluster, left = trace.FromSnapshot(&snapshot)
		in.Cluster.QOS, in.Cluster.Associations, in.Cluster.Accounts = limits.QOS, limits.Associations, limits.Accounts
		for i, kind := range []string{"GPU nodes", "nodes without GPUs"} {
			if left[i] > 0 {
				s.Notes = append(s.Notes, fmt.Sprintf("%d %s are down or drained and left out", left[i], kind))
			}
		}
		if in.Cluster.TotalGPUs() == 0 {
			return errors.New("this Slurm shows no usable GPU nodes; describe them with --nodes")
		}
		s.reserved = func(origin time.Time) ([]trace.NodeEvent, error) {
			return in.Cluster.Reserved(&snapshot, reservations, origin)
		}
		return nil
	default:
		return usagef("%s: which nodes? Give --nodes COUNT:TYPE:GPUS, --cluster FILE or --from-slurm", c.Command.Name)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// readLimits reads those of QOS and associations, where this Slurm goes by them, and the tree of accounts.
func (s *Simulated) readLimits(ctx context.Context, client *slurmplug.Client, into *trace.Cluster) error {
	conf, err := client.Config(ctx)
	if err != nil {
		return err
	}
	if into.Accounts, err = client.Accounts(ctx, conf.ClusterName()); err != nil && strings.Contains(conf.AccountingStorageType(), "slurmdbd") {
		s.Notes = append(s.Notes, fmt.Sprintf("fair share: accounts are unknown, assumed equal: %v", err))
	}
	if !conf.EnforcesLimits() {
		return nil
	}
	if into.QOS, err = client.QOSLimits(ctx); err == nil {
		into.Associations, err = client.Associations(ctx, conf.ClusterName())
	}
	return err
}

// nodeEvents reads what happens to the nodes.
func (s *Simulated) nodeEvents(c *cli.Context, in *simulate.Input) (err error) {
	file := c.String("node-events")
	if file == "" {
		return nil
	}
	if in.NodeEvents, err = trace.ReadNodeEvents(file, &in.Cluster); err != nil {
		return usageError{err}
	}
	return nil
}

// jobs opens the trace; done closes it.
func (s *Simulated) jobs(ctx context.Context, c *cli.Context, cfg *config.Config, table *workload.Table) (jobs iter.Seq2[trace.Job, error], done func(), err error) {
	sources := 0
	for _, given := range []bool{c.String("trace") != "", c.Bool("from-slurm")} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return nil, nil, usagef("simulate: which jobs? Give --trace FILE or --from-slurm")
	}
	if c.Bool("strict") && !accounting(c) {
		return nil, nil, usagef("--strict belongs to --from-slurm and to the formats sacct and swf: a CSV always stops at what is wrong")
	}
	opts := trace.Options{Format: trace.Format(c.String("format")), SkipBad: accounting(c) && !c.Bool("strict"), Sort: true, Workloads: table}
	if cfg != nil {
		opts.TEQOS, opts.BEQOS = cfg.Ranking.TEQOS, cfg.Ranking.BEQOS
	}
	if c.Bool("from-slurm") {
		all, err := s.past(ctx, c, cfg, opts)
		return trace.Each(all), func() {}, err
	}
	r, err := trace.Open(c.String("trace"), opts)
	if err != nil {
		return nil, nil, err
	}
	return r.All(), func() {
		s.Stats = r.Stats()
		r.Close()
	}, nil
}

// past reads accounting.
func (s *Simulated) past(ctx context.Context, c *cli.Context, cfg *config.Config, opts trace.Options) ([]trace.Job, error) {
	last, err := sinceOf(c, false)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	client := newClient(cfg)
	runs, err := client.History(ctx, now.Add(-last), now)
	if err == nil {
		opts.Lines, err = client.SubmitLines(ctx, now.Add(-last), now)
	}
	if err == nil && s.divided {
		opts.Scripts, err = listsInScripts(ctx, client, trace.Scripted(runs, opts.Lines))
	}
	if err != nil {
		return nil, fmt.Errorf("read accounting: %w", err)
	}
	if r, err := store.OpenReader(ctx, cfg.State.Dir); err == nil { // else priod does not run here, or not for this user
		opts.CPUs, err = r.AskedCPUs(ctx, now.Add(-last))
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
	}
	if s.present != nil {
		s.Notes = append(s.Notes, trace.Changed(runs, s.present)...)
	}
	jobs, stats, err := trace.FromRuns(runs, opts)
	s.Stats = stats
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("accounting holds no finished GPU jobs of the last %s", c.String("since"))
	}
	return jobs, err
}

// listsInScripts are the lists of partitions in the batch scripts of jobs, by job or array, where Slurm keeps scripts.
func listsInScripts(ctx context.Context, client *slurmplug.Client, jobs []slurmplug.JobID) (map[uint32][]string, error) {
	conf, err := client.Config(ctx)
	if err != nil || !conf.KeepsScripts() {
		return nil, err
	}
	lists := make(map[uint32][]string, len(jobs))
	return lists, client.BatchScripts(ctx, jobs, func(job slurmplug.JobID, script []byte) { lists[job.ID] = trace.ListsIn(script) })
}

// slurmRequeue is how long a requeued job may not start, s: cred_expire and a
// second (slurmctld, job_mgr.c).
const slurmRequeue = 121

// specOf is the policy that the flags say, checked.
func specOf(c *cli.Context) (simulate.Spec, error) {
	spec, err := flagSpec(c)
	if err == nil {
		err = spec.Check()
	}
	if err == nil && len(c.StringSlice("set")) > 0 && !spec.Priod() {
		err = errors.New("--set sets a key of priod.toml: it belongs to --order priod or --compare")
	}
	return spec, err
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
		Own: shippedSlurm, Order: c.String("order"), Backfill: c.String("backfill"), Preemption: c.String("preemption"), Seed: c.Uint64("seed"), Trial: c.String("trial"),
		Overheads: simulate.Overheads{
			Hold: s("hold"), Requeue: s("requeue-delay"), Prolog: s("prolog"), Restart: s("restart-cost"), MTBF: s("mtbf"), Repair: s("repair"),
		},
	}
	spec.Waits = spec.Priod() && c.String("html") != ""
	var err error
	spec.SpreadCosts, err = numbers("spread-costs", c.String("spread-costs"))
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

// Show prints the figures, and writes the files of --jobs-out, --series-out and --html.
func (s *Simulated) Show(c *cli.Context) error {
	s.showNotes(c.App.ErrWriter)
	if err := errors.Join(writeTo(c, "jobs-out", s.writeJobs), writeTo(c, "series-out", s.writeSeries), writeTo(c, "html", func(w io.Writer) error { return s.page().Write(w) })); err != nil {
		return err
	}
	return answer(c, struct {
		metrics.Figures
		Waited  map[plan.Cause]float64 `json:"waited_for_s,omitempty"` // by cause, of all jobs together
		Bad     int                    `json:"bad_rows"`
		Skipped map[string]int         `json:"skipped_rows"` // by why
		Left    *leftOutJSON           `json:"left_out,omitempty"`
		Shares  *view.Shares           `json:"shares,omitempty"`
		Windows []float64              `json:"ran_again_at_s,omitempty"` // the jobs that left before windows; -1: they did not
	}{s.Figures, s.Waited, s.Stats.Bad, s.Stats.Skipped, s.leftOut(), s.shares(), s.Returned}, func(w io.Writer) {
		report.Table(w, []string{"FIGURE", "VALUE"}, figureRows([]comparedRun{{Figures: s.figures()}}))
		if v := s.shares(); v != nil {
			fmt.Fprintln(w)
			v.Page().Show(w, mostShares)
		}
		for _, words := range s.words() {
			fmt.Fprintln(w, words)
		}
	})
}

// writeSeries writes the state at each moment that was kept.
func (s *Simulated) writeSeries(w io.Writer) error {
	if _, err := fmt.Fprintln(w, "at_s,gpus,queue"); err != nil {
		return err
	}
	for _, p := range s.Series {
		if _, err := fmt.Fprintf(w, "%g,%d,%d\n", p.At, p.GPUs, p.Queued); err != nil {
			return err
		}
	}
	return nil
}

// mostShares are shown of each table of the statement; --json has all.
const mostShares = 20

// shares is the statement of guaranteed shares; nil: there are none.
func (s *Simulated) shares() *view.Shares {
	x := s.Result.Shares
	if x == nil || len(x.Hours) == 0 {
		return nil
	}
	return view.StatementOf(x.Hours[0].At, x.Until, nil, x.Hours, slices.Concat(x.Ended, x.Open), nil)
}

func (s *Simulated) showNotes(w io.Writer) {
	for _, n := range slices.Concat(s.Notes, s.profile) {
		fmt.Fprintf(w, "priod: note: %s\n", n)
	}
	for _, words := range s.leftOutWords() {
		fmt.Fprintf(w, "priod: note: %s\n", words)
	}
}

// words say of which jobs the figures are, where that is not plain.
func (s *Simulated) words() []string {
	if s.Figures.CPUOnly == nil {
		return nil
	}
	return []string{fmt.Sprintf("Figures are of the jobs with GPUs (%d); jobs without (%d) are counted apart.", s.Figures.Jobs, s.Figures.CPUOnly.Jobs)}
}

// figureRows are the figures of runs of the same jobs, side by side; what no run has is left out.
func figureRows(runs []comparedRun) [][]any {
	var rows [][]any
	row := func(name string, has bool, cell func(f *comparedFigures) string) {
		if !has {
			return
		}
		cells := []any{name}
		for i := range runs {
			cells = append(cells, cell(&runs[i].Figures))
		}
		rows = append(rows, cells)
	}
	last := &runs[len(runs)-1].Figures
	all := "jobs"
	if last.CPUOnly != nil {
		all = "jobs with GPUs"
	}
	row(all, true, func(f *comparedFigures) string { return strconv.Itoa(f.Jobs) })
	row("JCT mean, p50, p95, p99", true, func(f *comparedFigures) string { return spans(f.MeanJCT, f.P50JCT, f.P95JCT, f.P99JCT) })
	row("wait mean, p90, p95, max", true, func(f *comparedFigures) string { return spans(f.MeanWait, f.P90Wait, f.P95Wait, f.MaxWait) })
	row("TE wait p50, p95", last.TEWaitP50 != nil, func(f *comparedFigures) string { return spans(*f.TEWaitP50, *f.TEWaitP95) })
	row("makespan", true, func(f *comparedFigures) string { return spans(f.Makespan) })
	row("GPUs in use", true, func(f *comparedFigures) string { return fmt.Sprintf("%.1f %%", 100*f.GPUUtilisation) })
	row("preemptions", true, func(f *comparedFigures) string {
		if f.Preemptions == nil {
			return "not known"
		}
		return strconv.Itoa(*f.Preemptions)
	})
	row("GPU-hours wasted", true, func(f *comparedFigures) string {
		if f.Wasted == nil {
			return "not known"
		}
		return fmt.Sprintf("%.1f", *f.Wasted/3600)
	})
	failed := last.FailedTrials > 0
	row("trials, that failed", failed, func(f *comparedFigures) string {
		return fmt.Sprintf("%d, %d (%.1f %%)", f.Trials, f.FailedTrials, 100*float64(f.FailedTrials)/float64(max(f.Trials, 1)))
	})
	row("GPU-hours lost to failures", failed, func(f *comparedFigures) string { return fmt.Sprintf("%.1f", f.Lost/3600) })
	row("jobs that failed, of these held", failed, func(f *comparedFigures) string { return fmt.Sprintf("%d, %d", f.FailedJobs, f.HeldJobs) })
	row("wait of entitled jobs p50, p95, p99, max", last.Returns != nil, func(f *comparedFigures) string {
		if f.Returns == nil {
			return "not known"
		}
		return spans(f.Returns.P50, f.Returns.P95, f.Returns.P99, f.Returns.Worst)
	})
	row("GPUs asked for, GPUs evicted for them", last.Returns != nil, func(f *comparedFigures) string {
		if f.Returns == nil {
			return "not known"
		}
		return fmt.Sprintf("%.0f, %.0f", f.Returns.AskedGPUs, f.Returns.EvictedGPUs)
	})
	row("waited for", causes(last.Waited) != "", func(f *comparedFigures) string { return causes(f.Waited) })
	row("mean wait below 8 GPUs, from 8 on", last.MeanWaitGE8 != nil && last.MeanWaitLT8 != nil, func(f *comparedFigures) string { return spans(*f.MeanWaitLT8, *f.MeanWaitGE8) })
	row("TE slowdown p50, p95, p99", last.TESlowdownP50 != nil, func(f *comparedFigures) string {
		return fmt.Sprintf("%.2f, %.2f, %.2f", *f.TESlowdownP50, *f.TESlowdownP95, *f.TESlowdownP99)
	})
	row("BE slowdown p50, p95, p99", last.BESlowdownP50 != nil, func(f *comparedFigures) string {
		return fmt.Sprintf("%.2f, %.2f, %.2f", *f.BESlowdownP50, *f.BESlowdownP95, *f.BESlowdownP99)
	})
	others := last.CPUOnly != nil
	row("jobs without GPUs, that failed", others, func(f *comparedFigures) string { return fmt.Sprintf("%d, %d", f.CPUOnly.Jobs, f.CPUOnly.FailedJobs) })
	row("their JCT mean, p50, p95", others, func(f *comparedFigures) string { return spans(f.CPUOnly.MeanJCT, f.CPUOnly.P50JCT, f.CPUOnly.P95JCT) })
	row("their wait mean, p90, max", others, func(f *comparedFigures) string {
		return spans(f.CPUOnly.MeanWait, f.CPUOnly.P90Wait, f.CPUOnly.MaxWait)
	})
	return rows
}

// figures are those of the run, each known.
func (s *Simulated) figures() comparedFigures {
	return comparedFigures{s.Figures, &s.Figures.Preemptions, &s.Figures.Wasted, s.Waited}
}

// causes are the parts that causes have in all waiting.
func causes(waited map[plan.Cause]float64) string {
	sum := 0.0
	for _, seconds := range waited {
		sum += seconds
	}
	var parts []string
	for _, c := range plan.Causes {
		if part := waited[c]; part > 0 {
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

func (s *Simulated) writeJobs(w io.Writer) error {
	out := csv.NewWriter(w)
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	header := []string{"job_id", "submit_s", "start_s", "end_s", "wait_s", "ran_s", "preemptions", "gpus", "gpu_type", "type", "done", "nodes"}
	if s.Entitled != nil {
		header = append(header, "entitled_s")
	}
	err := out.Write(header)
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
		id := slurmplug.Plain(uint32(i) + 1)
		if s.jobID != nil {
			id = s.jobID(j.ID, i)
		}
		if since, waited := s.Entitled[id]; waited {
			row = append(row, number(since))
		} else if s.Entitled != nil {
			row = append(row, "")
		}
		err = errors.Join(err, out.Write(row))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}
