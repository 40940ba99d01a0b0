package daemon

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/slurmplug"
)

// troubleMetrics tell of states in which priod writes nothing, falls behind or works in
// part; docs/alerts.md has a section for each.
type troubleMetrics struct {
	blocked   *prometheus.GaugeVec
	notes     *prometheus.GaugeVec
	postponed *prometheus.GaugeVec
	limited   *prometheus.GaugeVec
	overdue   *prometheus.GaugeVec
	claims    *prometheus.CounterVec
	lost      *prometheus.CounterVec
	unread    *prometheus.GaugeVec
	period    prometheus.Gauge
	interval  prometheus.Gauge
	size      *prometheus.GaugeVec
	free      *prometheus.GaugeVec
	refused   prometheus.Gauge // the last reload
}

// What of accounting is read beside the polls.
const (
	readRuns   = "runs"
	readSpeeds = "speeds"
	readUses   = "uses"
	readShares = "shares"
)

var accountingReads = []string{readRuns, readSpeeds, readUses, readShares}

// What claims come to.
const (
	claimStarted  = "started"
	claimReleased = "released" // before its room was there
	claimUnused   = "unused"   // after it was
)

// Whose jobs are lost to the queue until they are submitted again.
const (
	lostVictim  = "victim"  // was signalled
	lostFailure = "failure" // failed, and its user had asked for another run
)

// Folders of the state.
const (
	ownFolder    = "state"
	sharedFolder = "shared"
)

// stateFiles are those that grow.
var stateFiles = []string{"priod.db", "journal.jsonl"}

// evictionLimits are the words for limits that keep others from leaving for a job; retryCaps
// is that for jobs that failed.
var evictionLimits = map[string]string{
	string(preemption.GraceGPUs): "grace-share", string(preemption.PerHour): "per-hour",
	string(preemption.PerDay): "gpu-hours-per-day", string(preemption.PerOwner): "user-gpu-minutes-per-day",
	string(evict.TookOver): "took-over",
}

const retryCaps = "retry-caps"

func limitWords() []string { return slices.AppendSeq([]string{retryCaps}, maps.Values(evictionLimits)) }

func newTroubleMetrics(f factory) *troubleMetrics {
	return &troubleMetrics{
		blocked:   f.gauges("priod_blocked", "1 for why the last cycle wrote nothing, or failed.", "reason", words(allBlocked)...),
		notes:     f.gauges("priod_notes", "Jobs, writes, nodes or GPU types that the notes of the last plan are about.", "note", words(plan.NoteKinds)...),
		postponed: f.gauges("priod_postponed_writes", "Writes that the last cycle left to the next one.", "cause", words(slurmplug.Causes)...),
		limited:   f.gauges("priod_limited_jobs", "Jobs for which a limit on evictions, rounds or retries did nothing in the last cycle.", "limit", limitWords()...),
		overdue:   f.gauges("priod_eviction_overdue_seconds", "Time beyond which the most overdue eviction should have left its present step.", "step", evict.Steps...),
		claims:    f.counters("priod_claims_total", "Places kept for waiting jobs by outcome.", "result", claimStarted, claimReleased, claimUnused),
		lost:      f.counters("priod_lost_jobs_total", "Jobs that should have been requeued and were not: their owners have to resubmit them.", "of", lostVictim, lostFailure),
		unread:    f.gauges("priod_accounting_unread", "1 while the last read of this part of Slurm's accounting failed.", "read", accountingReads...),
		period:    f.gauge("priod_poll_period_seconds", "Time from the last poll to the next one, unless a submission calls for one sooner."),
		interval:  f.gauge("priod_poll_interval_seconds", "Least pause between two polls, cycle.interval."),
		size:      f.gauges("priod_state_bytes", "Size of a file of the state folder, with SQLite's side files.", "file", stateFiles...),
		free:      f.gauges("priod_state_free_bytes", "Free space of the file system of a state folder.", "folder"),
		refused:   f.gauge("priod_reload_refused", "1 while the last reload of the configuration was refused and the old one holds."),
	}
}

// cycle takes in what a cycle that succeeded left undone.
func (m *troubleMetrics) cycle(r *cycle.Result, s *cycle.State) {
	set(m.notes, plan.NoteKinds, func(count map[plan.NoteKind]float64) {
		for _, n := range r.Plan.Notes {
			count[n.Kind] += float64(n.Of)
		}
	})
	set(m.postponed, slurmplug.Causes, func(count map[slurmplug.Cause]float64) {
		for i := range r.Outcomes {
			if o := &r.Outcomes[i]; o.Status == slurmplug.Postponed {
				count[slurmplug.CauseOf(o.Message)]++
			}
		}
	})
	set(m.limited, limitWords(), func(count map[string]float64) {
		for i := range r.Plan.Decisions {
			if e := r.Plan.Decisions[i].Choices.Eviction; e != nil {
				count[evictionLimits[e.Why]]++
			}
		}
		for i := range s.Failures.Failures {
			if s.Failures.Failures[i].State == retry.Delayed {
				count[retryCaps]++
			}
		}
	})
	set(m.overdue, evict.Steps, func(count map[string]float64) {
		if s.Journal != nil {
			for step, late := range s.Journal.Overdue(time.Now()) {
				count[step] = late.Seconds()
			}
		}
	})
}

// standBy records that another host's priod is active: what this one left undone is its.
func (m *troubleMetrics) standBy() {
	m.cycle(&cycle.Result{}, cycle.NewState())
	for _, what := range accountingReads {
		m.read(what, nil)
	}
}

// set sets the gauges of all words to what count fills in, 0 where it says nothing.
func set[T ~string](v *prometheus.GaugeVec, all []T, fill func(count map[T]float64)) {
	count := map[T]float64{}
	fill(count)
	for _, word := range all {
		v.WithLabelValues(string(word)).Set(count[word])
	}
}

// read takes in whether a part of accounting could be read.
func (m *troubleMetrics) read(what string, err error) {
	m.unread.WithLabelValues(what).Set(0)
	if err != nil {
		m.unread.WithLabelValues(what).Set(1)
	}
}

// claim takes in what a claim came to.
func (m *troubleMetrics) claim(c *evict.Claim) {
	switch {
	case c.Purpose == evict.ForWindow: // it was never open
	case c.State == evict.Started:
		m.claims.WithLabelValues(claimStarted).Inc()
	case c.State == evict.Released && !c.Room.IsZero():
		m.claims.WithLabelValues(claimUnused).Inc()
	case c.State == evict.Released:
		m.claims.WithLabelValues(claimReleased).Inc()
	}
}

// disk takes in how large the state has grown, and what is free where it lies. It is
// called by the loop: a file system that hangs must not keep /metrics from answering.
func (m *troubleMetrics) disk(dir, shared string) {
	for _, name := range stateFiles {
		size := int64(0)
		for _, suffix := range []string{"", "-wal"} {
			for _, folder := range []string{dir, shared} {
				if info, err := os.Stat(filepath.Join(folder, name+suffix)); folder != "" && err == nil {
					size += info.Size()
				}
			}
		}
		m.size.WithLabelValues(name).Set(float64(size))
	}
	for folder, path := range map[string]string{ownFolder: dir, sharedFolder: shared} {
		var st syscall.Statfs_t
		if path != "" && syscall.Statfs(path, &st) == nil {
			m.free.WithLabelValues(folder).Set(float64(st.Bavail) * float64(st.Bsize))
		}
	}
}
