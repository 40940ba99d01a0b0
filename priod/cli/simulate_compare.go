package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/simulate"
	"slurmprio/priod/simulate/compare"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// compared are runs of the same jobs, side by side.
type compared struct {
	Runs    []comparedRun  `json:"runs"` // what happened, where the trace knows it; Slurm; Slurm with priod
	effects                // on jobs with GPUs
	CPUOnly *effects       `json:"cpu_only,omitempty"` // on jobs without; null: there are none
	Bad     int            `json:"bad_rows"`
	Skipped map[string]int `json:"skipped_rows"`
	Left    *leftOutJSON   `json:"left_out,omitempty"`

	last   *Simulated                                                              // with priod
	jobs   []metrics.Job                                                           // that are measured
	note   string                                                                  // why what happened is left out
	origin time.Time                                                               // of the trace; zero: it does not say
	again  func(ctx context.Context, draw uint64) (alone, with float64, err error) // mean completions, s, with other seconds of submission
}

// effects are what differs for jobs with GPUs, or for those without.
type effects struct {
	Error    *differences    `json:"error"`  // of Slurm simulated, beside what happened; null: the trace does not know that
	Effect   differences     `json:"effect"` // of priod, beside Slurm simulated
	Users    []compare.Group `json:"users"`  // mean completion times, most gained first
	Accounts []compare.Group `json:"accounts"`
}

type comparedRun struct {
	Name    string          `json:"name"` // recorded, slurm, priod
	Policy  string          `json:"policy,omitempty"`
	Figures comparedFigures `json:"figures"`

	title    string
	outcomes []metrics.Outcome // of the measured jobs
	measures                   // of those with GPUs
	cpuOnly  measures
	series   []metrics.Point
}

// measures are of jobs in order of arrival, s.
type measures struct{ completion, wait []float64 }

// comparedFigures are null where what happened does not say them.
type comparedFigures struct {
	metrics.Figures
	Preemptions *int                   `json:"preemptions"`
	Wasted      *float64               `json:"wasted_gpu_s"`
	Waited      map[plan.Cause]float64 `json:"waited_for_s,omitempty"` // by cause, of all jobs together, where priod saw it
}

// differences are those of one run to another.
type differences struct {
	Completion compare.Difference `json:"completion"`
	Wait       compare.Difference `json:"wait"`
}

func between(from, to *measures) differences {
	return differences{Completion: compare.Paired(from.completion, to.completion), Wait: compare.Paired(from.wait, to.wait)}
}

// compareRuns is priod simulate --compare.
func compareRuns(ctx context.Context, c *cli.Context) error {
	if c.String("jobs-out") != "" || c.String("series-out") != "" {
		return usagef("simulate: --jobs-out writes the jobs of one run, --series-out its GPUs, and --compare makes two: leave one of them out")
	}
	r, err := comparison(ctx, c, nil)
	if err != nil {
		return err
	}
	return r.Show(c)
}

// Show prints the comparison, and writes the page of --html.
func (r *compared) Show(c *cli.Context) error {
	if err := writeTo(c, "html", func(w io.Writer) error { return r.page().Write(w) }); err != nil {
		return err
	}
	return answer(c, r, r.show)
}

