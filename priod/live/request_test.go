package live

import (
	"context"
	"testing"

	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// denying is a slurmctld that refuses updates, and then shows no job.
type denying struct{}

func (denying) Run(_ context.Context, c slurmplug.Command) (slurmplug.Output, error) {
	if c.Name == "sdiag" {
		busy := "Server thread count: 1\nAgent queue size: 0\nDBD Agent queue size: 0\nRemote Procedure Call statistics by user\n"
		return slurmplug.Output{Stdout: []byte(busy)}, nil
	}
	out := "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
	if len(c.Args) > 0 && c.Args[0] == "update" {
		out = "Requested node configuration is not available for job 17\n"
	}
	return slurmplug.Output{Stdout: []byte(out)}, &slurmplug.CommandError{Command: c.Name, Kind: slurmplug.ErrExit, Status: 1, Message: out}
}

// Slurm may have taken some fields of a size before it refused one. Where the job
// cannot be read back, that is not known, and not forgotten as a refusal is.
func TestRefusedSizeNotSeen(t *testing.T) {
	a := plan.Action{Job: slurmplug.Plain(17), Lever: slurmplug.Size, Before: "NumCPUs=3", After: "NumCPUs=6", Was: "NumCPUs=3"}
	got := New(slurmplug.NewClient(denying{}, slurmplug.Options{})).Apply(t.Context(), []plan.Action{a})
	if got[0].Status != slurmplug.Unknown {
		t.Errorf("%s: %s", got[0].Status, got[0].Message)
	}
}
