package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/waits"
)

// Waiting says why GPU jobs waited within a time.
type Waiting struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	All   WaitsOf   `json:"all"`

	BySize      []WaitsOf `json:"by_size"` // of jobs, in GPUs
	ByUser      []WaitsOf `json:"by_user"`
	ByAccount   []WaitsOf `json:"by_account"`
	ByPartition []WaitsOf `json:"by_partition"`
	ByType      []WaitsOf `json:"by_gpu_type"`
	Whats       []What    `json:"whats"` // names of limits, what of the nodes is short

	Earlier int      `json:"started_earlier_than_first_come_first_served"`
	Passed  []Passed `json:"passed"` // jobs that others passed to their harm
}

// WaitsOf are the waits of jobs that have something in common.
type WaitsOf struct {
	Name    string                 `json:"name"`
	Jobs    int                    `json:"jobs"`
	Started int                    `json:"started"`
	Wait    float64                `json:"wait_s"`     // of all jobs
	GPUWait float64                `json:"gpu_wait_s"` // times their GPUs
	Causes  map[plan.Cause]float64 `json:"causes_gpu_wait_s"`
}

// Share is the part of the waiting for GPUs that a cause has.
func (w *WaitsOf) Share(c plan.Cause) float64 {
	if w.GPUWait == 0 {
		return 0
	}
	return w.Causes[c] / w.GPUWait
}

// What names more closely what jobs waited for.
type What struct {
	Cause   plan.Cause `json:"cause"`
	What    string     `json:"what"`
	Wait    float64    `json:"wait_s"`
	GPUWait float64    `json:"gpu_wait_s"`
}

// Passed is a job that started later than with first come, first served, because others
// that came later started before it.
type Passed struct {
	Job  cluster.JobID `json:"job"`
	User string        `json:"user"`
	Pool string        `json:"pool"`
	GPUs int           `json:"gpus"`
	Wait float64       `json:"wait_s"`
	Late float64       `json:"late_s"`
	By   int           `json:"passed_by"`
}

// sizeClasses are those of Philly, the last one open.
var sizeClasses = []struct {
	most int
	name string
}{{1, "1 GPU"}, {4, "2-4 GPUs"}, {8, "5-8 GPUs"}}

// SizeClass is the name of a job's size.
func SizeClass(gpus int) string {
	for _, c := range sizeClasses {
		if gpus <= c.most {
			return c.name
		}
	}
	return "more GPUs"
}

// OfWaiting sums up what the store has of waits within a time.
func OfWaiting(since, until time.Time, waited []store.Waited, waiters []store.Waiters, runs []store.WaitedRun) *Waiting {
	r := &Waiting{Since: since, Until: until, All: WaitsOf{Name: "all", Causes: map[plan.Cause]float64{}}, Whats: []What{}, Passed: []Passed{}}
	sets := []struct {
		to   *[]WaitsOf
		name func(w *store.Waiters) string
		by   map[string]*WaitsOf
	}{
		{&r.BySize, func(w *store.Waiters) string { return SizeClass(w.GPUs) }, map[string]*WaitsOf{}},
		{&r.ByUser, func(w *store.Waiters) string { return w.User }, map[string]*WaitsOf{}},
		{&r.ByAccount, func(w *store.Waiters) string { return w.Account }, map[string]*WaitsOf{}},
		{&r.ByPartition, func(w *store.Waiters) string { return cluster.PartitionSet(w.Partition) }, map[string]*WaitsOf{}},
		{&r.ByType, func(w *store.Waiters) string { return cmp.Or(w.GPUType, "any") }, map[string]*WaitsOf{}},
	}
	each := func(w *store.Waiters, add func(*WaitsOf)) {
		add(&r.All)
		for i := range sets {
			name := sets[i].name(w)
			add(groupOf(sets[i].by, name, WaitsOf{Name: name, Causes: map[plan.Cause]float64{}}))
		}
	}
	whats := map[What]*What{}
	for i := range waited {
		w := &waited[i]
		s := w.Wait.Seconds()
		each(&w.Waiters, func(of *WaitsOf) {
			of.Wait += s
			of.GPUWait += s * float64(w.GPUs)
			of.Causes[w.Cause] += s * float64(w.GPUs)
		})
		key := What{Cause: w.Cause, What: w.What}
		if w.What != "" && whats[key] == nil {
			whats[key] = &What{Cause: w.Cause, What: w.What}
		}
		if x := whats[key]; x != nil {
			x.Wait, x.GPUWait = x.Wait+s, x.GPUWait+s*float64(w.GPUs)
		}
	}
	for i := range waiters {
		w := &waiters[i]
		each(w, func(of *WaitsOf) { of.Jobs, of.Started = of.Jobs+w.Jobs, of.Started+w.Started })
	}
	for i := range sets {
		*sets[i].to = ranked(sets[i].by, func(w *WaitsOf) float64 { return w.GPUWait })
	}
	slices.SortFunc(r.BySize, func(a, b WaitsOf) int { return cmp.Compare(sizeRank(a.Name), sizeRank(b.Name)) })
	for _, w := range whats {
		r.Whats = append(r.Whats, *w)
	}
	slices.SortFunc(r.Whats, func(a, b What) int {
		return cmp.Or(cmp.Compare(b.GPUWait, a.GPUWait), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.What, b.What))
	})
	r.passed(runs)
	return r
}

