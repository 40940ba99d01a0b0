package view

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// MostExpected is how many waiting jobs of a user are told when they start.
const MostExpected = 100

// Expectation is when one job is expected to start. Times are s from now.
type Expectation struct {
	Job          *cluster.JobID `json:"job,omitempty"`
	Script       string         `json:"script,omitempty"`
	User         string         `json:"user,omitempty"`
	Partition    string         `json:"partition,omitempty"`
	GPUs         int            `json:"gpus"`
	GPUType      string         `json:"gpu_type,omitempty"`
	Why          string         `json:"why,omitempty"` // it waits
	StartS       *int64         `json:"start_s"`       // null: not known
	P90S         *int64         `json:"start_p90_s"`
	LimitsS      *int64         `json:"start_by_limits_s"` // by time limits alone
	Moved        string         `json:"moved,omitempty"`   // what was said of it before
	Window       string         `json:"window,omitempty"`  // until which window of maintenance it runs
	Slurm        string         `json:"slurm,omitempty"`   // what Slurm itself expects
	Alternatives []Alternative  `json:"alternatives"`

	Types  []advise.Expected `json:"types,omitempty"` // of a script, on each GPU type
	Advice *Advice           `json:"advice,omitempty"`

	unplanned bool // it waits for room, and no time is stored
}

// Advice is one job's advice, as it is shown.
type Advice struct {
	Script  string `json:"script"` // "" for standard input and --wrap
	Tag     string `json:"tag,omitempty"`
	GPUs    int    `json:"gpus"`
	GPUType string `json:"gpu_type,omitempty"` // that the job names
	CPUs    int    `json:"cpus"`
	LimitS  *int64 `json:"time_limit_s"` // null: none
	*advise.Advice
	BestType string   `json:"best,omitempty"` // GPU type; "" when the job fits nowhere
	OpenOn   []string `json:"left_open,omitempty"`
	Submit   []string `json:"submit,omitempty"` // words of the command that gets the best type
	Steered  bool     `json:"steered"`          // left open, the type is the site's choice: priod steers the job
	Barred   string   `json:"barred,omitempty"` // why priod, which steers the job, does not steer it to the best type
	Say      string   `json:"say,omitempty"`    // the option that would let priod steer it
	Stdin    bool     `json:"-"`                // the script comes from standard input
}

// Alternative is what is expected of a job that asked for something else. The first of several is the job as it is. Times are s
// from now; null: not known.
type Alternative struct {
	Change  string `json:"change"` // "": none
	Try     string `json:"try,omitempty"`
	StartS  *int64 `json:"start_s"`
	P90S    *int64 `json:"start_p90_s"`
	EndS    *int64 `json:"end_s"`
	LimitsS *int64 `json:"start_by_limits_s,omitempty"` // where too few past jobs are known: by time limits alone
	Sooner  bool   `json:"sooner"`                      // it starts sooner than the job as it is, by more than a minute and a tenth
}

// In is a time from now in words; "": not known.
func (Alternative) In(s *int64) string {
	if s == nil {
		return ""
	}
	return report.Ago(time.Duration(*s) * time.Second)
}

// Expectations are jobs by their names, or all that wait of a user; private: of the user alone. f is nil where no alternatives are wanted.
func Expectations(ctx context.Context, cfg *config.Config, r *store.Reader, f *Forecaster, names []string, username string, private bool) ([]*Expectation, error) {
	if len(names) == 0 {
		page, _, err := r.Pending(ctx, username, 0, MostExpected)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if j := &page[i].Job; j.GPUs > 0 {
				names = append(names, j.ID.String())
			}
		}
	}
	if !private {
		username = ""
	}
	views := make([]*Expectation, 0, len(names))
	for _, name := range names {
		x, err := storedOf(ctx, cfg, r, name, username)
		if err != nil {
			return nil, err
		}
		v := x.eta()
		if when := x.when(); f != nil && x.waits() && !when.Now && when.Room.IsZero() { // else it is about to start
			if err := f.alternatives(ctx, r, x, v); err != nil {
				return nil, err
			}
		}
		views = append(views, v)
	}
	sortByStart(views)
	return views, nil
}

// sortByStart orders jobs by their expected starts; those by time limits alone follow, and those without a time.
func sortByStart(views []*Expectation) {
	at := func(s *int64) int64 {
		if s == nil {
			return math.MaxInt64
		}
		return *s
	}
	slices.SortStableFunc(views, func(a, b *Expectation) int {
		return cmp.Or(cmp.Compare(at(a.StartS), at(b.StartS)), cmp.Compare(at(a.LimitsS), at(b.LimitsS)))
	})
}

// Unplanned reports whether some job waits for room, and the daemon's last plan had no time for it.
func Unplanned(views []*Expectation) bool {
	return slices.ContainsFunc(views, func(v *Expectation) bool { return v.unplanned })
}

