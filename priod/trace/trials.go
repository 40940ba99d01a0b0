package trace

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/cluster"
)

// Ending is how a run ended. The zero value: it did what it was to do, or it is unknown.
type Ending struct {
	State                string // Slurm's, one of failures
	ExitCode, Signal     int    // of the batch script
	StepCode, StepSignal int    // the highest of its steps: Slurm's derived exit code
}

// Trial is a run that failed, after so much of what its job is given by: seconds, or steps.
type Trial struct {
	Work float64
	Ending
}

// failures are Slurm's final states of runs that failed by themselves; those that were
// cancelled or preempted did not.
var failures = []string{"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}

// Failed reports whether the run failed.
func (e *Ending) Failed() bool { return e.State != "" }

// ByNode reports whether the run ended because a node did.
func (e *Ending) ByNode() bool { return e.State == "NODE_FAIL" || e.State == "BOOT_FAIL" }

// endedAs is how a run ended whose state and exit status accounting has.
func endedAs(state string, code, signal int) Ending {
	state, _, _ = strings.Cut(state, " ") // "CANCELLED by 1001"
	if !slices.Contains(failures, state) {
		return Ending{}
	}
	return Ending{State: state, ExitCode: code, Signal: signal}
}

// exitStatus reads "1:9", a status and a signal.
func exitStatus(text string) (code, signal int, ok bool) {
	before, after, _ := strings.Cut(text, ":")
	c, ok1 := whole(before, math.MaxInt32)
	s, ok2 := whole(after, math.MaxInt32)
	return int(c), int(s), ok1 && ok2
}

// readEnding reads "FAILED 1:0", or "FAILED 1:0 137:0" with a derived exit code that is
// another one.
func readEnding(text string) (e Ending, ok bool) {
	words := strings.Split(text, " ")
	if len(words) < 2 || len(words) > 3 || !slices.Contains(failures, words[0]) {
		return e, false
	}
	e.State = failures[slices.Index(failures, words[0])]
	if e.ExitCode, e.Signal, ok = exitStatus(words[1]); ok && len(words) == 3 {
		e.StepCode, e.StepSignal, ok = exitStatus(words[2])
	}
	return e, ok
}

func (e *Ending) append(b []byte) []byte {
	pair := func(code, signal int) {
		b = strconv.AppendInt(append(b, ' '), int64(code), 10)
		b = strconv.AppendInt(append(b, ':'), int64(signal), 10)
	}
	b = append(b, e.State...)
	pair(e.ExitCode, e.Signal)
	if e.StepCode != 0 || e.StepSignal != 0 {
		pair(e.StepCode, e.StepSignal)
	}
	return b
}

// Retries are what a tag may say of failures (--prio-retry).
var Retries = []string{"never", "infra", "always"}

// maxTrials is how many failed runs a job may have before its last one.
const maxTrials = 1000

// trialColumns are those about runs that failed.
func trialColumns() []column {
	const statuses = "FAILED 1:0 or FAILED 1:0 137:0"
	return []column{
		{
			name: "retry",
			set: func(j *Job, s string) string {
				if !slices.Contains(Retries, s) {
					return strings.Join(Retries, ", ")
				}
				j.Retry = Retries[slices.Index(Retries, s)]
				return ""
			},
			append: func(b []byte, j *Job) []byte { return append(b, j.Retry...) },
			unset:  func(j *Job) bool { return j.Retry == "" },
		},
		{
			name: "failed_runs",
			set: func(j *Job, s string) string {
				j.Trials = nil
				for one := range strings.SplitSeq(s, ";") {
					work, rest, _ := strings.Cut(one, " ")
					n, good := number(work)
					e, known := readEnding(rest)
					if !good || !(n > 0) || n > maxWork || !known || len(j.Trials) == maxTrials {
						return "runs such as 120 " + statuses + ", joined by ;, 1000 at most"
					}
					j.Trials = append(j.Trials, Trial{n, e})
				}
				return ""
			},
			append: func(b []byte, j *Job) []byte {
				for i := range j.Trials {
					if i > 0 {
						b = append(b, ';')
					}
					b = j.Trials[i].append(append(appendNumber(b, j.Trials[i].Work), ' '))
				}
				return b
			},
			unset: func(j *Job) bool { return len(j.Trials) == 0 },
		},
		{
			name: "ending",
			set: func(j *Job, s string) string {
				e, ok := readEnding(s)
				if !ok {
					return statuses
				}
				j.Ending = e
				return ""
			},
			append: func(b []byte, j *Job) []byte { return j.Ending.append(b) },
			unset:  func(j *Job) bool { return !j.Ending.Failed() },
		},
	}
}

// runs is a job of accounting: the run that is replayed, and those before it that failed, or were evicted.
type runs struct {
	past
	earlier []past
	evicted []past
	first   time.Time     // start of the first of all runs
	ran     time.Duration // all runs together
}

// foldRuns puts the runs of each job together, in the order in which the jobs first stand.
// A job was submitted when its first run was, and its last run is the one that counts.
func foldRuns(all []past, stats *Stats) []runs {
	index := make(map[string]int, len(all))
	var jobs []runs
	for i := range all {
		p := &all[i]
		switch {
		case p.start.IsZero(), p.alloc == "":
			stats.skip(skipNotStarted)
			continue
		case p.end.IsZero():
			stats.skip(skipRunning)
			continue
		}
		at, again := index[p.id]
		if !again {
			index[p.id] = len(jobs)
			jobs = append(jobs, runs{past: *p, first: p.start, ran: p.end.Sub(p.start)})
			continue
		}
		j := &jobs[at]
		j.first, j.ran = cluster.Earlier(j.first, p.start), j.ran+p.end.Sub(p.start)
		last, before := *p, j.past
		if !p.start.After(before.start) {
			last, before = before, *p
		}
		last.ready = cluster.Earlier(last.ready, before.ready)
		j.past = last
		switch {
		case before.ending.Failed() && len(j.earlier) < maxTrials:
			j.earlier = append(j.earlier, before)
		case !before.ending.Failed():
			j.evicted = append(j.evicted, before)
			fallthrough
		default:
			stats.skip(skipEarlier)
		}
	}
	for i := range jobs {
		slices.SortStableFunc(jobs[i].earlier, func(a, b past) int { return cmp.Compare(a.start.Unix(), b.start.Unix()) })
	}
	return jobs
}
