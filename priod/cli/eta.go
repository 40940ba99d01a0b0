package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/web"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

func etaCommand() *cli.Command {
	return &cli.Command{
		Name: "eta", Usage: "when jobs start, waiting or not yet submitted, and what would start them sooner; for any user", ArgsUsage: "[JOBID... | SCRIPT... | -- SBATCH-OPTIONS SCRIPT [ARGUMENTS]]",
		Description: "Half of such jobs start by STARTS, nine of ten by 9 OF 10: drawn from the run times of past\n" +
			"jobs, and fitted to earlier predictions (priod report eta). For waiting jobs, named or all of yours, or scripts\n" +
			"with their #SBATCH and #PRIO lines. Behind -- stands the command line of sbatchwrap or sbatch; nothing is submitted.\n" +
			"Of a script it also says when it would start and how fast it would run on each GPU type: its speed comes from its tag, its\n" +
			"workload or the type, its start BY LIMITS from the queue and the nodes as you see them now, where running jobs end at their\n" +
			"time limits and jobs ahead start in order where they fit first. Exit status 1 when a script fits nowhere.\n" +
			"    priod eta                   # your waiting jobs\n" +
			"    priod eta 4711              # one job, and what would start it sooner\n" +
			"    priod eta train.sh          # a future job\n" +
			"    priod eta -- --gres=gpu:1 --time=4:00:00 train.sh",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "waiting jobs of `USER` instead of yours"},
			&cli.BoolFlag{Name: "each", Usage: "each word behind the options of sbatch is a script; else the words behind the first one are its arguments"},
			&cli.BoolFlag{Name: "slurm", Usage: "show what Slurm itself expects, too; of a script by sbatch --test-only, which looks at running jobs only"},
			jsonFlag(),
		},
		Action: runETA,
	}
}

// etaMost is how many waiting jobs of a user are listed.
const etaMost = 100

// etaView is when one job is expected to start. Times are s from now.
type etaView struct {
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
	Slurm        string         `json:"slurm,omitempty"`   // what Slurm itself expects
	Alternatives []alternative  `json:"alternatives"`

	Types  []advise.Expected `json:"types,omitempty"` // of a script, on each GPU type
	Advice *adviceView       `json:"advice,omitempty"`

	unplanned bool // it waits for room, and no time is stored
}

// alternative is what would come of a job that asked for something else. The first is the job as it is.
type alternative = web.Alternative

func runETA(c *cli.Context) error {
	words := c.Args().Slice()
	jobs := 0
	for _, w := range words {
		if _, err := slurmplug.ParseJobName(w); err == nil && !afterDashes(c) {
			jobs++
		}
	}
	cfg, r, err := openReader(c)
	if err == nil {
		defer r.Close()
	} else if cfg == nil && errors.Is(err, fs.ErrPermission) { // priod.toml may not be for users
		cfg, _ = config.Defaults()
	}
	var views []*etaView
	at, byUser := time.Now(), c.String("user") != ""
	scripts := jobs == 0 && (len(words) > 0 || afterDashes(c))
	switch {
	case jobs > 0 && jobs < len(words):
		return usagef("eta: name jobs or scripts, not both: %q", strings.Join(words, " "))
	case scripts && byUser:
		return usagef("eta: --user is for waiting jobs, not for scripts")
	case byUser && jobs > 0:
		return usagef("eta: --user or job numbers, not both")
	case !scripts:
		views, err = etaOfJobs(c, cfg, r, words, err)
	case cfg != nil:
		if views, at, err = etaOfScripts(c, cfg, r, words, err); err == nil && views == nil {
			return cli.ShowCommandHelp(c, c.Command.Name)
		}
	}
	if err != nil {
		return err
	}
	err = answer(c, map[string]any{"at": at, "jobs": views}, func(w io.Writer) { showExpected(w, views, at, len(words) > 0) })
	if err == nil && slices.ContainsFunc(views, func(v *etaView) bool { return v.Advice != nil && v.Advice.Best == nil }) {
		err = errProblem
	}
	return err
}

