package view

import (
	"context"
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// Wrong is a question that cannot be asked so.
type Wrong struct{ error }

func (w Wrong) Unwrap() error { return w.error }

func wrongf(format string, a ...any) error { return Wrong{fmt.Errorf(format, a...)} }

var errSLUID = fmt.Errorf("%w under a SLUID: ask by the job's number", store.ErrNone)

// Find finds the id of a job that was named: a component in what the cycles stored, or
// without a reader in Slurm's queue, a run by its SLUID there alone.
func Find(ctx context.Context, cfg *config.Config, r *store.Reader, name slurmplug.JobName) (cluster.JobID, error) {
	switch {
	case name.SLUID == "" && name.Offset < 0:
		return name.Job, nil
	case name.SLUID == "" && r != nil:
		return r.Component(ctx, name.Job.ID, name.Offset)
	}
	if r != nil && !r.Moment().IsZero() {
		return cluster.JobID{}, errSLUID
	}
	jobs, err := cfg.Client(0).Jobs(ctx)
	if err != nil {
		return cluster.JobID{}, fmt.Errorf("look for job %s: %w", name, err)
	}
	return inQueue(jobs, name)
}

// inQueue finds a job that was named by its SLUID, or a component, in Slurm's queue.
func inQueue(jobs []slurmplug.Job, name slurmplug.JobName) (cluster.JobID, error) {
	for i := range jobs {
		j := &jobs[i]
		if name.SLUID != "" && j.SLUID == name.SLUID || name.SLUID == "" && j.HetID == name.Job.ID && j.HetOffset == name.Offset {
			return j.ID, nil
		}
	}
	return cluster.JobID{}, fmt.Errorf("no job %s is in Slurm's queue", name)
}

// FindStored finds a job by its name in the state folder alone.
func FindStored(ctx context.Context, r *store.Reader, text string) (cluster.JobID, error) {
	name, err := slurmplug.ParseJobName(text)
	switch {
	case err != nil:
		return cluster.JobID{}, Wrong{err}
	case name.SLUID != "":
		return cluster.JobID{}, errSLUID
	case name.Offset >= 0:
		return r.Component(ctx, name.Job.ID, name.Offset)
	}
	return name.Job, nil
}

// noJob is a job that priod does not know, or not of that user: store.ErrNone in other words.
type noJob struct{ error }

func (noJob) Is(target error) bool { return target == store.ErrNone }
