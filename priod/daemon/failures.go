package daemon

import (
	"fmt"
	"strings"

	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/slurmplug"
)

// failed logs each step of a job whose user agreed to requeues, and for others that they
// failed.
func (d *Daemon) failed(x *retry.Failure) {
	line := []any{"cycle", d.cycle, "job", x.Job.String(), "user", x.User, "class", x.Class, "rule", x.Rule, "state", string(x.State)}
	if x.Retry == "" {
		d.Log.Debug("failure", line...)
		return
	}
	line = append(line, "do", string(x.Do), "why", string(x.Why), "nodes", strings.Join(x.Fault, ","))
	if x.Exclude != "" {
		line = append(line, "refuses", x.Exclude)
	}
	if x.Why == retry.TooLate || x.Message == retry.NotTaken {
		d.metrics.trouble.lost.WithLabelValues(lostFailure).Inc()
	}
	if x.Message != "" {
		line = append(line, "message", x.Message)
	}
	d.Log.Info("failure", line...)
}

// drained logs a node that was taken out of use.
func (d *Daemon) drained(x *retry.Drained, r *plan.Result) {
	line := []any{"cycle", d.cycle, "node", x.Node, "class", x.Class, "why", fmt.Sprintf("jobs of %d users failed there", d.Config.Constants.Retries.Users)}
	if r.Status != slurmplug.Applied {
		d.Log.Error("node not drained", append(line, "message", r.Message)...)
		return
	}
	d.Log.Warn("node drained", line...)
}