// etaOfJobs are the named jobs, or all that wait of a user; why is why the state folder cannot be read.
func etaOfJobs(c *cli.Context, cfg *config.Config, r *store.Reader, names []string, why error) ([]*etaView, error) {
	var views []*etaView
	if why != nil {
		if c.String("user") != "" {
			return nil, why
		}
		text, err := askOwn(c.Context, cfg, http.MethodGet, "/eta?"+url.Values{"job": names}.Encode(), nil, why)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &views); err != nil {
			return nil, fmt.Errorf("cannot parse the daemon's answer: %w", err)
		}
		if stampOwn(c, cfg); c.Bool("slurm") && cfg != nil {
			addSlurms(c.Context, cfg, views)
		}
		return views, nil
	}
	var f *forecaster
	var err error
	if len(names) > 0 {
		if f, err = newForecaster(c.Context, cfg, r, nil); err != nil {
			return nil, err
		}
	}
	name := c.String("user")
	if me, err := user.Current(); err == nil && name == "" {
		name = me.Username
	}
	if views, err = etasOf(c.Context, cfg, r, f, names, name, len(names) == 0); err == nil && unplanned(views) {
		if f, err := newForecaster(c.Context, cfg, r, nil); err == nil { // else the stored ones have to do
			f.plan(views)
		}
	}
	if err == nil && c.Bool("slurm") {
		addSlurms(c.Context, cfg, views)
	}
	return views, err
}

// addSlurms adds what Slurm expects of jobs.
func addSlurms(ctx context.Context, cfg *config.Config, views []*etaView) {
	jobs, err := newClient(cfg).Jobs(ctx)
	starts := map[cluster.JobID]time.Time{}
	for i := range jobs {
		starts[jobs[i].ID] = jobs[i].Start
	}
	for _, v := range views {
		switch at := starts[*v.Job]; {
		case err != nil:
			v.Slurm = "does not answer"
		case at.IsZero():
			v.Slurm = "no estimate"
		default:
			v.Slurm = "would start it at " + clock(at)
		}
	}
}

