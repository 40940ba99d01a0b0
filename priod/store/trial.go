package store

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"slurmprio/priod/trial"
)

func trialPath(dir string) string { return filepath.Join(dir, "trial.json") }

// Trial is the last trial of a folder, over or not; nil: there was none.
func Trial(dir string) (*trial.Trial, error) {
	t, err := readFile[trial.Trial](trialPath(dir))
	if err == nil && t != nil {
		err = t.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("whether a trial is on: %s: %w (remove the file to be without a trial)", trialPath(dir), err)
	}
	return t, nil
}

// SaveTrial keeps a trial, in place of the last one.
func SaveTrial(dir string, t *trial.Trial) error {
	return unchanged("trial", dir, writeFile(trialPath(dir), t))
}

// TrialJobs are the GPU jobs that were submitted while a trial was on. The GPU-hours of earlier runs of a job without
// checkpoints are lost.
func (r *Reader) TrialJobs(ctx context.Context, t *trial.Trial) ([]trial.Job, error) {
	all, err := r.JobsSince(ctx, t.Start)
	jobs := make([]trial.Job, 0, len(all))
	for i := range all {
		x := &all[i]
		if !x.Submit.Before(t.End()) {
			continue
		}
		j := trial.Job{Submit: x.Submit, Ready: x.Ready, Start: x.Start, Ran: x.Ran, TE: x.Class == "te" || x.Class == "" && x.Tag.Type == "te", Account: x.Account, GPUs: x.GPUs, Limit: max(x.Limit, 0)}
		if !x.Left.IsZero() {
			j.End = cmp.Or(x.End, x.Left)
		}
		if last := x.End.Sub(x.LastStart); x.Tag.Ckpt == 0 && !x.Left.IsZero() && last < x.Ran {
			j.LostS = (x.Ran - last).Seconds() * float64(x.GPUs)
		}
		for range max(x.Tasks, 1) {
			jobs = append(jobs, j)
		}
	}
	return jobs, err
}
