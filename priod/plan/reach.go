package plan

import (
	"math"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
)

// Reach is what a job can run on: all nodes of its partitions.
type Reach struct {
	GPUs int // of all nodes; where none has any, what they count as (cluster.Charges), rounded up
	Node int // of the node with the most
}

// ReachOf counts the GPUs of the nodes of one or more partitions, each node once, in service or not.
func ReachOf(nodes []cluster.Node, partitions string) (r Reach) {
	cpus, most := 0, 0
	for i := range nodes {
		if n := &nodes[i]; n.In(partitions) {
			r.GPUs, r.Node = r.GPUs+n.GPUs, max(r.Node, n.GPUs)
			cpus, most = cpus+n.CPUs, max(most, n.CPUs)
		}
	}
	if r.GPUs == 0 && cpus > 0 {
		byCPU := cluster.GPUsByCPU(nodes)
		r.GPUs, r.Node = int(math.Ceil(byCPU*float64(cpus))), int(math.Ceil(byCPU*float64(most)))
	}
	return r
}

// PerGPU returns how many of some jobs, counted by their lists of partitions, there are for each of the GPUs that jobs of a list
// reach; 0 where they reach none. A job of several partitions counts in equal parts on all GPUs that it reaches itself.
func PerGPU(nodes []cluster.Node, jobs map[string]int) func(partitions string) float64 {
	type pool struct {
		of         *cluster.Node // one of the nodes of the same partitions
		gpus, load float64
	}
	var pools []pool
	at := map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		key := strings.Join(n.Partitions, ",")
		k, known := at[key]
		if !known {
			k = len(pools)
			at[key], pools = k, append(pools, pool{of: n})
		}
		pools[k].gpus += float64(n.GPUs)
	}
	sum := func(partitions string) (gpus, load float64) {
		for i := range pools {
			if pools[i].of.In(partitions) {
				gpus, load = gpus+pools[i].gpus, load+pools[i].load
			}
		}
		return gpus, load
	}
	lists := make([]string, 0, len(jobs))
	for list := range jobs {
		lists = append(lists, list)
	}
	slices.Sort(lists) // sums do not depend on the order of a map
	for _, list := range lists {
		gpus, _ := sum(list)
		for i := range pools {
			if p := &pools[i]; p.of.In(list) && gpus > 0 {
				p.load += float64(jobs[list]) * (p.gpus / gpus)
			}
		}
	}
	known := map[string]float64{}
	return func(partitions string) float64 {
		of, is := known[partitions]
		if gpus, load := sum(partitions); !is && gpus > 0 {
			of = load / gpus
			known[partitions] = of
		}
		return of
	}
}
