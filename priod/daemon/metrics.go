package daemon

import (
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/live"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/steer"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// metrics are what Prometheus reads. Every label has a fixed set of values,
// all of them there from the start: text of users never becomes one, and a
// rate is right from the first event on.
type metrics struct {
	registry      *prometheus.Registry
	evictions     *prometheus.CounterVec
	yields        *prometheus.CounterVec
	vacated       *prometheus.CounterVec
	windows       *prometheus.GaugeVec
	stages        *prometheus.HistogramVec
	waits         *prometheus.HistogramVec
	seen          time.Time // when the last cycle looked
	cycles        *prometheus.CounterVec
	reloads       *prometheus.CounterVec
	accounting    *prometheus.CounterVec
	writes        *prometheus.CounterVec
	renumbered    prometheus.Counter
	steered       prometheus.Gauge
	gpus, waiting *prometheus.GaugeVec
	headroom      prometheus.Gauge
	jobs          *prometheus.GaugeVec
	expected      prometheus.Gauge
	kept          prometheus.Gauge
	decisions     *prometheus.GaugeVec
	unwritten     *prometheus.GaugeVec
	paused        prometheus.Gauge
	steps         prometheus.Counter
	losses        prometheus.Counter
	early         prometheus.Counter
	standby       prometheus.Gauge
	findings      *prometheus.GaugeVec
	rival         prometheus.Gauge
	trouble       *troubleMetrics
	sharing       *shareMetrics
	idling        *idleMetrics
}

// Values of the label "result".
const (
	resultOK     = "ok"
	resultFailed = "failed"
)

var (
	stages   = []string{"observe", "decide", "record", "act", "evict"}
	states   = []cluster.State{cluster.Pending, cluster.Running, cluster.Suspended, cluster.Completing, cluster.Other, cluster.Unread}
	classes  = []cluster.Class{cluster.TE, cluster.BE}
	statuses = []slurmplug.Status{slurmplug.Applied, slurmplug.Raced, slurmplug.Refused, slurmplug.Unknown, slurmplug.Postponed}
)

// Why a job does not hold the value that priod wants, beside the statuses of
// a write that was tried.
const (
	driftPaused = "paused"
	driftOther  = "other"
)

// drifts are the words for decide's reasons.
var drifts = map[string]string{
	order.ForeignValue: "foreign-value",
	order.KeepsGoing:   "taken-back",
	order.WriteLimit:   "write-limit",
}

func newMetrics(version string, h *health, dir string) *metrics {
	r := prometheus.NewRegistry()
	f := factory{promauto.With(r)}
	m := &metrics{
		registry: r,
		stages: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "priod_cycle_stage_duration_seconds", Help: "Time that one cycle spent in a stage.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 16), // 5 ms to 164 s
		}, []string{"stage"}),
		waits: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "priod_wait_seconds", Help: "Waits of jobs that were seen to start, from their submission or requeue on.",
			Buckets: []float64{10, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600},
		}, []string{"partition", "class"}),
		cycles:     f.counters("priod_cycles_total", "Cycles by result.", "result", resultOK, resultFailed),
		reloads:    f.counters("priod_reloads_total", "Reloads of the configuration by result.", "result", resultOK, resultFailed),
		accounting: f.counters("priod_accounting_reads_total", "Reads of Slurm's accounting by result.", "result", resultOK, resultFailed),
		evictions:  f.counters("priod_evictions_total", "Evictions for TE jobs by the state that they reached.", "state", words(evict.States)...),
		yields:     f.counters("priod_round_evictions_total", "Evictions at the end of rounds by the state that they reached.", "state", words(evict.States)...),
		vacated:    f.counters("priod_window_evictions_total", "Evictions before windows of maintenance by the state that they reached.", "state", words(evict.States)...),
		windows:    f.gauges("priod_window_jobs", "Jobs that have a time limit by priod: those that run until a window (until), and those that have none ahead and not their own limit again (late).", "state"),
		writes:     f.counters("priod_writes_total", "Writes by outcome.", "status", words(statuses)...),
		renumbered: f.counter("priod_renumbered_writes_total", "Writes beyond the fewest possible, because a gap between values was used up."),
		jobs:       f.NewGaugeVec(prometheus.GaugeOpts{Name: "priod_jobs", Help: "Job records in the last read (an unsplit array is one) by the class that they count as and by state."}, []string{"class", "state"}),
		decisions:  f.gauges("priod_decisions", "Pending job records by the reason for their place in the order.", "reason"),
		unwritten:  f.gauges("priod_unwritten_jobs", "Jobs that do not hold the value that the last cycle wanted, by reason.", "reason"),
		steered:    f.gauge("priod_steered_jobs", "Pending job records whose constraint holds a GPU type that priod wrote."),
		headroom:   f.gauge("priod_headroom_gpus", "GPUs of the nodes that are kept for TE jobs."),
		gpus:       f.NewGaugeVec(prometheus.GaugeOpts{Name: "priod_gpus", Help: "GPUs by type and by whether jobs hold them; stranded ones are free on a node in service where no job can start, down ones on a node that is down, drained or reserved."}, []string{"type", "state"}),
		waiting:    f.gauges("priod_waiting_gpus", "GPUs that waiting jobs ask for, by cause of the wait.", "cause"),
		expected:   f.gauge("priod_expected_wait_seconds", "Mean expected wait from now on of the waiting GPU jobs whose start is expected from past runs."),
		kept:       f.gauge("priod_expected_starts_held_ratio", "Fraction of the jobs of 30 days that started by their first estimate for nine of ten; NaN without any."),
		steps:      f.counter("priod_clock_steps_total", "Times that the system clock was set by a minute or more."),
		losses:     f.counter("priod_state_losses_total", "Files of the state folder that were lost or damaged, and rebuilt."),
		early:      f.counter("priod_early_polls_total", "Polls that came before their interval because of a TE submission."),
		paused:     f.gauge("priod_paused", "1 while priod is paused and writes nothing."),
		standby:    f.gauge("priod_standby", "1 while the active slurmctld, and so the active priod, is on another host."),
		findings:   f.gauges("priod_check_findings", "What the last check of Slurm and of the configuration found, by level.", "level"),
		rival:      f.gauge("priod_rival", "1 while another priod writes to the same cluster."),
	}
	m.kept.Set(math.NaN())
	m.trouble = newTroubleMetrics(f)
	m.sharing = newShareMetrics(f)
	m.idling = newIdleMetrics(f)
	m.checked(&store.Findings{})
	for _, s := range stages {
		m.stages.WithLabelValues(s)
	}
	f.NewGaugeVec(prometheus.GaugeOpts{Name: "priod_build_info", Help: "1, with what priod was built from."}, []string{"version", "goversion"}).WithLabelValues(version, runtime.Version()).Set(1)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "priod_read_age_seconds", Help: "Time since the last read of Slurm that could be trusted, in stand-by since the last look at who acts; since the start when there was none.",
	}, func() float64 { return h.state().ReadAge })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "priod_healthy", Help: "1 while /health answers 200.",
	}, func() float64 {
		if h.state().Healthy {
			return 1
		}
		return 0
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "priod_completion_saved_ratio", Help: "Part of the mean completion time that priod saved in the time that priod report value last replayed; NaN before the first.",
	}, func() float64 {
		if v, err := store.ReadValue(dir); err == nil && v != nil {
			return v.Completion.Saved()
		}
		return math.NaN()
	})
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.queue(&cycle.Result{}, cluster.NewHistory())
	return m
}

