package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// SacctColumns is what to ask sacct for, the user's own words last: sacct does
// not quote them.
const SacctColumns = "JobID,Submit,Eligible,Start,End,ElapsedRaw,State,ExitCode,DerivedExitCode,TimelimitRaw,NNodes,ReqTRES,AllocTRES,User,Account,Partition,QOS,Comment"

// Why a row of sacct is no job to replay.
const (
	skipStep       = "job_steps"
	skipNotStarted = "never_started"
	skipRunning    = "still_running"
	skipNoGPUs     = "without_gpus"
	skipEarlier    = "earlier_runs" // of a requeued job, that did not fail
)

// unlimited is the time limit of a job that has none: what Slurm's backfill
// takes into account (a year).
const unlimited = 365 * 24 * time.Hour

// past is one run of a job as accounting has it.
type past struct {
	id, user, account, qos string
	partition              string
	listed                 bool   // partition is the list that the job named, as far as it named one
	req, alloc             string // TRES asked for and held; alloc is "" when it never started
	tag                    string
	ready                  time.Time // submitted and eligible
	start, end             time.Time // zero when not set
	elapsed                time.Duration
	elapsedKnown           bool
	limit                  time.Duration
	nodes                  int
	ending                 Ending
}

// FromRuns makes a trace of what accounting holds, in order of submission.
func FromRuns(runs []slurmplug.Run, opts Options) ([]Job, Stats, error) {
	var stats Stats
	all := make([]past, 0, len(runs))
	known := demands{}
	for i := range runs {
		r := &runs[i]
		odd := r.Unread
		for _, list := range []string{r.AllocTRES, r.ReqTRES} {
			if _, err := known.of(list); err != nil {
				odd = cmp.Or(odd, err.Error())
			}
		}
		if odd != "" {
			if !opts.SkipBad {
				return nil, stats, fmt.Errorf("accounting: job %s: %s", r.ID, odd)
			}
			if stats.Bad++; len(stats.Left) < MostNamed {
				stats.Left = append(stats.Left, LeftOut{Job: r.ID.String(), Why: odd})
			}
			continue
		}
		tag, _ := jobtag.Split(r.Comment)
		list, known := opts.listOf(r)
		all = append(all, past{
			id: r.ID.String(), user: r.User, account: r.Account, partition: list, listed: known, qos: r.QOS, req: cmp.Or(r.ReqTRES, r.AllocTRES), alloc: r.AllocTRES, tag: tag,
			ready: cluster.Later(r.Submit, r.Eligible), start: r.Start, end: r.End, limit: r.TimeLimit, ending: endedAs(r.State, r.ExitCode, r.Signal),
		})
	}
	jobs, err := fold(all, known, opts, &stats)
	stats.Jobs = len(jobs)
	return jobs, stats, err
}

// fold makes jobs of runs: the runs of a requeued job are one job that was
// submitted when the first one was and runs as long as the last one that ended. Those
// before it that failed are its trials. Jobs without GPUs come with the others, unless no job
// has GPUs at all: then accounting does not know them.
func fold(all []past, known demands, opts Options, stats *Stats) ([]Job, error) {
	kept := foldRuns(all, stats)
	jobs := make([]Job, 0, len(kept))
	tags := map[string]jobtag.Tag{}
	var origin time.Time
	without := opts.GPUsOnly || !slices.ContainsFunc(kept, func(p runs) bool {
		alloc, _ := known.of(p.alloc)
		return alloc.gpus > 0
	})
	for i := range kept {
		p := &kept[i]
		alloc, err := known.of(p.alloc)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", p.id, err)
		}
		req, err := known.of(p.req)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", p.id, err)
		}
		if alloc.gpus == 0 && without {
			stats.skip(skipNoGPUs)
			continue
		}
		if origin.IsZero() || p.ready.Before(origin) {
			origin = p.ready
		}
		tag, seen := tags[p.tag]
		if !seen {
			if tag, err = jobtag.Parse(p.tag); err != nil {
				tag = jobtag.Tag{} // the whole tag does not count
			}
			tags[p.tag] = tag
		}
		jobs = append(jobs, p.job(req, alloc, known, &tag, opts))
		if !p.listed && alloc.gpus > 0 {
			stats.Unlisted++
		}
	}
	stats.Origin = origin
	for i := range jobs {
		j := &jobs[i]
		j.Submit -= float64(origin.Unix())
		j.Start -= float64(origin.Unix())
		j.End -= float64(origin.Unix())
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs, nil
}