// Plan fills in when the jobs would start that the daemon's last plan had no time for: it came before them, or is yet to come.
func (f *Forecaster) Plan(views []*Expectation) {
	queue := f.site.Queue()
	limits := queue.Starts()
	var expected map[cluster.JobID]forecast.ETA
	if f.forecast != nil {
		expected = queue.Expect(f.forecast.Runs, f.forecast.Draws)
	}
	for _, v := range views {
		at, known := limits[*v.Job]
		if !v.unplanned || !known {
			continue
		}
		v.LimitsS = SecondsOf(advise.Seconds(at))
		if e, known := expected[*v.Job]; known {
			v.StartS, v.P90S = SecondsOf(advise.Seconds(e.Median)), SecondsOf(advise.Seconds(max(e.P90*f.forecast.Fit, e.Median)))
		}
	}
	sortByStart(views)
}

// eta is what the daemon expects of a job.
func (v *Explanation) eta() *Expectation {
	id := v.Job.ID
	e := &Expectation{Job: &id, User: v.Job.User, Partition: v.Job.Partition, GPUs: v.Job.GPUs, GPUType: v.Job.GPUType, Alternatives: []Alternative{}}
	e.Why, _ = v.answer()
	e.Window = v.untilWindow()
	from := func(at time.Time) *int64 {
		if at.IsZero() {
			return nil
		}
		s := max(int64(time.Until(at).Round(time.Second)/time.Second), 0)
		return &s
	}
	if !v.waits() {
		return e
	}
	when := v.when()
	median, p90, limits := when.Times()
	e.StartS, e.P90S, e.LimitsS = from(median), from(p90), from(limits)
	if e.unplanned = !when.Known(); e.LimitsS != nil {
		e.Moved = Moved(v.Start)
	}
	return e
}

// alternatives fills in what would come of a job that asked for something else.
func (f *Forecaster) alternatives(ctx context.Context, r *store.Reader, x *Explanation, v *Expectation) error {
	jobs := f.site.Snapshot.Jobs
	at := slices.IndexFunc(jobs, func(j cluster.Job) bool { return j.ID == x.Job.ID && j.State == cluster.Pending })
	if at < 0 || !forecast.ForRoom(&jobs[at]) {
		return nil
	}
	j := &jobs[at]
	own := advise.OfJob(j)
	if value, written := x.Own[slurmplug.Features]; written { // in place of the type that priod gave it
		own.Features = value.String()
	}
	if value, written := x.Own[slurmplug.PartitionList]; written {
		own.Partitions = cluster.PartitionNames(value.String())
	}
	err := f.compare(ctx, r, v, &own, j.User)
	if _, refused := err.(Wrong); refused { // Slurm may have taken what the cluster would refuse now
		return nil
	}
	return err
}

// compare is what is expected of a request on each type, with half of its GPUs, and with a shorter time limit; where too few past
// runs are known, when it would start by time limits, on each type too.
func (f *Forecaster) compare(ctx context.Context, r *store.Reader, v *Expectation, own *advise.Request, user string) error {
	open := *own
	open.GPUType = ""
	speeds, err := f.speeds(ctx, r, own, user)
	if err != nil {
		return err
	}
	limits, advice, err := f.byLimits(&open, speeds, own.GPUType, own.Limit)
	if err != nil {
		return err
	}
	if v.Job == nil {
		v.Partition = strings.Join(advice.Partitions, ",")
	}
	if v.LimitsS == nil {
		v.LimitsS = SecondsOf(limits)
	}
	if f.forecast == nil {
		v.typesByLimits(own, advice, limits)
		return nil
	}
	outlook, err := f.expect(&open, speeds, user)
	if err != nil {
		return err
	}
	all := outlook.Types
	if v.Job == nil {
		v.Types = all
	}
	best := expectedOn(&outlook, own.GPUType)
	if best == nil || !best.Start.Known() {
		return nil
	}
	end := SecondsOf(best.End)
	if v.StartS == nil {
		v.StartS, v.P90S = SecondsOf(best.Start), SecondsOf(best.StartP90)
	} else if end != nil { // from the start that was planned
		*end += *v.StartS - *SecondsOf(best.Start)
	}
	v.Alternatives = append(v.Alternatives, Alternative{StartS: v.StartS, P90S: v.P90S, EndS: end})
	add := func(change, try string, e *advise.Expected, end bool) {
		a := Alternative{Change: change, Try: try, StartS: SecondsOf(e.Start), P90S: SecondsOf(e.StartP90), Sooner: sooner(e.Start, best.Start)}
		if end {
			a.EndS = SecondsOf(e.End)
		}
		v.Alternatives = append(v.Alternatives, a)
	}
	for i := range all {
		if e := &all[i]; e.GPUType != own.GPUType && len(all) > 1 {
			add("GPU type "+GPUName(e.GPUType), typedOption(own, e.GPUType), e, true)
		}
	}
	if own.GPUs > 1 && own.GPUs%2 == 0 {
		half := *own
		half.GPUs, half.CPUs, half.MemMB, half.Nodes = own.GPUs/2, max(own.CPUs/2, 1), own.MemMB/2, min(own.Nodes, max(own.Nodes/2, 1))
		speeds, err := f.speeds(ctx, r, &half, user)
		if err != nil {
			return err
		}
		if less, err := f.expect(&half, speeds, user); err != nil {
			return err
		} else if e := expectedOn(&less, own.GPUType); e != nil && sooner(e.Start, best.Start) {
			add(report.Plural(half.GPUs, "GPU", "GPUs"), "", e, false)
		}
	}
	return f.shorter(v, &open, own.GPUType, speeds, best, limits)
}