// comparison runs the jobs through both policies, and has them recorded; nil: not.
func comparison(ctx context.Context, c *cli.Context, to *recording) (*compared, error) {
	alone, with, err := policies(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &Simulated{spec: with}
	in, done, err := s.input(ctx, c)
	if err != nil {
		return nil, err
	}
	var jobs []trace.Job
	for j, bad := range in.Jobs {
		if err = bad; err != nil {
			break
		}
		jobs = append(jobs, j)
	}
	done()
	s.showNotes(c.App.ErrWriter)
	if err != nil {
		return nil, err
	}
	in.Jobs, in.Origin = trace.Each(jobs), s.Stats.Origin
	r := &compared{origin: s.Stats.Origin, Bad: s.Stats.Bad, Skipped: s.Stats.Skipped, Left: s.leftOut()}
	if to != nil {
		to.of(s, in.Config, jobs)
		in.Jobs = to.counted(jobs)
	}
	w := metrics.Window{First: 0, Last: len(jobs) - 1}
	var runs []comparedRun
	for _, run := range []comparedRun{{Name: "slurm", title: "Slurm, simulated"}, {Name: "priod", title: "with priod"}} {
		s := Simulated{spec: alone, jobID: jobIDOf(to), title: run.title, expected: int64(len(jobs))}
		if run.Name == "priod" {
			s.spec = with
		}
		if to != nil {
			in.Record = to.side(run.Name)
		}
		if err := s.run(ctx, in, c.App.ErrWriter); err != nil {
			return nil, err
		}
		run.Policy, run.series, run.outcomes = s.spec.String(), s.Series, s.Outcomes[w.First:w.Last+1]
		run.Figures = s.figures()
		r.jobs, r.last = s.Jobs[w.First:w.Last+1], &s
		runs = append(runs, run)
	}
	in.Record = nil
	r.again = func(ctx context.Context, draw uint64) (slurm, priod float64, err error) {
		in.Jobs = trace.Each(trace.Jittered(jobs, draw))
		return meansOf(ctx, in, alone, with)
	}
	outcomes, series, missing := compare.Recorded(jobs)
	if missing > 0 {
		r.note = fmt.Sprintf("%d of %d jobs of the trace have no real start and end time", missing, len(jobs))
		fmt.Fprintf(c.App.ErrWriter, "priod: note: %s\n", r.note)
	} else {
		happened := comparedRun{Name: "recorded", title: "as it happened", outcomes: outcomes[w.First : w.Last+1], series: series}
		all := make([]metrics.Job, len(jobs))
		for i := range jobs {
			all[i] = metrics.JobOf(&jobs[i])
		}
		if happened.Figures.Figures, err = metrics.Measure(all, outcomes, &w, in.Cluster.TotalGPUs()); err != nil {
			return nil, err
		}
		runs = slices.Insert(runs, 0, happened)
	}
	r.Runs = runs
	r.measure(jobs[w.First : w.Last+1])
	return r, nil
}

// meansOf are the mean completion times, s, of the same jobs without priod and with it.
func meansOf(ctx context.Context, in simulate.Input, alone, with simulate.Spec) (slurm, priod float64, err error) {
	var means [2]float64
	for k, spec := range []simulate.Spec{alone, with} {
		s := Simulated{spec: spec}
		if err := s.run(ctx, in, io.Discard); err != nil {
			return 0, 0, err
		}
		means[k] = s.Figures.MeanJCT
	}
	return means[0], means[1], nil
}

// measure works out what differs, of the jobs that are measured.
func (r *compared) measure(jobs []trace.Job) {
	for i := range r.Runs {
		run := &r.Runs[i]
		for k := range r.jobs {
			j, o, m := &r.jobs[k], &run.outcomes[k], &run.measures
			if j.GPUs == 0 {
				m = &run.cpuOnly
			}
			m.completion, m.wait = append(m.completion, o.End-j.Submit), append(m.wait, metrics.Wait(j, o))
		}
	}
	r.effects = r.effectsOn(jobs, true, func(run *comparedRun) *measures { return &run.measures })
	if len(r.Runs[0].cpuOnly.wait) > 0 {
		e := r.effectsOn(jobs, false, func(run *comparedRun) *measures { return &run.cpuOnly })
		r.CPUOnly = &e
	}
}

// effectsOn are those on the jobs with GPUs, or without, of which these are the measures.
func (r *compared) effectsOn(jobs []trace.Job, gpus bool, of func(*comparedRun) *measures) (e effects) {
	alone, with := of(&r.Runs[len(r.Runs)-2]), of(&r.Runs[len(r.Runs)-1])
	e.Effect = between(alone, with)
	if len(r.Runs) > 2 {
		d := between(of(&r.Runs[0]), alone)
		e.Error = &d
	}
	var users, accounts []string
	for i := range jobs {
		if gpus == (jobs[i].GPUs > 0) {
			users, accounts = append(users, jobs[i].User), append(accounts, jobs[i].Account)
		}
	}
	e.Users = compare.ByOwner(users, alone.completion, with.completion)
	e.Accounts = compare.ByOwner(accounts, alone.completion, with.completion)
	return e
}

// policies are those of --compare.
func policies(ctx context.Context, c *cli.Context) (alone, with simulate.Spec, err error) {
	flags, err := flagSpec(c)
	if err != nil {
		return alone, with, usageError{err}
	}
	slurm, err := ownPolicy(ctx, c)
	if err != nil {
		return alone, with, err
	}
	if alone, with, err = slurm.sides(flags); err != nil {
		err = usageError{err}
	}
	return alone, with, err
}

// sides are the policies of whatever replays jobs: this Slurm alone, and the same with priod alongside it, which alone gets
// what flags say of priod. What flags leave open is as this Slurm has it.
func (o *ownSlurm) sides(flags simulate.Spec) (alone, with simulate.Spec, err error) {
	flags.Own = o.Own
	alone, with = flags, flags
	if alone.Priod() {
		alone.Order, alone.Waits = "", false
	}
	alone.Order, alone.Backfill, alone.Preemption, alone.Overheads.Hold = cmp.Or(alone.Order, o.Order), cmp.Or(alone.Backfill, o.Backfill), cmp.Or(alone.Preemption, o.Preemption), 0
	with.Order, with.SlurmOrder, with.Backfill, with.Preemption = "priod", alone.Order, alone.Backfill, ""
	if alone.Owned() {
		with.SlurmOrder = "multifactor"
	}
	return alone, with, cmp.Or(alone.Check(), with.Check())
}

// ownSlurm is how a Slurm schedules by itself.
type ownSlurm struct {
	Order      string `json:"order"`
	Backfill   string `json:"backfill"`
	Preemption string `json:"preemption"`
	virtual.Own
}

// shippedSlurm is when the schedulers run of a Slurm of which nothing is said: backfill as Slurm ships, the main one at once.
var shippedSlurm = virtual.Own{Interval: slurmplug.BackfillInterval}

// ownPolicy is how this Slurm schedules, with --from-slurm, else how most Slurms do.
func ownPolicy(ctx context.Context, c *cli.Context) (own ownSlurm, err error) {
	own = ownSlurm{Order: "multifactor", Backfill: "easy", Own: shippedSlurm}
	if !c.Bool("from-slurm") {
		return own, nil
	}
	cfg, err := loadConfig(c)
	if err != nil {
		return own, err
	}
	conf, err := newClient(cfg).Config(ctx)
	if err == nil {
		own, err = ownOf(conf)
	}
	if err != nil {
		err = fmt.Errorf("read Slurm's configuration: %w", err)
	}
	return own, err
}

// ownOf is what slurm.conf says (PriorityType, PriorityWeight*, PriorityMaxAge,
// PriorityDecayHalfLife, PriorityCalcPeriod, PriorityFavorSmall, PriorityFlags, SchedulerType, bf_max_job_test, bf_interval, batch_sched_delay, PreemptType, PreemptMode) of what a trace has data for.
func ownOf(conf slurmplug.Config) (own ownSlurm, err error) {
	own = ownSlurm{Order: "multifactor", Backfill: string(virtual.Conservative), Own: virtual.Own{Depth: conf.BackfillDepth(), Interval: float64(conf.BackfillInterval()), Pause: float64(conf.SchedulerPause()), ByNode: conf.PlansByNode()}}
	if own.Interval == 0 {
		own.Backfill = "none"
	}
	if mode := strings.ToUpper(conf.Get("PreemptMode")); conf.Get("PreemptType") == "preempt/qos" && strings.Contains(mode, "REQUEUE") {
		own.Preemption = simulate.SlurmQOS
	}
	if conf.PriorityType() == "priority/basic" {
		own.Order = "fifo"
		return own, nil
	}
	weights, err := conf.Weights()
	if err != nil {
		return own, err
	}
	w := &own.Multifactor
	w.ByNodes, w.FairTree, w.FavorSmall = true, conf.FairTree(), strings.EqualFold(conf.Get("PriorityFavorSmall"), "yes")
	w.Age, w.JobSize, w.FairShare, w.Partition = weights["Age"], weights["JobSize"], weights["FairShare"], weights["Partition"]
	if w.Age+w.JobSize+w.FairShare+w.Partition == 0 {
		*w = virtual.FIFOWeights // equal priorities go by job id
	}
	for key, to := range map[string]*float64{"PriorityMaxAge": &w.MaxAge, "PriorityDecayHalfLife": &w.DecayHalfLife, "PriorityCalcPeriod": &w.CalcPeriod} {
		d, err := slurmplug.ParseTimeLimit(conf.Get(key))
		if err != nil {
			return own, fmt.Errorf("%s: %w", key, err)
		}
		*to = max(d.Seconds(), 0)
	}
	if conf.Get("PriorityDecayHalfLife") != "" && w.DecayHalfLife == 0 { // past use counts in full, for ever
		w.DecayHalfLife = math.MaxFloat64 // which JSON has
	}
	return own, nil
}

// show prints the comparison for people.
func (r *compared) show(w io.Writer) {
	header := []string{"FIGURE"}
	for i := range r.Runs {
		header = append(header, strings.ToUpper(r.Runs[i].title))
	}
	report.Table(w, header, figureRows(r.Runs))
	fmt.Fprintln(w)
	for _, words := range r.words() {
		fmt.Fprintln(w, words)
	}
	fmt.Fprintln(w)
	(&report.Page{Tables: r.owners()}).Show(w, 5)
}

// words say what differs, with its doubt, and how far to trust it.
func (r *compared) words() (words []string) {
	e, who := &r.Effect, "jobs"
	if r.CPUOnly != nil {
		who = "jobs with GPUs"
		words = append(words, fmt.Sprintf("Figures and tables are of the jobs with GPUs (%d); jobs without (%d) are counted apart.", e.Wait.Jobs, r.CPUOnly.Effect.Wait.Jobs))
	}
	words = append(words, e.words(who)...)
	if r.CPUOnly != nil {
		words = append(words, r.CPUOnly.Effect.words("jobs without GPUs")...)
	}
	if e.Completion.Interval != nil {
		words = append(words, "Intervals by batch means (Law, Simulation Modeling and Analysis): Student's t over batches of jobs in order of arrival, "+
			"of the differences job by job. They cover chance within these jobs; another month has other jobs.")
	}
	if r.Error == nil {
		return append(words, "Accuracy unknown: "+r.note+".")
	}
	wait := &r.Error.Wait
	words = append(words, fmt.Sprintf("Simulated Slurm against reality: mean wait %s; a job's wait is off by %s on average, and by %s or less for half of the jobs.",
		change(wait, "shorter", "longer"), report.Seconds(wait.MeanAbs), report.Seconds(wait.MedianAbs)))
	trust := fmt.Sprintf("priod changes the mean wait by %s; the simulation is off by %s", report.Seconds(math.Abs(e.Wait.Mean)), report.Seconds(math.Abs(wait.Mean)))
	if math.Abs(e.Wait.Mean) <= math.Abs(wait.Mean) {
		trust += ": too much to decide by that difference"
	}
	words = append(words, trust+".")
	if r.CPUOnly != nil {
		wait := &r.CPUOnly.Error.Wait
		words = append(words, fmt.Sprintf("Jobs without GPUs there: mean wait %s; a job's wait is off by %s on average.", change(wait, "shorter", "longer"), report.Seconds(wait.MeanAbs)))
	}
	return words
}

// words say a difference that priod makes.
func (e *differences) words(who string) []string {
	same := func(d *compare.Difference) int { return d.Jobs - d.Less - d.More }
	return []string{
		fmt.Sprintf("Mean completion of %s with priod: %s; %d sooner, %d later, %d the same.", who,
			change(&e.Completion, "sooner", "later"), e.Completion.Less, e.Completion.More, same(&e.Completion)),
		fmt.Sprintf("Mean wait: %s; %d wait less, %d more, %d the same.", change(&e.Wait, "shorter", "longer"), e.Wait.Less, e.Wait.More, same(&e.Wait)),
	}
}

// change says a mean difference with its interval; less and more are what a difference below
// and above 0 is called.
func change(d *compare.Difference, less, more string) string {
	if d.Less+d.More == 0 {
		return "neither " + less + " nor " + more
	}
	side := func(s float64) string {
		if s < 0 {
			return report.Seconds(-s) + " " + less
		}
		return report.Seconds(s) + " " + more
	}
	words := side(d.Mean)
	switch i := d.Interval; {
	case i == nil:
		return words + " (too few jobs for an interval)"
	case i.Low <= 0 && i.High >= 0:
		return fmt.Sprintf("%s (95 %% interval: %s to %s: may be chance)", words, side(i.Low), side(i.High))
	case i.High < 0:
		return fmt.Sprintf("%s (95 %% interval: %s to %s)", words, report.Seconds(-i.High), report.Seconds(-i.Low))
	default:
		return fmt.Sprintf("%s (95 %% interval: %s to %s)", words, report.Seconds(i.Low), report.Seconds(i.High))
	}
}

// owners are tables of users and accounts who gain and who lose, largest change first.
func (r *compared) owners() []report.PageTable {
	tables := r.effects.owners("")
	if r.CPUOnly != nil {
		tables = append(tables, r.CPUOnly.owners(", by jobs without GPUs")...)
	}
	return tables
}

func (e *effects) owners(whose string) (tables []report.PageTable) {
	for _, of := range []struct {
		one, many string
		groups    []compare.Group
	}{{"user", "Users", e.Users}, {"account", "Accounts", e.Accounts}} {
		if len(of.groups) == 1 && of.groups[0].Name == "" {
			continue // the trace names none
		}
		header := []string{of.one, "jobs", "mean JCT", "with priod", "change"}
		gain, lose := report.PageTable{Title: of.many + " who gain" + whose, Header: header}, report.PageTable{Title: of.many + " who lose" + whose, Header: header}
		for i := range of.groups {
			if g := &of.groups[i]; g.Change < 0 {
				gain.Rows = append(gain.Rows, []any{cmp.Or(g.Name, "none"), g.Jobs, report.Seconds(g.From), report.Seconds(g.To), report.Seconds(g.Change)})
			}
			if g := &of.groups[len(of.groups)-1-i]; g.Change > 0 {
				lose.Rows = append(lose.Rows, []any{cmp.Or(g.Name, "none"), g.Jobs, report.Seconds(g.From), report.Seconds(g.To), "+" + report.Seconds(g.Change)})
			}
		}
		for _, t := range []report.PageTable{gain, lose} {
			if len(t.Rows) > 0 {
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// page shows the comparison with its plots.
func (r *compared) page() *report.Page {
	p := &report.Page{Title: "priod simulate --compare"}
	header := []string{"figure"}
	for i := range r.Runs {
		run := &r.Runs[i]
		header = append(header, run.title)
		if run.Policy != "" {
			p.Words = append(p.Words, run.title+": "+run.Policy)
		}
	}
	p.Words = append(p.Words, r.words()...)
	p.Tables = []report.PageTable{{Title: "Figures", Header: header, Rows: figureRows(r.Runs)}}
	for _, t := range r.owners() {
		const most = 20
		if n := len(t.Rows); n > most {
			t.Title, t.Rows = fmt.Sprintf("%s: the first %d of %d", t.Title, most, n), t.Rows[:most]
		}
		p.Tables = append(p.Tables, t)
	}
	p.Plots = r.plots()
	return p
}

// plots have a curve for each run; those of jobs without GPUs are apart.
func (r *compared) plots() []report.Figure {
	const parts = 200
	until := 0.0
	for i := range r.Runs {
		if series := r.Runs[i].series; len(series) > 0 {
			until = max(until, series[len(series)-1].At)
		}
	}
	at := make([]float64, parts)
	for k := range at {
		at[k] = float64(k) * until / parts / 3600
	}
	mean := ", means of " + report.Seconds(until/parts)
	completion := report.Figure{Title: "Job completion time", XLabel: "hours", YLabel: "share of jobs", LogX: true, Beneath: true}
	wait := report.Figure{Title: "Wait, of jobs that waited", XLabel: "hours", YLabel: "share of all jobs", LogX: true, Beneath: true}
	gpus := report.Figure{Title: "GPUs in use" + mean, XLabel: "hours", YLabel: "GPUs", Steps: true, Beneath: true}
	queue := report.Figure{Title: "Queue" + mean, XLabel: "hours", YLabel: "jobs", Steps: true, Beneath: true}
	others, othersQueue := completion, queue
	others.Title, othersQueue.Title = "Job completion time, without GPUs", "Queue of jobs without GPUs"+mean
	waited := false
	for i := range r.Runs {
		run := &r.Runs[i]
		completion.Curves = append(completion.Curves, cdf(run.title, hours(run.completion)))
		others.Curves = append(others.Curves, cdf(run.title, hours(run.cpuOnly.completion)))
		wait.Curves = append(wait.Curves, cdf(run.title, hours(run.wait)))
		waited = waited || run.Figures.MaxWait > 0
		used, queued, otherQueued := compare.Means(run.series, until, parts)
		gpus.Curves = append(gpus.Curves, report.Curve{Name: run.title, X: at, Y: used})
		queue.Curves = append(queue.Curves, report.Curve{Name: run.title, X: at, Y: queued})
		othersQueue.Curves = append(othersQueue.Curves, report.Curve{Name: run.title, X: at, Y: otherQueued})
	}
	plots := []report.Figure{completion}
	if waited { // else there is nothing to draw
		plots = append(plots, wait)
	}
	if plots = append(plots, gpus, queue); r.CPUOnly != nil {
		plots = append(plots, others, othersQueue)
	}
	return plots
}

func hours(seconds []float64) []float64 {
	all := make([]float64, len(seconds))
	for i, s := range seconds {
		all[i] = s / 3600
	}
	return all
}