// job is one of the trace, its times in Unix time.
func (p *runs) job(req, alloc demand, known demands, tag *jobtag.Tag, opts Options) Job {
	j := NewJob()
	j.ID, j.User, j.Account, j.QOS, j.Partition = p.id, p.user, p.account, p.qos, p.partition
	j.Submit = float64(p.ready.Unix())
	j.GPUs, j.CPUs, j.MemMB, j.Nodes, j.GPUType = alloc.gpus, alloc.cpus, alloc.memMB, p.nodes, req.gpuType
	j.Billing = cmp.Or(alloc.billing, req.billing)
	if j.GPUs == 0 || alloc.nodes > 0 && j.GPUs%alloc.nodes == 0 { // else its parts are not equal
		j.Nodes = cmp.Or(j.Nodes, alloc.nodes)
	}
	if !validText(j.GPUType) || j.GPUs == 0 {
		j.GPUType = "" // no node has such a type
	}
	j.Duration, j.Ending, j.Retry = p.seconds(), p.ending, tag.Retry
	longest := j.Duration
	for i := range p.earlier {
		j.Trials = append(j.Trials, Trial{p.earlier[i].seconds(), p.earlier[i].ending})
		longest = max(longest, j.Trials[i].Work)
	}
	j.Start = max(float64(p.first.Unix()), j.Submit)
	j.End = max(float64(p.end.Unix()), j.Start+1)
	j.Ran = min(max(p.ran.Seconds(), 1), j.End-j.Start)
	switch {
	case p.limit == slurmplug.Unlimited:
		j.Limit = unlimited.Seconds()
	case p.limit > 0:
		j.Limit = max(p.limit.Seconds(), longest) // Slurm kills some seconds late
	}
	if tag.Type == "te" || tag.Type == "" && slices.Contains(opts.TEQOS, p.qos) {
		j.Class = cluster.TE
	}
	j.Untagged = tag.Type == "" && j.Class == cluster.BE && !slices.Contains(opts.BEQOS, p.qos)
	j.Grace, j.Ckpt, j.Workload = tag.Grace.Seconds(), tag.Ckpt.Seconds(), tag.Workload
	if opts.Workloads != nil && j.GPUs > 0 && j.Workload != "" && alloc.gpuType != "" {
		if speed, ok := ranAt(opts.Workloads, &j, alloc); ok {
			j.Steps, j.Duration = j.Duration*speed, 0 // so that it runs as fast elsewhere as it would
			for i := range j.Trials {
				j.Trials[i].Work *= speed
			}
			for i := range p.evicted {
				if held, err := known.of(p.evicted[i].alloc); err == nil {
					speed, _ := ranAt(opts.Workloads, &j, held)
					j.Steps += saved(&p.evicted[i], tag) * speed
				}
			}
		}
	}
	if j.Steps == 0 && len(p.evicted) > 0 {
		for i := range p.evicted {
			j.Duration += saved(&p.evicted[i], tag)
		}
		j.Limit = max(j.Limit, min(j.Duration, unlimited.Seconds()))
	}
	array, _, _ := strings.Cut(p.id, "_")
	if own := cmp.Or(opts.CPUs[p.id], opts.CPUs[array]); own > 0 && j.GPUs > 0 {
		j.CPUs = own
	}
	return j
}

// saved is what a run that was evicted had done and kept, s: all of it where the job saves its state on the signal, else
// up to its last checkpoint.
func saved(p *past, tag *jobtag.Tag) float64 {
	ran, every := p.seconds(), tag.Ckpt.Seconds()
	switch {
	case tag.Signal != "":
		return ran
	case every > 0:
		return math.Floor(ran/every) * every
	}
	return 0
}