// factory makes metrics; values of a label are there from the start.
type factory struct{ promauto.Factory }

func (f factory) counters(name, help, label string, values ...string) *prometheus.CounterVec {
	v := f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		v.WithLabelValues(value)
	}
	return v
}

func (f factory) gauges(name, help, label string, values ...string) *prometheus.GaugeVec {
	v := f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		v.WithLabelValues(value)
	}
	return v
}

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func words[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// levels are those of findings.
var levels = []live.Level{live.Pass, live.Warn, live.Fail}

// checked takes in what a check found.
func (m *metrics) checked(f *store.Findings) {
	for _, l := range levels {
		m.findings.WithLabelValues(strings.ToLower(string(l))).Set(float64(f.Count(string(l))))
	}
}

// staged takes in how long a cycle spent in each stage that it reached.
func (m *metrics) staged(took map[string]time.Duration) {
	for stage, d := range took {
		m.stages.WithLabelValues(stage).Observe(d.Seconds())
	}
}

// promised takes in which part of promises held.
func (m *metrics) promised(promises []store.Promise, now time.Time) {
	held, scored := 0.0, 0.0
	for i := range promises {
		kept, known := promises[i].Held(now)
		if known {
			scored++
		}
		if kept {
			held++
		}
	}
	m.kept.Set(held / scored) // NaN without any
}

// sampled takes in the nodes and why jobs wait.
func (m *metrics) sampled(nodes []cluster.Node, causes map[plan.Cause]int) {
	m.gpus.Reset()
	for i := range nodes {
		n := &nodes[i]
		used, free, stranded := min(n.GPUsUsed, n.GPUs), max(n.GPUs-n.GPUsUsed, 0), 0
		down := 0
		switch {
		case !n.Usable:
			free, down = 0, free
		case n.Stranded() != "":
			free, stranded = 0, free
		}
		for state, gpus := range map[string]int{"in_use": used, "free": free, "stranded": stranded, "down": down} {
			if n.GPUs > 0 {
				m.gpus.WithLabelValues(n.GPUType, state).Add(float64(gpus))
			}
		}
	}
	for _, c := range plan.Causes {
		m.waiting.WithLabelValues(string(c)).Set(float64(causes[c]))
	}
}

// starting takes in when waiting jobs are expected to start.
func (m *metrics) starting(starts map[cluster.JobID]store.ExpectedStart, now time.Time) {
	sum, n := 0.0, 0.0
	for _, s := range starts {
		if !s.Median.IsZero() {
			sum, n = sum+max(s.Median.Sub(now).Seconds(), 0), n+1
		}
	}
	m.expected.Set(sum / max(n, 1))
}

// count takes in whether something succeeded.
func count(v *prometheus.CounterVec, err error) {
	if err != nil {
		v.WithLabelValues(resultFailed).Inc()
		return
	}
	v.WithLabelValues(resultOK).Inc()
}

// cycle takes in what one cycle did. Writes count even when their outcome
// could not be recorded; a failed cycle says nothing about the queue.
func (m *metrics) cycle(r *cycle.Result, h *cluster.History, err error) {
	count(m.cycles, err)
	for i := range r.Outcomes {
		m.writes.WithLabelValues(string(r.Outcomes[i].Status)).Inc()
	}
	if r.Outcomes != nil {
		m.renumbered.Add(float64(r.Plan.Renumbered))
	}
	if err == nil {
		m.queue(r, h)
	}
}

// queue sets every gauge that describes the queue.
func (m *metrics) queue(r *cycle.Result, h *cluster.History) {
	type kind struct {
		class cluster.Class
		state cluster.State
	}
	jobs, reasons := map[kind]int{}, map[string]int{}
	steered, last := 0, m.seen
	for i := range r.Snapshot.Jobs {
		j := &r.Snapshot.Jobs[i]
		if j.State == cluster.Running && !last.IsZero() && j.Start.After(last) && !j.Start.After(r.Snapshot.At) {
			m.waits.WithLabelValues(j.Partition, h.ClassOf(j).String()).Observe(max(0, j.Start.Sub(j.Submit).Seconds()))
		}
		jobs[kind{h.ClassOf(j), j.State}]++
		if j.State == cluster.Pending && steer.Bound(j, h) {
			steered++
		}
	}
	m.seen = r.Snapshot.At
	m.steered.Set(float64(steered))
	gpus := 0
	for i := range r.Snapshot.Nodes {
		if n := &r.Snapshot.Nodes[i]; n.Headroom() {
			gpus += n.GPUs
		}
	}
	m.headroom.Set(float64(gpus))
	m.windows.WithLabelValues("until").Set(float64(r.Plan.UntilWindow))
	m.windows.WithLabelValues("late").Set(float64(r.Plan.LateLimits))
	for _, c := range classes {
		for _, s := range states {
			m.jobs.WithLabelValues(c.String(), s.String()).Set(float64(jobs[kind{c, s}]))
		}
	}
	for i := range r.Plan.Decisions {
		reasons[r.Plan.Decisions[i].Why]++
	}
	for _, why := range plan.Reasons {
		m.decisions.WithLabelValues(string(why)).Set(float64(reasons[string(why)]))
	}
	unwritten := drift(r)
	for _, reason := range driftReasons() {
		m.unwritten.WithLabelValues(reason).Set(float64(unwritten[reason]))
	}
}

// driftReasons are all values of the reason that drift gives.
func driftReasons() []string {
	reasons := slices.AppendSeq([]string{driftPaused, driftOther}, maps.Values(drifts))
	for _, s := range statuses {
		if missed(s) {
			reasons = append(reasons, string(s))
		}
	}
	return reasons
}

// missed reports whether a write left its job with another value than wanted; a
// job that left meanwhile wants none.
func missed(s slurmplug.Status) bool { return s != slurmplug.Applied && s != slurmplug.Raced }

// drift counts the jobs that do not hold the value that the cycle wanted, each
// once, by reason.
func drift(r *cycle.Result) map[string]int {
	reasons := map[cluster.JobID]string{}
	for i := range r.Plan.Decisions {
		d := &r.Plan.Decisions[i]
		if d.Unmoved == "" {
			continue
		}
		word, known := drifts[d.Unmoved]
		if !known {
			word = driftOther
		}
		reasons[d.Job] = word
	}
	missing := func(a *plan.Action, why string) {
		if _, known := reasons[a.Job]; !known {
			reasons[a.Job] = why
		}
	}
	if r.Hold != "" {
		for i := range r.Plan.Actions {
			missing(&r.Plan.Actions[i], driftPaused)
		}
	}
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; missed(o.Status) {
			missing(&o.Action, string(o.Status))
		}
	}
	counts := map[string]int{}
	for _, why := range reasons {
		counts[why]++
	}
	return counts
}
