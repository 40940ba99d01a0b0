package live

import (
	"context"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Past reads from accounting the runs that ended or began in a span of time.
func (c *Cluster) Past(ctx context.Context, since, until time.Time) ([]cluster.PastRun, error) {
	runs, err := c.client.History(ctx, since, until)
	if err != nil {
		return nil, err
	}
	nodes, err := c.client.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	types := gpuTypes(convertNodes(nodes))
	past := make([]cluster.PastRun, 0, len(runs))
	for i := range runs {
		r := &runs[i]
		held := slurmplug.Job{TRES: r.AllocTRES}
		gpuType, gpus, _ := held.AllocatedGPUs()
		if gpuType == "" && gpus > 0 {
			gpuType = allocatedType(r.NodeList, types)
		}
		p := cluster.PastRun{Submit: r.Submit, Eligible: r.Eligible, QOS: r.QOS, Interval: cluster.Interval{
			Job: r.ID, Start: r.Start, End: r.End, Closed: !r.End.IsZero() && !r.Start.IsZero(),
			GPUType: gpuType, GPUs: gpus, User: r.User, Account: r.Account,
		}}
		text, _ := jobtag.Split(r.Comment)
		if tag, err := jobtag.Parse(text); err == nil {
			p.TagType = tag.Type
		}
		past = append(past, p)
	}
	return past, nil
}