// seconds is how long a run took; accounting has whole seconds.
func (p *past) seconds() float64 {
	elapsed := p.elapsed
	if !p.elapsedKnown {
		elapsed = p.end.Sub(p.start)
	}
	return max(elapsed.Seconds(), 1)
}

type demand struct {
	gpuType string // "" when open, or of several types
	gpus    int
	cpus    int
	memMB   int64
	nodes   int
	billing int
}

// demands remembers what lists of TRES say: jobs have few different ones.
type demands map[string]demand

func (known demands) of(list string) (demand, error) {
	if d, ok := known[list]; ok {
		return d, nil
	}
	t, err := slurmplug.ParseTRES(list)
	if err != nil {
		return demand{}, err
	}
	var d demand
	d.gpuType, d.gpus, _ = t.GPUs()
	if strings.Contains(d.gpuType, ",") {
		d.gpuType = ""
	}
	cpus, _ := t.Get("cpu")
	mem, _ := t.Get("mem")
	nodes, _ := t.Get("node")
	billing, _ := t.Get("billing")
	d.nodes, d.billing = int(min(nodes, maxGPUs)), int(min(billing, math.MaxInt32))
	d.gpus, d.cpus, d.memMB = min(d.gpus, maxGPUs), int(min(cpus, maxGPUs)), min(mem, maxMemMB)
	known[list] = d
	return d, nil
}

// sacctSource is what sacct -P prints. A job's runs may stand anywhere in it,
// so all of it is read first.
type sacctSource struct {
	name    string
	text    *bufio.Scanner
	columns []string
	line    int
	fields  []string
	texts   interner
	demands demands
	opts    Options
	stats   *Stats
	all     []past
	jobs    []Job
	folded  bool
}

// maxLine bounds a row of sacct: a comment has at most a few KB.
const maxLine = 1 << 20

func newSacctSource(name string, text io.Reader, opts Options, stats *Stats) (*sacctSource, error) {
	s := &sacctSource{name: name, text: bufio.NewScanner(text), texts: interner{}, demands: demands{}, opts: opts, stats: stats}
	s.text.Buffer(nil, maxLine)
	if !s.scan() {
		return nil, cmp.Or(s.text.Err(), fmt.Errorf("%s: empty: want what sacct -P prints, with its header", name))
	}
	s.columns = strings.Split(s.text.Text(), "|")
	missing := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(s.columns, n) })
	}
	for _, need := range [][]string{{"JobID"}, {"Submit"}, {"Start"}, {"End"}, {"AllocTRES", "ReqTRES"}} {
		if missing(need...) {
			return nil, fmt.Errorf("%s:1: no column %s: want the header of sacct -P --format=%s", name, strings.Join(need, " or "), SacctColumns)
		}
	}
	return s, nil
}

func (s *sacctSource) scan() bool {
	s.line++
	return s.text.Scan()
}

// At is what is wrong with a value of the row that was read last.
func (s *sacctSource) At(key, value, want string) *RowError {
	column := 1
	for i, c := range s.columns {
		if c == key || i >= len(s.fields) {
			break
		}
		column += len(s.fields[i]) + 1
	}
	return &RowError{Name: s.name, Line: s.line, Column: column, Key: key, Value: value, Want: want}
}

// Next reads all rows first: bad ones come one by one, then the jobs.
func (s *sacctSource) Next() (Job, error) {
	for !s.folded {
		if !s.scan() {
			if err := s.text.Err(); err != nil {
				return Job{}, fmt.Errorf("%s:%d: %w", s.name, s.line, err)
			}
			jobs, err := fold(s.all, s.demands, s.opts, s.stats)
			if err != nil {
				return Job{}, fmt.Errorf("%s: %w", s.name, err)
			}
			s.jobs, s.all, s.folded = jobs, nil, true
			break
		}
		var p past
		step, err := s.row(&p)
		switch {
		case err != nil:
			return Job{}, s.told(err)
		case step:
			s.stats.skip(skipStep)
		default:
			s.all = append(s.all, p)
		}
	}
	if len(s.jobs) == 0 {
		return Job{}, io.EOF
	}
	j := s.jobs[0]
	s.jobs = s.jobs[1:]
	return j, nil
}

