package live

import (
	"context"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Past reads from accounting the runs that ended or began in a span of time.
func (c *Cluster) Past(ctx context.Context, since, until time.Time) ([]cluster.PastStay, error) {
	runs, err := c.client.History(ctx, since, until)
	if err != nil {
		return nil, err
	}
	types, err := c.typesNow(ctx)
	if err != nil {
		return nil, err
	}
	past := make([]cluster.PastStay, len(runs))
	for i := range runs {
		past[i] = pastStay(&runs[i], types)
	}
	return past, nil
}

// Nodes are the nodes as they are now.
func (c *Cluster) Nodes(ctx context.Context) ([]cluster.Node, error) {
	nodes, err := c.client.Nodes(ctx)
	return ConvertNodes(nodes), err
}

// typesNow reads which GPU types the nodes have, by node.
func (c *Cluster) typesNow(ctx context.Context) (map[string]string, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return gpuTypes(nodes), nil
}

// pastStay is a row of accounting as a stay; types are the GPU types of the nodes, for
// a Slurm that does not account for types.
func pastStay(r *slurmplug.Run, types map[string]string) cluster.PastStay {
	held := slurmplug.Job{TRES: r.AllocTRES}
	gpuType, gpus, _ := held.AllocatedGPUs()
	if gpuType == "" && gpus > 0 {
		gpuType = allocatedType(r.NodeList, types)
	}
	tag, _ := jobtag.Split(r.Comment)
	return cluster.PastStay{
		Stay: cluster.Stay{
			Job: r.ID, Start: r.Start, End: r.End, Closed: !r.End.IsZero() && !r.Start.IsZero(),
			GPUType: gpuType, GPUs: gpus, User: r.User, Account: r.Account,
		},
		RawID: r.RawID, Name: r.Name, QOS: r.QOS, NodeList: r.NodeList, State: r.State, Submit: r.Submit, Eligible: r.Eligible, Tag: tag,
	}
}
