package live

import (
	"context"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
)

// Used is what accounting says of CPUs and memory.
type Used struct {
	Stays  []sensitivity.Stay           // that ended, the newest first
	Shares map[string]sensitivity.Share // the least of a GPU on the nodes of each type, as they are now
}

// maxRuns is the number of runs after which older ones are not read: they would change
// nothing.
const maxRuns = 50_000

// Used reads from accounting what the runs used that ended in a span of time, day by
// day, because accounting has a row for each step. today gives a GPU type its present
// name.
func (c *Cluster) Used(ctx context.Context, since, until time.Time, today func(string) string) (*Used, error) {
	raw, err := c.client.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	nodes := ConvertNodes(raw)
	types := gpuTypes(nodes)
	u := &Used{Shares: map[string]sensitivity.Share{}}
	for i := range nodes {
		n := &nodes[i]
		if t := types[n.Name]; t != "" {
			share := sensitivity.Share{CPUs: float64(n.CPUs) / float64(n.GPUs), MemMB: float64(n.MemMB) / float64(n.GPUs)}
			if least, more := u.Shares[t]; more {
				share = sensitivity.Share{CPUs: min(share.CPUs, least.CPUs), MemMB: min(share.MemMB, least.MemMB)}
			}
			u.Shares[t] = share
		}
	}
	type run struct {
		id    uint32
		start int64
	}
	seen := map[run]bool{}
	for end := until; end.After(since) && len(u.Stays) < maxRuns; {
		start := cluster.Later(end.Add(-24*time.Hour), since)
		used, err := c.client.Usage(ctx, start, end)
		if err != nil {
			return nil, err
		}
		measured := make(map[run]*slurmplug.Usage, len(used))
		for i := range used {
			measured[run{used[i].RawID, used[i].Start.Unix()}] = &used[i]
		}
		if len(measured) > 0 {
			rows, err := c.history(ctx, start, end)
			if err != nil {
				return nil, err
			}
			for i := range rows {
				r := &rows[i]
				key := run{r.RawID, r.Start.Unix()}
				if m := measured[key]; m != nil && !seen[key] && !r.Start.IsZero() && !r.End.IsZero() {
					seen[key] = true
					u.Stays = append(u.Stays, usedBy(r, m, types, today))
				}
			}
		}
		end = start
	}
	return u, nil
}

// usedBy joins a run's record with what its steps used.
func usedBy(r *slurmplug.Run, m *slurmplug.Usage, types map[string]string, today func(string) string) sensitivity.Stay {
	used := sensitivity.Stay{PastStay: pastStay(r, types), Nodes: m.Nodes, CPUSeconds: m.CPUSeconds, NodeMB: m.NodeMB, GPUUse: m.GPUUse}
	used.GPUType = today(used.GPUType)
	if tres, err := slurmplug.ParseTRES(r.AllocTRES); err == nil {
		cpus, _ := tres.Get("cpu")
		used.CPUs = int(cpus)
		used.MemMB, _ = tres.Get("mem")
	}
	return used
}

// Peaks are the most memory, MB, that the steps now running of running jobs have used so
// far; jobs that are not measured are left out.
func (c *Cluster) Peaks(ctx context.Context, jobs []*cluster.Job) (map[cluster.JobID]int64, error) {
	raw := make([]uint32, len(jobs))
	for i, j := range jobs {
		raw[i] = j.RawID
	}
	used, err := c.client.Peaks(ctx, raw)
	peaks := make(map[cluster.JobID]int64, len(used))
	for _, j := range jobs {
		if mb, measured := used[j.RawID]; measured {
			peaks[j.ID] = mb
		}
	}
	return peaks, err
}