// clockShift is by how much two local times may be nearer to each other than the time that passed between them.
const clockShift = 2 * time.Hour

// row reads one line into a run; step is true when it is a job step's.
func (s *sacctSource) row(p *past) (step bool, err error) {
	s.fields = strings.SplitN(s.text.Text(), "|", len(s.columns)) // bars in a last Comment belong to it
	if len(s.fields) != len(s.columns) {
		n := len(s.fields)
		s.fields = nil
		return false, &RowError{Name: s.name, Line: s.line, Want: fmt.Sprintf("%d columns, want %d (a line break in a comment?)", n, len(s.columns))}
	}
	for i, key := range s.columns {
		value := s.fields[i]
		if key == "JobID" && strings.Contains(value, ".") {
			return true, nil
		}
		if want := s.set(p, key, value); want != "" {
			return false, s.At(key, value, want)
		}
	}
	if !p.start.IsZero() && !p.end.IsZero() && p.elapsed > p.end.Sub(p.start)+clockShift {
		p.elapsedKnown = false // 49710-06:28:15 is the 32 bits of a time before 0
	}
	if !p.end.IsZero() && p.end.Before(p.start) && p.elapsedKnown && p.elapsed > 0 {
		p.end = p.start.Add(p.elapsed) // local times: the clock was set back meanwhile
	}
	if !p.end.IsZero() && !p.start.IsZero() && p.end.Before(p.start) {
		return false, s.At("End", s.fields[slices.Index(s.columns, "End")], "a time not before Start")
	}
	if !p.ending.Failed() {
		p.ending = Ending{} // a status without a state says nothing
	}
	if !slices.Contains(s.columns, "AllocTRES") {
		p.alloc = p.req
	} else if !slices.Contains(s.columns, "ReqTRES") {
		p.req = p.alloc
	}
	return false, nil
}

// told adds to what is wrong with a row whose it is, and the GPU-hours in it.
func (s *sacctSource) told(err error) error {
	var wrong *RowError
	if !errors.As(err, &wrong) || len(s.fields) != len(s.columns) {
		return err
	}
	column := func(key string) string {
		if i := slices.Index(s.columns, key); i >= 0 {
			return s.fields[i]
		}
		return ""
	}
	if id := column("JobID"); validSacctID(id) {
		wrong.Job = strings.Clone(id)
	}
	alloc, failed := s.demands.of(column("AllocTRES"))
	if seconds, ok := whole(column("ElapsedRaw"), maxSeconds/1000); ok && failed == nil {
		wrong.GPUHours = float64(alloc.gpus) * float64(seconds) / 3600
	}
	return err
}

// set writes the value of one column into a run; want says what a bad value should have been.
func (s *sacctSource) set(p *past, key, value string) (want string) {
	ok := true
	var err error
	switch key {
	case "JobID":
		p.id, want, ok = strings.Clone(value), "a job id", validSacctID(value)
	case "Submit", "Eligible", "Start", "End":
		want, ok = "a time", p.setTime(key, value)
	case "ElapsedRaw": // start and end say it, too: an odd one costs nothing
		if n, good := whole(value, maxSeconds/1000); good {
			p.elapsed, p.elapsedKnown = time.Duration(n)*time.Second, true
		}
	case "Elapsed":
		if d, err := slurmplug.ParseTimeLimit(value); err == nil && strings.Contains(value, ":") && !p.elapsedKnown {
			p.elapsed, p.elapsedKnown = d, true
		}
	case "Timelimit", "TimelimitRaw":
		p.limit, err = slurmplug.ParseTimeLimit(value)
		ok, want = err == nil, "a time limit"
	case "NNodes":
		var n int64
		n, ok = whole(value, maxGPUs)
		p.nodes, want = int(n), "a number of nodes"
	case "AllocTRES":
		p.alloc = s.texts.get(value)
		want, ok = "a list of TRES", s.known(p.alloc)
	case "ReqTRES":
		p.req = s.texts.get(value)
		want, ok = "a list of TRES", s.known(p.req)
	case "User":
		p.user, want, ok = s.texts.get(value), "printable text", validText(value)
	case "Account":
		p.account, want, ok = s.texts.get(value), "printable text", validText(value)
	case "Partition":
		p.partition, want, ok = s.texts.get(value), "printable text", validText(value)
		p.listed = strings.Contains(value, ",")
	case "State":
		p.ending.State = endedAs(value, 0, 0).State
	case "ExitCode":
		p.ending.ExitCode, p.ending.Signal, ok = exitStatus(value)
		want = "an exit status and a signal, such as 1:0"
	case "DerivedExitCode":
		if value != "" {
			p.ending.StepCode, p.ending.StepSignal, ok = exitStatus(value)
		}
		want = "an exit status and a signal, such as 1:0"
	case "QOS":
		p.qos, want, ok = s.texts.get(value), "printable text", validText(value)
	case "Comment":
		tag, _ := jobtag.Split(value)
		p.tag = s.texts.get(tag)
	}
	if ok {
		return ""
	}
	return want
}