// etasOf are jobs by their names, or all that wait of a user; private: of the user alone. f is nil where no alternatives are wanted.
func etasOf(ctx context.Context, cfg *config.Config, r *store.Reader, f *forecaster, names []string, username string, private bool) ([]*etaView, error) {
	ids := make([]cluster.JobID, 0, len(names))
	for _, text := range names {
		id, err := storedName(ctx, r, text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(names) == 0 {
		page, _, err := r.Pending(ctx, username, 0, etaMost)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if j := &page[i].Job; j.GPUs > 0 {
				ids = append(ids, j.ID)
			}
		}
	}
	whose := ""
	if private {
		whose = username
	}
	views := make([]*etaView, 0, len(ids))
	for _, id := range ids {
		x, err := storedExplanation(ctx, cfg, r, id)
		switch {
		case err == nil && private && x.Job.User != username, errors.Is(err, store.ErrNone):
			return nil, unknown(id.String(), whose)
		case err != nil:
			return nil, err
		}
		if private {
			x.hideOthers(username)
		}
		v := x.eta()
		if f != nil && x.waits() && !x.aboutToStart() {
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
func sortByStart(views []*etaView) {
	at := func(s *int64) int64 {
		if s == nil {
			return math.MaxInt64
		}
		return *s
	}
	slices.SortStableFunc(views, func(a, b *etaView) int {
		return cmp.Or(cmp.Compare(at(a.StartS), at(b.StartS)), cmp.Compare(at(a.LimitsS), at(b.LimitsS)))
	})
}

// unplanned reports whether some job waits for room, and the daemon's last plan had no time for it.
func unplanned(views []*etaView) bool {
	return slices.ContainsFunc(views, func(v *etaView) bool { return v.unplanned })
}

// plan fills in when the jobs would start that the daemon's last plan had no time for: it came before them, or is yet to come.
func (f *forecaster) plan(views []*etaView) {
	order := advise.Queue(f.site)
	limits := advise.Starts(f.site, order)
	var expected map[cluster.JobID]advise.ETA
	if f.forecast != nil {
		expected = advise.Expect(f.site, order, f.forecast.Runs, f.forecast.Draws, f.forecast.Seed)
	}
	for _, v := range views {
		at, known := limits[*v.Job]
		if !v.unplanned || !known {
			continue
		}
		v.LimitsS = secondsOf(advise.Seconds(at))
		if e, known := expected[*v.Job]; known {
			v.StartS, v.P90S = secondsOf(advise.Seconds(e.Median)), secondsOf(advise.Seconds(max(e.P90*f.forecast.Fit, e.Median)))
		}
	}
	sortByStart(views)
}

// eta is what the daemon expects of a job.
func (v *explanation) eta() *etaView {
	id := v.Job.ID
	e := &etaView{Job: &id, User: v.Job.User, Partition: v.Job.Partition, GPUs: v.Job.GPUs, GPUType: v.Job.GPUType, Alternatives: []alternative{}}
	e.Why, _ = v.answer()
	from := func(at time.Time) *int64 {
		if at.IsZero() {
			return nil
		}
		s := max(seconds(time.Until(at)), 0)
		return &s
	}
	_, _, free := v.room()
	switch s := v.Start; {
	case !v.waits():
	case !free.IsZero():
		e.StartS, e.P90S = from(free), from(free)
	case v.startsNow():
		e.StartS, e.P90S = new(int64), new(int64)
	case s != nil:
		e.StartS, e.P90S, e.LimitsS = from(s.Median), from(s.P90), from(s.At)
		e.Moved = report.Moved(s)
	default:
		e.unplanned = true
	}
	return e
}

// aboutToStart reports whether the job fits now, or others leave for it.
func (v *explanation) aboutToStart() bool {
	_, _, free := v.room()
	return !free.IsZero() || v.startsNow()
}

// alternatives fills in what would come of a job that asked for something else.
func (f *forecaster) alternatives(ctx context.Context, r *store.Reader, x *explanation, v *etaView) error {
	jobs := f.site.Snapshot.Jobs
	at := slices.IndexFunc(jobs, func(j cluster.Job) bool { return j.ID == x.Job.ID && j.State == cluster.Pending })
	if at < 0 || !advise.ForRoom(&jobs[at]) {
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
	if _, refused := err.(usageError); refused { // Slurm may have taken what the cluster would refuse now
		return nil
	}
	return err
}

// compare is what is expected of a request on each type, with half of its GPUs, and with a shorter time limit; where too few past
// runs are known, when it would start by time limits, on each type too.
func (f *forecaster) compare(ctx context.Context, r *store.Reader, v *etaView, own *advise.Request, user string) error {
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
		v.LimitsS = secondsOf(limits)
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
	v.StartS, v.P90S = secondsOf(best.Start), secondsOf(best.StartP90)
	v.Alternatives = append(v.Alternatives, alternative{StartS: v.StartS, P90S: v.P90S, EndS: secondsOf(best.End)})
	add := func(change, try string, e *advise.Expected, end bool) {
		a := alternative{Change: change, Try: try, StartS: secondsOf(e.Start), P90S: secondsOf(e.StartP90), Sooner: sooner(e.Start, best.Start)}
		if end {
			a.EndS = secondsOf(e.End)
		}
		v.Alternatives = append(v.Alternatives, a)
	}
	for i := range all {
		if e := &all[i]; e.GPUType != own.GPUType && len(all) > 1 {
			add("GPU type "+gpuName(e.GPUType), typedOption(own, e.GPUType), e, true)
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
			add(plural(half.GPUs, "GPU", "GPUs"), "", e, false)
		}
	}
	return f.shorter(v, &open, own.GPUType, speeds, best, limits)
}

// typesByLimits are the starts of a request by time limits: as it is, and on each other type.
func (v *etaView) typesByLimits(own *advise.Request, advice *advise.Advice, limits advise.Seconds) {
	if !limits.Known() {
		return
	}
	v.Alternatives = append(v.Alternatives, alternative{LimitsS: secondsOf(limits)})
	several := len(advice.Types) > 1 && advice.Types[1].Fits // the best stand first
	for i := range advice.Types {
		if t := &advice.Types[i]; t.Fits && t.GPUType != own.GPUType && several {
			v.Alternatives = append(v.Alternatives, alternative{
				Change: "GPU type " + gpuName(t.GPUType), Try: typedOption(own, t.GPUType), LimitsS: secondsOf(t.Start), Sooner: sooner(t.Start, limits),
			})
		}
	}
}

// shorter adds a time limit that nine of ten such jobs do not reach, where Slurm's backfill, which goes by limits, would start
// the job sooner with it than by limits now.
func (f *forecaster) shorter(v *etaView, open *advise.Request, only string, speeds []speed.Answer, best *advise.Expected, now advise.Seconds) error {
	const step = 15 * time.Minute
	limit := (time.Duration(float64(best.RunP90)*float64(time.Second))/step + 1) * step
	if math.IsInf(float64(best.RunP90), 1) || open.Limit != slurmplug.Unlimited && limit > open.Limit*7/10 {
		return nil
	}
	then, _, err := f.byLimits(open, speeds, only, limit)
	if err != nil || !sooner(then, now) || !sooner(then, best.Start) {
		return err
	}
	at := secondsOf(then)
	v.Alternatives = append(v.Alternatives, alternative{
		Change: "time limit " + report.Ago(limit), Try: "--time=" + slurmplug.FormatTimeLimit(limit), StartS: at, P90S: at, Sooner: true,
	})
	return nil
}

// byLimits is when a request with a time limit would first start on the one type that is asked for, or on any, where all jobs
// run to their limits; infinite: not known.
func (f *forecaster) byLimits(open *advise.Request, speeds []speed.Answer, only string, limit time.Duration) (start advise.Seconds, advice *advise.Advice, err error) {
	request := *open
	request.Limit = limit
	advice, err = advise.Give(f.site, &request, speeds, func(string) (float64, bool) { return 0, false })
	if err != nil {
		return 0, nil, usageError{err}
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

func secondsOf(s advise.Seconds) *int64 {
	if !s.Known() {
		return nil
	}
	n := int64(math.Round(float64(s)))
	return &n
}

// etaOfRequests asks the state folder, or the daemon. site is the cluster where it was read already.
func etaOfRequests(ctx context.Context, cfg *config.Config, r *store.Reader, requests []*advise.Request, user string, why error, site *advise.Site) (views []*etaView, err error) {
	if why == nil {
		f, err := newForecaster(ctx, cfg, r, site)
		if err != nil {
			return nil, err
		}
		return f.requests(ctx, r, requests, user)
	}
	body, err := json.Marshal(requests)
	if err != nil {
		return nil, err
	}
	text, err := askOwn(ctx, cfg, http.MethodPost, "/eta", body, why)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &views); err != nil || len(views) != len(requests) {
		return nil, fmt.Errorf("cannot parse the daemon's answer: %.200q", bytes.TrimSpace(text))
	}
	return views, nil
}

// requests are jobs that are not submitted.
func (f *forecaster) requests(ctx context.Context, r *store.Reader, requests []*advise.Request, user string) ([]*etaView, error) {
	views := make([]*etaView, len(requests))
	for i, q := range requests {
		v := &etaView{Partition: strings.Join(q.Partitions, ","), GPUs: q.GPUs, GPUType: q.GPUType, Alternatives: []alternative{}}
		switch err := f.compare(ctx, r, v, q, user); {
		case err != nil:
			return nil, usageError{err}
		case f.forecast == nil:
			v.Why = "not enough past runs are known"
		case v.StartS == nil:
			v.Why = "it fits on no GPU type, or its start is unknown"
		}
		views[i] = v
	}
	return views, nil
}

// showExpected prints a row for each job, and of jobs that were named why they wait and what would start them sooner.
func showExpected(w io.Writer, views []*etaView, at time.Time, named bool) {
	if len(views) == 0 {
		fmt.Fprintln(w, "No GPU job waits.")
		return
	}
	header := []string{"JOB", "PARTITION", "GPUS", "STARTS", "9 OF 10", "BY TIME LIMITS", "WHY IT WAITS"}
	slurm := slices.ContainsFunc(views, func(v *etaView) bool { return v.Slurm != "" })
	if slurm {
		header = append(header, "SLURM")
	}
	rows := make([][]any, len(views))
	for i, v := range views {
		name, gpus := v.Script, fmt.Sprint(v.GPUs)
		if v.Job != nil {
			name = v.Job.String()
		}
		if v.GPUType != "" {
			gpus += " " + v.GPUType
		}
		why := v.Why
		if v.Moved != "" {
			why += " (" + v.Moved + ")"
		}
		rows[i] = []any{report.Safe(name), v.Partition, gpus, inWords(v.StartS), inWords(v.P90S), inWords(v.LimitsS), why}
		if slurm {
			rows[i] = append(rows[i], v.Slurm)
		}
	}
	report.Table(w, header, rows)
	if !named && len(views) >= etaMost {
		fmt.Fprintf(w, "The first %d; priod queue --user shows all.\n", etaMost)
	}
	for _, v := range views {
		if v.Advice != nil {
			fmt.Fprintln(w)
			v.Advice.show(w, at)
		}
		if !named || len(v.Alternatives) < 2 {
			continue
		}
		fmt.Fprintln(w)
		name := v.Script
		if v.Job != nil {
			name = "JOB " + v.Job.String()
		}
		rows := make([][]any, len(v.Alternatives))
		for i := range v.Alternatives {
			a := &v.Alternatives[i]
			mark := ""
			if a.Sooner {
				mark = "sooner"
			}
			rows[i] = []any{cmp.Or(a.Change, "as it is"), inWords(a.StartS), inWords(a.P90S), inWords(a.EndS), mark, a.Try}
			if v.byLimits() {
				rows[i] = []any{cmp.Or(a.Change, "as it is"), inWords(a.LimitsS), mark, a.Try}
			}
		}
		header := []string{report.Safe(name), "STARTS", "9 OF 10", "ENDS", "", "OPTION"}
		if v.byLimits() {
			header = []string{header[0], "BY TIME LIMITS", "", "OPTION"}
		}
		report.Table(w, header, rows)
	}
}

// byLimits reports whether the alternatives are by time limits alone.
func (v *etaView) byLimits() bool { return len(v.Alternatives) > 0 && v.Alternatives[0].LimitsS != nil }

// inWords is a time from now; "-": not known.
func inWords(s *int64) string {
	switch {
	case s == nil:
		return "-"
	case *s < 5:
		return "now"
	case *s < 60:
		return "within 1m"
	}
	return "in " + report.Ago(time.Duration(*s)*time.Second)
}
