package slurmplug

import (
	"context"
	"fmt"
	"strings"
)

// NodeMemory is how a job asks for memory.
type NodeMemory struct {
	MB  int64  // of its one node, by --mem; -1 for a job that asks in any other way, or shares or owns its node
	UID string // of its user; "" when Slurm did not say
}

// NodeMemory reads how a job that waits or runs asks for memory. The record is the
// queue's, of the job. ErrNoJob when slurmctld does not know it.
func (c *Client) NodeMemory(ctx context.Context, job JobID, record *Job) (m NodeMemory, err error) {
	out, err := c.showJob(ctx, job.String())
	if err != nil {
		return m, err
	}
	if m, err = parseNodeMemory(record, out); err != nil {
		return m, doubtful("scontrol show job", "job %s: %w", job, err)
	}
	return m, nil
}

// parseNodeMemory reads what scontrol shows of one job. By anything but --mem a job could
// not be given back what it asked for word for word, so only that counts.
func parseNodeMemory(record *Job, out string) (NodeMemory, error) {
	words, err := askedWords(record, out)
	if err != nil {
		return NodeMemory{}, err
	}
	m := NodeMemory{MB: -1, UID: uidOf(words)}
	text, byNode := words["MinMemoryNode"]
	_, byGPU := words["MemPerTres"]
	_, het := words["HetJobId"]
	nodes := words["NumNodes"]
	alone, err := alone(words)
	if err != nil || !byNode || byGPU || het || alone != "" || nodes != "1" && nodes != "1-1" {
		return m, err
	}
	mb, err := ParseMemory(text)
	if err != nil {
		return m, fmt.Errorf("MinMemoryNode: %w", err)
	}
	if mb > 0 { // else all memory of the node
		m.MB = mb
	}
	return m, nil
}

// KeepsMemory says why this Slurm cannot lower the memory of jobs that run, by what they
// have used; "" when it can. No command offers that: slurmctld takes MinMemoryNode= of
// such a job since 26.05, by its extern step (seen on 26.05.5; 24.11.5 answers "Job is no
// longer pending execution").
func (c Config) KeepsMemory() string {
	switch {
	case !c.AtLeast(26, 5):
		return fmt.Sprintf("Slurm %s lowers no memory of a job that runs; 26.05 and later do", c.Version())
	case !c.lists("PrologFlags", "Contain"):
		return "PrologFlags has not Contain: Slurm lowers the memory of a job that runs only by its extern step"
	case !c.MeasuresMemory():
		return "JobAcctGatherType is none: nothing tells what memory jobs use"
	case !c.ConsumesMemory():
		return "Slurm does not count memory (SelectTypeParameters)"
	}
	return ""
}

// MeasuresMemory tells whether the memory that jobs use is measured.
func (c Config) MeasuresMemory() bool {
	kind := c.values["JobAcctGatherType"]
	return kind != "" && !strings.HasSuffix(kind, "/none")
}
