package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slurmprio/priod/idle"
)

// resumeIdle takes in which running jobs did not work when an earlier process last looked, and what spells taught.
func (d *Daemon) resumeIdle(ctx context.Context, at time.Time) error {
	spells, err := d.Store.Spells(ctx, d.clock.now())
	if err != nil {
		return err
	}
	d.state.Idle.Restore(spells, at)
	return nil
}

// idled logs a job that was found without work, what was done about it, and how that ended.
func (d *Daemon) idled(x *idle.Spell) {
	if x.Found.IsZero() {
		return
	}
	line := []any{"cycle", d.cycle, "job", x.Job.String(), "user", x.User, "kind", string(x.Kind), "since", x.Since, "source", x.Source, "gpus", x.GPUs}
	if !x.Acted.IsZero() {
		line = append(line, "do", string(x.Do))
	}
	if x.How != "" {
		line = append(line, "ended", string(x.How))
		d.metrics.idling.ended.WithLabelValues(string(x.Kind), string(x.How)).Inc()
	}
	if x.Message != "" {
		line = append(line, "message", x.Message)
	}
	d.Log.Info("job without work", line...)
}

// idleMetrics tell of running jobs that do not work.
type idleMetrics struct {
	jobs    *prometheus.GaugeVec
	gpus    *prometheus.GaugeVec
	watched *prometheus.GaugeVec
	ended   *prometheus.CounterVec
}

func newIdleMetrics(f factory) *idleMetrics {
	m := &idleMetrics{
		jobs:    f.gauges("priod_idle_jobs", "Running jobs that hold GPUs and show no work (idle), that worked before (hung), or that never did (never-used).", "kind"),
		gpus:    f.gauges("priod_idle_gpus", "GPUs that such jobs hold.", "kind"),
		watched: f.gauges("priod_idle_watched_jobs", "Running jobs on GPUs by whether a source tells what they do.", "known"),
		ended:   f.NewCounterVec(prometheus.CounterOpts{Name: "priod_idle_ended_total", Help: "Times without work that ended: with the job (ended), by priod (requeued, cancelled, evicted) or by themselves (worked), which are false alarms."}, []string{"kind", "how"}),
	}
	for _, kind := range []idle.Kind{idle.Idle, idle.Hung, idle.NeverUsed} {
		for _, how := range []idle.How{idle.Worked, idle.Ended, idle.Requeued, idle.Cancelled, idle.Evicted} {
			m.ended.WithLabelValues(string(kind), string(how))
		}
	}
	return m
}

// idle takes in what the last cycle saw of running jobs.
func (m *metrics) idle(t idle.Tally) {
	for kind, n := range t.Idle {
		m.idling.jobs.WithLabelValues(string(kind)).Set(float64(n.Jobs))
		m.idling.gpus.WithLabelValues(string(kind)).Set(float64(n.GPUs))
	}
	m.idling.watched.WithLabelValues("yes").Set(float64(t.Watched))
	m.idling.watched.WithLabelValues("no").Set(float64(t.Unseen))
}
