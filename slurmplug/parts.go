package slurmplug

import (
	"context"
	"fmt"
	"strings"
)

// NodePart is what a running job holds of one of its nodes.
type NodePart struct {
	Node  string
	GPUs  int
	CPUs  int
	MemMB int64
}

// Parts reads what a running job holds of each of its nodes. The record is the queue's, of the
// job. ErrNoJob when slurmctld does not know it.
func (c *Client) Parts(ctx context.Context, record *Job) ([]NodePart, error) {
	return shownOf(ctx, c, record.ID, record, parseParts, "--details") // by RawID it may show all tasks of an array
}

// parseParts reads groups of "Nodes= CPU_IDs= Mem= GRES=", one for each row of nodes of which the
// job holds the same CPUs and GPUs, in the order of its nodes. CPUs and memory are of each node.
// They stand behind JOB_GRES=, before the first text that a user chooses (slurm_sprint_job_info).
func parseParts(record *Job, out string) (parts []NodePart, err error) {
	s, err := cutShown(record, out)
	if err != nil {
		return nil, err
	}
	_, details, found := strings.Cut(s.head, " JOB_GRES=")
	if !found {
		return nil, nil // it holds nothing
	}
	details, _, _ = strings.Cut(details, " MinCPUsNode=")
	for _, group := range strings.Split(details, " Nodes=")[1:] {
		words := map[string]string{}
		if err := addWords(words, "Nodes="+group, func(string) bool { return true }); err != nil {
			return nil, err
		}
		hosts, err := ExpandHosts(words["Nodes"])
		if err != nil {
			return nil, fmt.Errorf("word Nodes: %w", err)
		}
		var p NodePart
		if p.CPUs, err = CountTasks(words["CPU_IDs"]); err != nil {
			return nil, fmt.Errorf("CPU_IDs: %w", err)
		}
		if p.MemMB, err = parseCount(words["Mem"]); err != nil {
			return nil, fmt.Errorf("word Mem: %w", err)
		}
		gres, err := ParseGres(words["GRES"])
		if err != nil {
			return nil, fmt.Errorf("GRES: %w", err)
		}
		p.GPUs, _ = countGPUs(gres)
		for _, p.Node = range hosts {
			parts = append(parts, p)
		}
	}
	return parts, nil
}
