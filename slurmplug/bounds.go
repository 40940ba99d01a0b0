package slurmplug

import (
	"context"
	"math"
	"strings"
)

// Bounds is what a pending job says of its nodes that squeue does not tell; 0 is
// what is not said.
type Bounds struct {
	Most                int // nodes
	Tasks, TasksPerNode int
	CPUs, CPUsPerGPU    int   // CPUs: of each node
	MemMB               int64 // of each node
}

// Bounds reads what a job says of its nodes, by its record in the queue; the tasks of
// an array all say the same.
func (c *Client) Bounds(ctx context.Context, record *Job) (Bounds, error) {
	out, err := c.showJob(ctx, Plain(record.RawID).String())
	if err != nil {
		return Bounds{}, err
	}
	b, err := parseBounds(record, out)
	if err != nil {
		return Bounds{}, doubtful("scontrol show job", "job %s: %w", record.ID, err)
	}
	return b, nil
}

// parseBounds reads the first record: those of an array's tasks follow. A word that
// stands there twice is not believed.
func parseBounds(record *Job, out string) (b Bounds, err error) {
	s, err := cutShown(record, out)
	if err != nil {
		return b, err
	}
	words, twice := map[string]string{}, map[string]bool{}
	collect := func(text string, counts func(key string) bool) {
		for word := range strings.FieldsSeq(text) {
			if key, value, ok := strings.Cut(word, "="); ok && counts(key) {
				_, twice[key] = words[key]
				words[key] = value
			}
		}
	}
	collect(s.head, func(key string) bool { return key != "CpusPerTres" })
	collect(s.tail, func(key string) bool { return key == "CpusPerTres" })
	number := func(key, text string) int {
		n, err := parseUint(text, math.MaxInt32)
		if err != nil || twice[key] {
			return 0
		}
		return int(n)
	}
	// The lower bound is Slurm's estimate once it has looked at the job: of -N1-4 it then
	// says 4-4 (seen on 22.05.8).
	if _, most, bounded := strings.Cut(words["NumNodes"], "-"); bounded {
		b.Most = number("NumNodes", most)
	}
	perNode, _, _ := strings.Cut(words["NtasksPerN:B:S:C"], ":")
	b.Tasks, b.TasksPerNode, b.CPUs = number("NumTasks", words["NumTasks"]), number("NtasksPerN:B:S:C", perNode), number("MinCPUsNode", words["MinCPUsNode"])
	if n, err := perGPU(words["CpusPerTres"]); err == nil && !twice["CpusPerTres"] {
		b.CPUsPerGPU = n
	}
	if mb, err := ParseMemory(words["MinMemoryNode"]); err == nil && !twice["MinMemoryNode"] {
		b.MemMB = mb
	}
	return b, nil
}