func sizeRank(name string) int {
	for i, c := range sizeClasses {
		if c.name == name {
			return i
		}
	}
	return len(sizeClasses)
}

// passed names the jobs that others passed to their harm.
func (r *Waiting) passed(runs []store.WaitedRun) {
	all, gpus, of := make([]waits.Run, len(runs)), map[string]int{}, map[cluster.JobID]*store.WaitedRun{}
	for i := range runs {
		x := &runs[i]
		all[i], of[x.Job] = x.Run, x
		gpus[x.Pool] = max(gpus[x.Pool], x.PoolGPUs)
	}
	found, earlier := waits.FindPassed(all, gpus)
	r.Earlier = earlier
	for _, p := range found {
		x := of[p.Job]
		r.Passed = append(r.Passed, Passed{Job: p.Job, User: x.User, Pool: x.Pool, GPUs: x.GPUs, Wait: x.Start.Sub(x.Since).Seconds(), Late: p.Late.Seconds(), By: p.By})
	}
}

// Shown are the causes that jobs waited for, in the order of tables.
func (r *Waiting) Shown() (causes []plan.Cause) {
	for _, c := range plan.Causes {
		if r.All.Causes[c] > 0 {
			causes = append(causes, c)
		}
	}
	return causes
}

// Page shows the waits with plots.
func (r *Waiting) Page() *report.Page {
	p := &report.Page{Title: "Why GPU jobs waited", Words: []string{report.Between(r.Since, r.Until) + ". GPU-hours waited are the time that jobs waited, times the GPUs that they asked for."}}
	if r.All.Jobs == 0 {
		p.Words = []string{report.Between(r.Since, r.Until) + ".", "No GPU job waited."}
		return p
	}
	p.Tables = r.tables()
	bars := report.Figure{Title: "Waiting by cause", YLabel: "GPU-hours"}
	for _, c := range r.Shown() {
		bars.Bars = append(bars.Bars, report.Bar{Name: string(c), Value: r.All.Causes[c] / 3600})
	}
	p.Plot(bars)
	return p
}

func (r *Waiting) tables() []report.PageTable {
	causes := r.Shown()
	var tables []report.PageTable
	for _, set := range []struct {
		title string
		of    []WaitsOf
	}{{"SIZE", append(slices.Clone(r.BySize), r.All)}, {"USER", r.ByUser}, {"ACCOUNT", r.ByAccount}, {"PARTITION", r.ByPartition}, {"GPU TYPE", r.ByType}} {
		t := report.PageTable{Header: []string{set.title, "JOBS", "STARTED", "MEAN WAIT", "GPU-HOURS WAITED"}}
		for _, c := range causes {
			t.Header = append(t.Header, string(c)+" %")
		}
		for i := range set.of {
			of := &set.of[i]
			row := []any{cmp.Or(of.Name, "(none)"), of.Jobs, of.Started, report.Ago(time.Duration(of.Wait / float64(max(of.Jobs, 1)) * float64(time.Second))), tenths(of.GPUWait / 3600)}
			for _, c := range causes {
				row = append(row, tenths(100*of.Share(c)))
			}
			t.Rows = append(t.Rows, row)
		}
		tables = append(tables, t)
	}
	return append(tables,
		report.TableOf("What they waited for", []string{"CAUSE", "WHAT", "GPU-HOURS WAITED"}, r.Whats, func(w *What) []any { return []any{string(w.Cause), w.What, tenths(w.GPUWait / 3600)} }),
		report.TableOf("Overtaken, and later than first come, first served", []string{"JOB", "USER", "GPUS", "POOL", "WAITED", "LATER BY", "PASSED BY"}, r.Passed, func(x *Passed) []any {
			return []any{x.Job.String(), x.User, x.GPUs, x.Pool, report.Seconds(x.Wait), report.Seconds(x.Late), x.By}
		}))
}

var tenths = report.Fixed(1)

// ReadWaiting sums up the waits of a time; nothing was seen since the last cycle.
func ReadWaiting(ctx context.Context, r *store.Reader, since, until time.Time) (*Waiting, error) {
	last, err := r.LastCycle(ctx)
	if err != nil {
		return nil, err
	}
	seen := until
	if last.Until.Before(seen) {
		seen = cluster.Later(since, last.Until)
	}
	waited, waiters, err := r.WaitsSince(ctx, since, seen)
	if err != nil {
		return nil, err
	}
	runs, err := r.RunsSince(ctx, since)
	return OfWaiting(since, until, waited, waiters, runs), err
}
