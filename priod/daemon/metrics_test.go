package daemon

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/tests/alerts"
)

// turn runs one cycle as Run does.
func turn(t *testing.T, d *Daemon) {
	t.Helper()
	if d.history == nil {
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r, _, err := d.step(t.Context())
	d.report(&r, err)
}

// has compares some series of the daemon with a text in Prometheus's format.
func has(t *testing.T, d *Daemon, want string) {
	t.Helper()
	got := map[string]bool{}
	for _, f := range families(t, d) {
		for _, m := range f.GetMetric() {
			line := f.GetName() + "{"
			for _, l := range m.GetLabel() {
				line += l.GetName() + "=" + l.GetValue() + ","
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			text, _ := json.Marshal(value)
			got[strings.TrimSuffix(line, ",")+"} "+string(text)] = true
		}
	}
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" && !got[line] {
			t.Errorf("no %s in %v", line, slices.Sorted(keysOf(got, line)))
		}
	}
}

// keysOf yields the series of the metric that a line names.
func keysOf(got map[string]bool, line string) func(func(string) bool) {
	name, _, _ := strings.Cut(line, "{")
	return func(yield func(string) bool) {
		for k := range got {
			if strings.HasPrefix(k, name+"{") && !yield(k) {
				return
			}
		}
	}
}

