package allocate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
)

// pool is the GPUs of one type on nodes of the same partitions. A job can use them if one of these is in its own list.
type pool struct {
	node    cluster.Node // one of them
	gpuType int
	gpus    int // of usable nodes
}

func samePool(a, b pool) bool {
	return a.gpuType == b.gpuType && a.gpus == b.gpus && slices.Equal(a.node.Partitions, b.node.Partitions)
}

// findPools are the pools of the nodes that count, in the order of the types.
func (l *Ledger) findPools(nodes []cluster.Node) (pools []pool) {
	at := map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		t, known := slices.BinarySearch(l.shares.Types, n.GPUType)
		if !known || !l.countsNode(n) {
			continue
		}
		key := n.GPUType + "\x00" + strings.Join(n.Partitions, ",")
		k, known := at[key]
		if !known {
			k = len(pools)
			at[key], pools = k, append(pools, pool{node: cluster.Node{Partitions: slices.Clone(n.Partitions)}, gpuType: t})
		}
		if n.Usable {
			pools[k].gpus += n.GPUs
		}
	}
	slices.SortStableFunc(pools, func(a, b pool) int { return cmp.Compare(a.gpuType, b.gpuType) })
	return pools
}

// mostColumns is how many columns a problem has at most: a step of its solution takes time by the third power of that.
const mostColumns = placement.MaxTypes

// column is what the optimiser divides: a GPU type, or where some jobs can use only a part of its nodes, the pools of the type
// that the same jobs can use.
type column struct {
	gpuType int
	gpus    int
	lists   map[string]bool // partitions of the jobs that can use it, as they stand in the jobs; nil: the type is one column
}

// divide returns the columns for the jobs that take part, those of a type together. Where each job can use all nodes of a type,
// they are the types.
func (l *Ledger) divide() (all []column) {
	lists := map[string]bool{}
	if len(l.pools) > len(l.shares.Types) {
		for _, e := range l.queue {
			if e != nil {
				lists[e.request.Partitions] = true
			}
		}
	}
	for t := range l.shares.Types {
		var own []column
		for i := range l.pools {
			if p := &l.pools[i]; p.gpuType == t {
				own = add(own, p, lists)
			}
		}
		if len(own) < 2 {
			own = []column{{gpuType: t, gpus: l.gpus[t]}}
		}
		all = append(all, own...)
	}
	for len(all) > max(mostColumns, len(l.shares.Types)) {
		all = joinSmallest(all)
	}
	return all
}

// setColumns divides anew. Prices of other columns are no start for these.
func (l *Ledger) setColumns() {
	now := l.divide()
	if !slices.EqualFunc(now, l.columns, func(a, b column) bool { return a.gpuType == b.gpuType && maps.Equal(a.lists, b.lists) }) {
		l.warm = Warm{}
	}
	l.columns = now
}

// add counts a pool in the column of the jobs that can use it.
func add(own []column, p *pool, lists map[string]bool) []column {
	can := map[string]bool{}
	for list := range lists {
		if p.node.In(list) {
			can[list] = true
		}
	}
	if k := slices.IndexFunc(own, func(c column) bool { return maps.Equal(c.lists, can) }); k >= 0 {
		own[k].gpus += p.gpus
		return own
	}
	return append(own, column{p.gpuType, p.gpus, can})
}

// joinSmallest makes one column of the two smallest ones of the type that has most of them.
func joinSmallest(all []column) []column {
	count := map[int]int{}
	for _, c := range all {
		count[c.gpuType]++
	}
	first, second := -1, -1
	for i, c := range all {
		switch smaller := func(than int) bool {
			return than < 0 || cmp.Or(-cmp.Compare(count[c.gpuType], count[all[than].gpuType]), cmp.Compare(c.gpuType, all[than].gpuType), cmp.Compare(c.gpus, all[than].gpus)) < 0
		}; {
		case smaller(first):
			first, second = i, first
		case smaller(second):
			second = i
		}
	}
	into, gone := &all[min(first, second)], max(first, second)
	into.gpus += all[gone].gpus
	if maps.Copy(into.lists, all[gone].lists); count[into.gpuType] == 2 {
		into.lists = nil
	}
	return slices.Delete(all, gone, gone+1)
}

// spread returns what a job has by type as it is by column: 0 where it has nothing, or its partitions do not reach. A job
// of which only the partition is known where it runs may use all columns of a type that lies elsewhere.
func (l *Ledger) spread(byType []float64, list string) []float64 {
	if len(l.columns) == len(l.shares.Types) || byType == nil {
		return byType
	}
	row := make([]float64, len(l.columns))
	for i := 0; i < len(l.columns); {
		n, reached := i, false
		for ; n < len(l.columns) && l.columns[n].gpuType == l.columns[i].gpuType; n++ {
			reached = reached || l.columns[n].lists[list]
		}
		for ; i < n; i++ {
			if c := &l.columns[i]; !reached || c.lists[list] {
				row[i] = byType[c.gpuType]
			}
		}
	}
	return row
}

// byType adds up what a job has in the columns of each type.
func (l *Ledger) byType(row []float64) []float64 {
	if len(l.columns) == len(l.shares.Types) {
		return row
	}
	sum := make([]float64, len(l.shares.Types))
	for i, x := range row {
		sum[l.columns[i].gpuType] += x
	}
	return sum
}
