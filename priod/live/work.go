package live

import (
	"context"
	"math"
	"regexp"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
)

// Stays reads from accounting the runs of GPU jobs that ended between since and until
// (zero: now). A group of the expression steps finds the number of steps in a job's
// command line; nil: that is not read. It may run beside the other methods.
func (c *Cluster) Stays(ctx context.Context, since, until time.Time, steps *regexp.Regexp) ([]cluster.PastStay, error) {
	rows, err := c.client.History(ctx, since, until)
	if err != nil {
		return nil, err
	}
	types, err := c.typesNow(ctx)
	if err != nil {
		return nil, err
	}
	var lines map[uint32]string
	if steps != nil {
		if lines, err = c.client.SubmitLines(ctx, since, until); err != nil {
			return nil, err
		}
	}
	var stays []cluster.PastStay
	for i := range rows {
		s := pastStay(&rows[i], types)
		if s.GPUs == 0 || !s.Closed {
			continue
		}
		if steps != nil {
			s.Steps = stepsIn(lines[s.RawID], steps)
		}
		stays = append(stays, s)
	}
	return stays, nil
}

// stepsIn reads the number of steps in a command line, 0 when there is none.
func stepsIn(line string, steps *regexp.Regexp) float64 {
	if m := steps.FindStringSubmatch(line); m != nil {
		if v, err := strconv.ParseFloat(m[1], 64); err == nil && v > 0 && !math.IsInf(v, 1) {
			return v
		}
	}
	return 0
}
