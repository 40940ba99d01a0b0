package virtual

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// runs is the speed of a job on what it holds.
func (e *engine) runs(j *job) float64 {
	t := e.nodes.Type(j.shares[0].Node)
	speed := e.speed(j, t) * e.spreads(j) / e.slowed(j)
	if e.opt.Speedup == nil || j.GPUs == 0 {
		return speed
	}
	slowest := math.Inf(1)
	for _, s := range j.shares {
		gpus := float64(s.GPUs)
		slowest = min(slowest, e.opt.Speedup(&j.Job, e.types[t], float64(s.CPUs)/gpus, float64(s.MemMB)/gpus))
	}
	return speed * slowest
}

// Ask says how waiting jobs ask for their sizes, as scontrol show job would: those
// that the trace does not give a size ask for the share of their GPUs.
func (s *slurm) Ask(_ context.Context, jobs []*cluster.Job) error {
	for _, row := range jobs {
		j := s.known[row.ID]
		if j == nil || row.State != cluster.Pending {
			continue
		}
		s.asked = append(s.asked, j)
		need, name := s.share(j), ""
		if on := j.request.On; on > 0 {
			name = s.nodes[on-1].Name
		}
		row.Asked = slurmplug.AskedBy(j.GPUs, int(need.CPUs), need.MemMB, name)
		for t := range s.e.types {
			if j.request.Types.Has(int32(t)) && j.GPUs > int(s.e.nodes.Largest(int32(t))) || j.request.Nodes > 1 {
				row.Asked.Fixed = "asks for several nodes"
			}
		}
	}
	return nil
}

// resize writes a value of the lever Size.
func (s *slurm) resize(j *job, value slurmplug.Value) error {
	if !j.pending() {
		return fmt.Errorf("job %s is not pending", j.id)
	}
	size := value.Size()
	if size.By != slurmplug.ByNode {
		return fmt.Errorf("the job does not ask by %.80q", value)
	}
	on := 0
	if name := size.Nodes; name != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
		if err != nil || n < 0 || n >= s.e.nodes.Len() {
			return fmt.Errorf("no node %s", name)
		}
		on = n + 1
	}
	return s.ask(j, func() {
		j.request.CPUs, j.request.MemMB, j.request.On = int32(max(size.PerTask, size.PerNode, size.CPUs)), size.Memory, int32(on)
	})
}