// typesByLimits are the starts of a request by time limits: as it is, and on each other type.
func (v *Expectation) typesByLimits(own *advise.Request, advice *advise.Advice, limits advise.Seconds) {
	if !limits.Known() {
		return
	}
	v.Alternatives = append(v.Alternatives, Alternative{LimitsS: SecondsOf(limits)})
	several := len(advice.Types) > 1 && advice.Types[1].Fits // the best stand first
	for i := range advice.Types {
		if t := &advice.Types[i]; t.Fits && t.GPUType != own.GPUType && several {
			v.Alternatives = append(v.Alternatives, Alternative{
				Change: "GPU type " + GPUName(t.GPUType), Try: typedOption(own, t.GPUType), LimitsS: SecondsOf(t.Start), Sooner: sooner(t.Start, limits),
			})
		}
	}
}

// shorter adds a time limit that nine of ten such jobs do not reach, where Slurm's backfill, which goes by limits, would start
// the job sooner with it than by limits now.
func (f *Forecaster) shorter(v *Expectation, open *advise.Request, only string, speeds []speed.Answer, best *advise.Expected, now advise.Seconds) error {
	const step = 15 * time.Minute
	limit := (time.Duration(float64(best.RunP90)*float64(time.Second))/step + 1) * step
	if math.IsInf(float64(best.RunP90), 1) || open.Limit != slurmplug.Unlimited && limit > open.Limit*7/10 {
		return nil
	}
	then, _, err := f.byLimits(open, speeds, only, limit)
	if err != nil || !sooner(then, now) || !sooner(then, best.Start) {
		return err
	}
	at := SecondsOf(then)
	v.Alternatives = append(v.Alternatives, Alternative{
		Change: "time limit " + report.Ago(limit), Try: "--time=" + slurmplug.FormatTimeLimit(limit), StartS: at, P90S: at, Sooner: true,
	})
	return nil
}

// byLimits is when a request with a time limit would first start on the one type that is asked for, or on any, where all jobs
// run to their limits; infinite: not known.
func (f *Forecaster) byLimits(open *advise.Request, speeds []speed.Answer, only string, limit time.Duration) (start advise.Seconds, advice *advise.Advice, err error) {
	request := *open
	request.Limit = limit
	advice, err = advise.Give(f.site, &request, speeds, func(string) (float64, bool) { return 0, false })
	if err != nil {
		return 0, nil, Wrong{err}
	}
	start = advise.Seconds(math.Inf(1))
	for i := range advice.Types {
		if t := &advice.Types[i]; t.Fits && (only == "" || t.GPUType == only) {
			start = min(start, t.Start)
		}
	}
	return start, advice, nil
}

// expectedOn is what is expected on the one type that a job names, or on any; nil: it does not fit.
func expectedOn(o *advise.Outlook, only string) *advise.Expected {
	if only == "" {
		return o.Any
	}
	if at := slices.IndexFunc(o.Types, func(e advise.Expected) bool { return e.GPUType == only }); at >= 0 {
		return &o.Types[at]
	}
	return nil
}

// typedOption is the option of sbatch that names a type; "" for a job that waits.
func typedOption(r *advise.Request, gpuType string) string {
	value, err := slurmplug.WithGPUType(r.Option, r.Value, gpuType)
	if err != nil || r.Option == "" {
		return ""
	}
	return "--" + r.Option + "=" + value
}

// SecondsOf are whole ones; nil: not known.
func SecondsOf(s advise.Seconds) *int64 {
	if !s.Known() {
		return nil
	}
	n := int64(math.Round(float64(s)))
	return &n
}

// Requests are jobs that are not submitted.
func (f *Forecaster) Requests(ctx context.Context, r *store.Reader, requests []*advise.Request, user string) ([]*Expectation, error) {
	views := make([]*Expectation, len(requests))
	for i, q := range requests {
		v := &Expectation{Partition: strings.Join(q.Partitions, ","), GPUs: q.GPUs, GPUType: q.GPUType, Alternatives: []Alternative{}}
		switch err := f.compare(ctx, r, v, q, user); {
		case err != nil:
			return nil, Wrong{err}
		case f.forecast == nil:
			v.Why = "not enough past runs are known"
		case v.StartS == nil:
			v.Why = "it fits on no GPU type, or its start is unknown"
		}
		views[i] = v
	}
	return views, nil
}
