package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/slurmplug/prio"
)

// checkHold compares the hold of this host with the time until a cycle has seen a job. Without
// it jobs start on whatever free GPU they meet. Other hosts' files cannot be seen from here; lua is the hold of
// job_submit.lua, 0 where there is none.
func checkHold(cfg *config.Config, file string, lua time.Duration) []live.Finding {
	if !cfg.Steering.Enabled && !cfg.Sizing.Enabled {
		return nil
	}
	interval := time.Duration(cfg.Cycle.Interval)
	needed := wholeSeconds(interval + cycleTakes)
	enough := min(max(wholeSeconds(2*interval), needed), prio.LongestHold)
	f := live.Finding{Level: live.Warn, Name: "hold", Fix: fmt.Sprintf("on each host where users submit, and here for this check: echo %s >%s", shortSpan(enough), file)}
	if needed > prio.LongestHold {
		f.Text = fmt.Sprintf("cycle.interval and a cycle take %s, longer than any hold (%s at most): jobs that find a free GPU start unsteered and unsized", needed, prio.LongestHold)
		f.Fix = "cycle.interval = \"10s\""
		return []live.Finding{f}
	}
	if lua >= needed {
		return []live.Finding{{Level: live.Pass, Name: "hold", Text: fmt.Sprintf("job_submit.lua holds jobs for %s, cycle.interval and a cycle take %s", lua, needed)}}
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var hold time.Duration
	if err == nil {
		hold, err = prio.ParseHold(string(text))
	}
	switch {
	case err != nil:
		f.Text = fmt.Sprintf("%s: %v", file, err)
	case hold == 0:
		f.Text = fmt.Sprintf("%s on this host sets no hold: jobs that find a free GPU start before a cycle sees them, unsteered and unsized", file)
	case hold < needed:
		f.Text = fmt.Sprintf("the hold of %s (%s on this host) is shorter than cycle.interval and a cycle (%s): some jobs start before a cycle sees them", hold, file, needed)
	default:
		return []live.Finding{{Level: live.Pass, Name: "hold", Text: fmt.Sprintf("%s of this host holds jobs for %s, cycle.interval and a cycle take %s", file, hold, needed)}}
	}
	return []live.Finding{f}
}

// cycleTakes is what a cycle itself may take beside its interval, until its writes are with Slurm.
const cycleTakes = 2 * time.Second

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// shortSpan is a duration without zero parts: 20s, 1m.
func shortSpan(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
