package slurmplug

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
)

// RunningSteps are the steps of a job that run now.
type RunningSteps struct {
	Batch       bool // its batch script
	Interactive bool // the shell of salloc on a node (LaunchParameters=use_interactive_step)
	Tasks       int  // steps of srun
}

// RunningSteps reads the steps that run now, by job.
func (c *Client) RunningSteps(ctx context.Context) (map[JobID]RunningSteps, error) {
	return rowsOf(ctx, c, "squeue --steps", parseSteps, "squeue", "--all", "--local", "--steps", "--noheader", "--format=%i")
}

// parseSteps reads lines such as "17.0", "17.batch" and "20_4.extern".
func parseSteps(out string, t *table) (map[JobID]RunningSteps, error) {
	steps := map[JobID]RunningSteps{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		id, step, is := strings.Cut(line, ".")
		id, _, _ = strings.Cut(id, "+") // of a component of a heterogeneous job
		job, err := ParseJobID(id)
		if !is {
			err = errors.New("no step")
		}
		if t.row(line, err); err != nil {
			continue
		}
		s := steps[job]
		switch step {
		case "batch":
			s.Batch = true
		case "interactive":
			s.Interactive = true
		case "extern":
		default:
			s.Tasks++
		}
		steps[job] = s
	}
	return steps, t.read()
}

// Work is what the steps that run now of a job have used so far.
type Work struct {
	CPU    time.Duration
	GPUUse float64 // the largest sample of one task, %; below 0: not measured
}

// Work reads what the running steps of running jobs have used so far, by Slurm's own id of a record. Jobs with a step that
// was not measured are left out. sstat asks the jobs' nodes; Slurm lets SlurmUser, root and a job's owner do so.
func (c *Client) Work(ctx context.Context, raw []uint32) (map[uint32]Work, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return rowsOf(ctx, c, "sstat", parseWork, "sstat", "--noheader", "--parsable2", "--allsteps", "--noconvert", "--jobs="+idList(raw), "--format=JobID,TRESUsageInTot,TRESUsageInMax")
}

// parseWork reads lines such as "7.batch|cpu=00:00:12,energy=0,mem=1404928|cpu=00:00:12,gres/gpuutil=35".
func parseWork(out string, t *table) (map[uint32]Work, error) {
	all, unmeasured := map[uint32]Work{}, map[uint32]bool{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		id, step, _ := strings.Cut(fields[0], ".")
		job, err := parseUint(id, math.MaxUint32)
		if err != nil || len(fields) != 3 {
			t.row(fields[0], errors.Join(err, fmt.Errorf("%d fields, want 3", len(fields))))
			continue
		}
		w, known := all[uint32(job)]
		if !known {
			w.GPUUse = -1
		}
		err = w.add(fields[1], fields[2])
		if t.row(fields[0], err); err != nil {
			unmeasured[uint32(job)] = unmeasured[uint32(job)] || step != "extern"
			continue
		}
		if fields[1] == "" {
			unmeasured[uint32(job)] = unmeasured[uint32(job)] || step != "extern"
			continue
		}
		all[uint32(job)] = w
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(job uint32, _ Work) bool { return unmeasured[job] })
	return all, nil
}

// add adds what one step has used.
func (w *Work) add(total, most string) error {
	for item := range strings.SplitSeq(total, ",") {
		if used, is := strings.CutPrefix(item, "cpu="); is {
			s, err := cpuSeconds([]byte(used))
			if err != nil {
				return fmt.Errorf("TRESUsageInTot: %w", err)
			}
			w.CPU += time.Duration(s * float64(time.Second))
		}
	}
	for item := range strings.SplitSeq(most, ",") {
		if amount, is := strings.CutPrefix(item, "gres/gpuutil="); is && amount != "" {
			// Of a GPU that it could not ask Slurm shows 2^64 - 1, or - 2.
			if use, err := strconv.ParseUint(amount, 10, 8); err == nil && use <= 100 {
				w.GPUUse = max(w.GPUUse, float64(use))
			}
		}
	}
	return nil
}
