package live

import (
	"context"
	"fmt"
	"time"

	"slurmprio/priod/cluster"
)

// CheckWorking says what shows which running jobs work, and what would show more. tells: their users are to be told.
func (c *Cluster) CheckWorking(ctx context.Context, s Sources, tells bool) (out []Finding) {
	const name = "idle jobs"
	if err := c.refreshConfig(ctx, time.Now()); tells && err == nil && !c.conf.Superuser() {
		out = append(out, Finding{Level: Warn, Name: name, Text: "usage.on_idle has notify: only root and SlurmUser may write into a job's output", Fix: "run priod as SlurmUser or root, or leave notify out"})
	}
	if s.Prometheus == "" {
		return append(out, Finding{Level: Pass, Name: name, Text: "the load of nodes shows which jobs work that have theirs alone; usage.prometheus would show the GPUs of all"})
	}
	r, err := askPrometheus(ctx, s.Prometheus, time.Minute)
	switch {
	case err != nil:
		return append(out, Finding{Level: Warn, Name: name, Text: fmt.Sprintf("usage.prometheus: %s: %v", s.Prometheus, err), Fix: "start it, or correct usage.prometheus"})
	case len(r.jobs)+len(r.nodes) == 0:
		return append(out, Finding{
			Level: Warn, Name: name, Text: fmt.Sprintf("usage.prometheus: %s has no metric of GPUs that priod knows", s.Prometheus),
			Fix: "export " + dcgmUse + " with hpc_job or Hostname, " + jobstatsUse + " with " + jobstatsJob + ", or " + exporterUse,
		})
	}
	gpus := 0
	for _, u := range r.nodes {
		gpus += u.gpus
	}
	text := fmt.Sprintf("%s shows the GPUs of %d jobs, and %d GPUs by node", cluster.FromPrometheus, len(r.jobs), gpus)
	if r.dropped > 0 {
		text += fmt.Sprintf("; %d samples make no sense and are left out", r.dropped)
	}
	return append(out, Finding{Level: Pass, Name: name, Text: text})
}