func families(t *testing.T, d *Daemon) []*dto.MetricFamily {
	t.Helper()
	all, err := d.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestMetricsOfACycle(t *testing.T) {
	training := cluster.Job{ID: slurmplug.Plain(2), TaskCount: 1, User: "bob", Partition: "gpu", State: cluster.Running}
	f := &fake{jobs: []cluster.Job{trialJob(), training}}
	d, _ := newDaemon(t, f)
	turn(t, d)
	has(t, d, `
		priod_cycles_total{result=ok} 1
		priod_cycles_total{result=failed} 0
		priod_cycle_stage_duration_seconds{stage=observe} 1
		priod_cycle_stage_duration_seconds{stage=decide} 1
		priod_cycle_stage_duration_seconds{stage=record} 1
		priod_cycle_stage_duration_seconds{stage=act} 1
		priod_jobs{class=te,state=pending} 1
		priod_jobs{class=be,state=running} 1
		priod_jobs{class=be,state=pending} 0
		priod_decisions{reason=te} 1
		priod_decisions{reason=over-budget} 0
		priod_writes_total{status=applied} 1
		priod_writes_total{status=refused} 0
		priod_unwritten_jobs{reason=foreign-value} 0
		priod_accounting_reads_total{result=ok} 1
		priod_paused{} 0`)

	// A failed read leaves what is known of the queue.
	f.err = errors.New("slurmctld is away")
	turn(t, d)
	has(t, d, `
		priod_cycles_total{result=ok} 1
		priod_cycles_total{result=failed} 1
		priod_cycle_stage_duration_seconds{stage=observe} 2
		priod_cycle_stage_duration_seconds{stage=decide} 1
		priod_jobs{class=te,state=pending} 1`)

	// The queue empties; nothing of it stays.
	f.err, f.jobs = nil, nil
	turn(t, d)
	has(t, d, `
		priod_jobs{class=te,state=pending} 0
		priod_jobs{class=be,state=running} 0
		priod_decisions{reason=te} 0`)
}

func startedNow() cluster.Job {
	now := time.Now()
	return cluster.Job{ID: slurmplug.Plain(3), TaskCount: 1, User: "bob", Partition: "gpu", State: cluster.Running, Submit: now.Add(-40 * time.Second), Start: now}
}

// A job counts once, in the cycle after its start, and not when it ran before priod looked.
func TestWaitsOfStartedJobs(t *testing.T) {
	early := startedNow()
	early.ID = slurmplug.Plain(2)
	f := &fake{jobs: []cluster.Job{early}}
	d, _ := newDaemon(t, f)
	turn(t, d)
	f.jobs = append(f.jobs, startedNow(), trialJob())
	turn(t, d)
	turn(t, d)
	for _, family := range families(t, d) {
		if family.GetName() != "priod_wait_seconds" {
			continue
		}
		if len(family.GetMetric()) != 1 {
			t.Fatalf("%v", family)
		}
		h := family.GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 1 || h.GetSampleSum() != 40 {
			t.Errorf("%v", h)
		}
		return
	}
	t.Error("no waits")
}

func TestPauseShowsInMetrics(t *testing.T) {
	f := &fake{jobs: []cluster.Job{trialJob()}, hold: "paused by ann"}
	d, _ := newDaemon(t, f)
	turn(t, d)
	has(t, d, `
		priod_paused{} 1
		priod_unwritten_jobs{reason=paused} 1
		priod_writes_total{status=applied} 0`)
	f.hold = ""
	turn(t, d)
	has(t, d, `
		priod_paused{} 0
		priod_unwritten_jobs{reason=paused} 0
		priod_writes_total{status=applied} 1`)
}

func TestBudgetRefusalsShowInMetrics(t *testing.T) {
	big := trialJob()
	big.TimeLimit = 6 * time.Hour
	d, _ := newDaemon(t, &fake{jobs: []cluster.Job{big}})
	turn(t, d)
	has(t, d, `
		priod_decisions{reason=over-budget} 1
		priod_jobs{class=be,state=pending} 1`)
}

// Each job drifts once, for the reason that comes first.
func TestDrift(t *testing.T) {
	job := slurmplug.Plain
	write := func(id uint32, s slurmplug.Status) plan.Outcome {
		return plan.Outcome{Action: plan.Action{Job: job(id)}, Status: s}
	}
	r := &cycle.Result{
		Plan: plan.Plan{Decisions: []plan.Decision{
			{Job: job(1)},
			{Job: job(2), Unmoved: order.ForeignValue},
			{Job: job(3), Unmoved: order.KeepsGoing},
			{Job: job(4), Unmoved: order.WriteLimit},
			{Job: job(6), Unmoved: "a task list that does not parse"},
		}},
		Outcomes: []plan.Outcome{
			write(1, slurmplug.Applied), write(7, slurmplug.Raced), write(8, slurmplug.Postponed),
			write(8, slurmplug.Postponed), write(9, slurmplug.Unknown), write(10, slurmplug.Refused), write(10, slurmplug.Refused),
		},
	}
	want := map[string]int{
		"foreign-value": 1, "taken-back": 1, "write-limit": 1, "other": 1, "postponed": 1, "unknown": 1, "refused": 1,
	}
	got := drift(r)
	for reason, n := range want {
		if got[reason] != n {
			t.Errorf("%s: %d jobs, want %d", reason, got[reason], n)
		}
	}
	for reason := range got {
		if want[reason] == 0 || !slices.Contains(driftReasons(), reason) {
			t.Errorf("unexpected reason %s", reason)
		}
	}
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	r.Plan.Renumbered = 3
	d.metrics.cycle(r, d.history, errors.New("the outcomes cannot be recorded"))
	has(t, d, `
		priod_renumbered_writes_total{} 3
		priod_writes_total{status=postponed} 2
		priod_writes_total{status=refused} 2`)
}

func TestReloadsAreCounted(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	d.Reload = func() (*config.Config, error) { return nil, errors.New("unknown key") }
	d.reload()
	d.Reload = func() (*config.Config, error) { return d.Config, nil }
	d.reload()
	d.reload()
	has(t, d, `
		priod_reloads_total{result=failed} 1
		priod_reloads_total{result=ok} 2`)
}

// Names, units and help texts as Prometheus wants them.
func TestMetricNames(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	problems, err := testutil.GatherAndLint(d.metrics.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// What users name their jobs and themselves reaches no label.
func TestNoUserTextInMetrics(t *testing.T) {
	const evil = "evil\"} 1\n"
	j := trialJob()
	j.User, j.Account, j.QOS, j.Reason, j.TagErr = evil, evil, evil, evil, evil
	d, _ := newDaemon(t, &fake{jobs: []cluster.Job{j}})
	turn(t, d)
	has(t, d, "priod_decisions{reason=bad-tag} 1")
	for _, f := range families(t, d) {
		if strings.Contains(f.String(), "evil") {
			t.Error(f)
		}
	}
}

// catalogue knows each metric's type, labels and their values.
type catalogue map[string]map[string][]string

var (
	selector = regexp.MustCompile(`\b((?:priod|process|go)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without|ignoring|on) ?\(([^)]*)\)`)
)

func catalogueOf(t *testing.T, d *Daemon) catalogue {
	c := catalogue{}
	for _, f := range families(t, d) {
		labels := map[string][]string{"instance": nil, "job": nil} // Prometheus's own
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		names := []string{f.GetName()}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			labels["le"] = nil
			names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
		}
		for _, n := range names {
			c[n] = labels
		}
	}
	return c
}

// check finds what an expression names and the registry does not hold. It
// returns the metrics that the expression uses.
func (c catalogue) check(expr string) (used, problems []string) {
	known := map[string]bool{}
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		labels, ok := c[s[1]]
		if !ok {
			problems = append(problems, "no metric "+s[1])
			continue
		}
		used = append(used, s[1])
		for l := range labels {
			known[l] = true
		}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			values, ok := labels[m[1]]
			switch {
			case !ok:
				problems = append(problems, s[1]+" has no label "+m[1])
			case values != nil && !slices.ContainsFunc(strings.Split(m[3], "|"), func(v string) bool { return slices.Contains(values, v) }),
				values != nil && slices.ContainsFunc(strings.Split(m[3], "|"), func(v string) bool { return !slices.Contains(values, v) }):
				problems = append(problems, s[1]+" has no "+m[1]+" "+m[3])
			}
		}
	}
	if len(used) == 0 {
		problems = append(problems, "names no metric")
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if l = strings.TrimSpace(l); l != "" && !known[l] {
				problems = append(problems, "no label "+l)
			}
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") {
		problems = append(problems, "brackets")
	}
	return used, problems
}