// setTime writes the value of a column with a time; a job is ready once it is submitted and eligible.
func (p *past) setTime(key, value string) (ok bool) {
	t, ok := sacctTime(value)
	switch key {
	case "Submit":
		ok = ok && !t.IsZero()
		p.ready = cluster.Later(p.ready, t)
	case "Eligible":
		p.ready = cluster.Later(p.ready, t)
	case "Start":
		p.start = t
	case "End":
		p.end = t
	}
	return ok
}

// known reports whether a list of TRES can be read.
func (s *sacctSource) known(list string) bool {
	_, err := s.demands.of(list)
	return err == nil
}

// validSacctID accepts "17", "17_4", "17_[1-9%3]" and "17+1".
func validSacctID(s string) bool {
	base, component, het := strings.Cut(s, "+")
	if het {
		if _, err := strconv.ParseUint(component, 10, 32); err != nil {
			return false
		}
	}
	base, _, _ = strings.Cut(base, "_[")
	_, err := slurmplug.ParseJobID(base)
	return err == nil && validText(s)
}

// sacctTime reads a time as sacct prints it by default, in the zone of the
// site (here taken as UTC: only differences count), or as SLURM_TIME_FORMAT has it: in Unix
// seconds (%s), or with a zone (%z). A time that is not set is the zero Time.
func sacctTime(s string) (time.Time, bool) {
	switch s {
	case "", "0", "Unknown", "None", "N/A":
		return time.Time{}, true
	}
	if n, ok := canonical(s); ok {
		return time.Unix(int64(n), 0).UTC(), n < maxSeconds
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), t.Year() >= 1970
		}
	}
	return time.Time{}, false
}

// timeLayouts are times without a zone, and with one: Z or +01:00 as other tools write it, +0100 as %z does, +01.
var timeLayouts = [...]string{"2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z07"}

// speedOf is what a job does on a GPU type, steps/s.
func speedOf(t *workload.Table, j *Job, gpuType string) (stepsPerS float64, ok bool) {
	id, ok := t.Lookup(j.Workload)
	if !ok {
		return 0, false
	}
	return t.Speed(id, j.GPUs, gpuType)
}

// ranAt is how many steps a second a job of accounting made on what it held: fewer or more CPUs and memory than the share of its
// GPUs make it slower or faster. Memory that accounting does not know is plenty.
func ranAt(t *workload.Table, j *Job, held demand) (stepsPerS float64, ok bool) {
	if stepsPerS, ok = speedOf(t, j, held.gpuType); !ok || held.cpus == 0 || held.gpus == 0 {
		return stepsPerS, ok
	}
	id, _ := t.Lookup(j.Workload)
	if curve, has := t.Get(id).Curves[held.gpuType]; has {
		memMB := float64(held.memMB)
		if memMB == 0 {
			memMB = math.MaxInt32
		}
		stepsPerS *= curve.Relative(float64(held.cpus)/float64(held.gpus), memMB/float64(held.gpus))
	}
	return stepsPerS, ok
}