func opened(t *testing.T) (*Daemon, catalogue) {
	t.Helper()
	f := &fake{}
	d, _ := newDaemon(t, f)
	turn(t, d)
	f.jobs = []cluster.Job{startedNow()} // waits have no labels before a job starts
	turn(t, d)
	d.metrics.trouble.disk(t.TempDir(), t.TempDir())
	d.metrics.sampled([]cluster.Node{{GPUType: "a100", GPUs: 4, Usable: true}}, nil)
	d.metrics.waits.WithLabelValues("gpu", cluster.TE.String()).Observe(1)
	for _, gpus := range []string{"entitled", "used", "borrowed", "lent"} { // nor shares without a table
		d.metrics.sharing.gpus.WithLabelValues("vision", gpus).Set(1)
	}
	d.metrics.sharing.returns.WithLabelValues("vision", returnInTime).Inc()
	d.metrics.sharing.returns.WithLabelValues("vision", returnLate).Inc()
	d.metrics.sharing.returned.WithLabelValues("vision").Observe(1)
	return d, catalogueOf(t, d)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCatalogueFindsMistakes(t *testing.T) {
	_, c := opened(t)
	for expr, want := range map[string]string{
		`priod_cycle_total > 0`:                              "no metric priod_cycle_total",
		`priod_cycles_total{outcome="ok"}`:                   "no label outcome",
		`priod_cycles_total{result="fail"}`:                  "has no result fail",
		`priod_writes_total{status=~"refused|unknwon"}`:      "has no status",
		`priod_cycle_stage_duration_seconds{stage="act"}`:    "no metric",
		`sum by (instanc) (priod_paused)`:                    "no label instanc",
		`rate(priod_cycles_total[5m]`:                        "brackets",
		`up == 0`:                                            "names no metric",
		`priod_unwritten_jobs{instance=~"x",reason="drift"}`: "has no reason drift",
	} {
		if _, problems := c.check(expr); !strings.Contains(strings.Join(problems, "; "), want) {
			t.Errorf("%s: %v, want %q", expr, problems, want)
		}
	}
}

func TestAlertRulesNameWhatExists(t *testing.T) {
	_, c := opened(t)
	for _, r := range alerts.Rules(t) {
		_, problems := c.check(r.Expr)
		for _, p := range problems {
			t.Errorf("%s: %s", r.Alert, p)
		}
	}
}

func TestBoardShowsEveryMetric(t *testing.T) {
	d, c := opened(t)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "../../etc/grafana/priod.json"), &board); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			used, problems := c.check(target.Expr)
			for _, problem := range problems {
				t.Errorf("%s: %s", p.Title, problem)
			}
			for _, name := range used {
				shown[strings.TrimSuffix(name, "_bucket")] = true
			}
		}
	}
	for _, f := range families(t, d) {
		if strings.HasPrefix(f.GetName(), "priod_") && !shown[f.GetName()] {
			t.Errorf("%s stands on no panel", f.GetName())
		}
	}
}

// The table in docs/reference/metrics.md holds every metric with its labels, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	d, _ := opened(t)
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(priod_\\w+)` \\| (.*?) ?\\|").FindAllStringSubmatch(string(read(t, "../../docs/reference/metrics.md")), -1) {
		rows[m[1]] = m[2]
	}
	for _, f := range families(t, d) {
		if !strings.HasPrefix(f.GetName(), "priod_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		row, ok := rows[f.GetName()]
		if !ok {
			t.Errorf("%s is not in the table", f.GetName())
		}
		documented := strings.Split(row, ", ")
		slices.Sort(documented)
		if got := strings.Join(documented, ", "); got != strings.Join(labels, ", ") {
			t.Errorf("%s has the labels %v and the table says %q", f.GetName(), labels, got)
		}
		delete(rows, f.GetName())
	}
	for name := range rows {
		t.Errorf("%s does not exist", name)
	}
}
