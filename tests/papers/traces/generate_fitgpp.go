package traces

import (
	"container/heap"
	"errors"
	"fmt"
	"math"

	"slurmprio/priod/cluster"
	"slurmprio/priod/trace"
)

// FitGppParams are the parameters of GenerateFitGpp.
type FitGppParams struct {
	Seed    uint64
	Jobs    int     // 65,536 in the paper
	Mix     string  // "even" or "small-be"
	TEShare float64 // 0.3 in the paper
	// Load of Poisson arrivals: GPUs asked for, times run time, over the GPUs
	// there are. 0: arrivals recorded from a FIFO run that is held at load 2.
	Load float64
	Node trace.NodeGroup // FitGppNode in the paper
}

// FitGppNode is the paper's cluster: 84 nodes of 8 GPUs, 32 CPUs and 256 GB.
var FitGppNode = trace.NodeGroup{Count: 84, GPUType: trace.UntypedGPU, GPUs: 8, CPUs: 32, MemMB: 256 * 1024}

// FitGppMixes are the known mixes.
var FitGppMixes = []string{"even", "small-be"}

// fitgppLoad is at which load the FIFO run is held, by the paper.
const fitgppLoad = 2

// normal is a truncated normal distribution; mean and sd are those before
// truncation.
type normal struct{ mean, sd, low, high float64 }

// GenerateFitGpp makes the synthetic workload of FitGpp (OpML'19). The paper's,
// as far as it is known here: 30 % TE jobs; truncated normals; run times with a
// mean of 5 minutes up to 30 (TE) and of 30 minutes up to 24 h (BE); a grace
// period with a mean of 3 minutes up to 20; arrivals from a FIFO run held at
// load 2; 84 nodes of 8 GPUs, 32 CPUs, 256 GB. Ours, for the paper's demands
// and deviations are not known: standard deviations equal to the mean; least
// run times of 0.5 and 1 minute; demands with a mean of 8 CPUs, 64 GB and 2
// GPUs within a node, and for mix small-be BE demands of 4 CPUs, 32 GB and 1
// GPU and run times that deviate by 90 minutes; load counted in GPUs, of
// running and waiting jobs; a grace period for BE jobs only; each job on one
// node; Poisson arrivals; whole GPUs, CPUs, GB and seconds.
func GenerateFitGpp(p FitGppParams) ([]trace.Job, error) {
	if err := checkJobs(p.Jobs); err != nil {
		return nil, err
	}
	n := p.Node
	switch {
	case p.Mix != "even" && p.Mix != "small-be":
		return nil, fmt.Errorf("mix %.40q: want one of %q", p.Mix, FitGppMixes)
	case !(p.TEShare >= 0 && p.TEShare <= 1):
		return nil, errors.New("share of TE jobs: want 0 to 1")
	case !(p.Load >= 0) || math.IsInf(p.Load, 1):
		return nil, errors.New("load: want more than 0, or 0 for arrivals from a FIFO run")
	case n.Check() != nil:
		return nil, n.Check()
	case n.CPUs == 0 || n.MemMB < 1024:
		return nil, errors.New("nodes: say CPUS and MEM_MB, at least 1 and 1024: jobs are drawn to fit a node")
	}
	gb := float64(n.MemMB / 1024)
	demands := func(cpus, mem, gpus float64) [3]normal {
		return [3]normal{{cpus, cpus, 1, float64(n.CPUs)}, {mem, mem, 1, gb}, {gpus, gpus, 1, float64(n.GPUs)}}
	}
	run := map[cluster.Class]normal{cluster.TE: {5, 5, 0.5, 30}, cluster.BE: {30, 30, 1, 1440}}
	demand := map[cluster.Class][3]normal{cluster.TE: demands(8, 64, 2), cluster.BE: demands(8, 64, 2)}
	if p.Mix == "small-be" {
		run[cluster.BE] = normal{30, 90, 1, 1440}
		demand[cluster.BE] = demands(4, 32, 1)
	}
	r := newRand(p.Seed, streamJobs)
	draw := func(d normal) float64 { return truncatedNormal(r, d.mean, d.sd, d.low, d.high) }
	jobs := make([]trace.Job, p.Jobs)
	work := 0.0 // GPU-seconds
	for i := range jobs {
		j := generated(i, 0)
		j.Nodes = 1
		if r.Float64() < p.TEShare {
			j.Class = cluster.TE
		}
		j.Duration = wholeSeconds(60 * draw(run[j.Class]))
		d := demand[j.Class]
		j.CPUs, j.MemMB, j.GPUs = int(math.Round(draw(d[0]))), 1024*int64(math.Round(draw(d[1]))), int(math.Round(draw(d[2])))
		if j.Class == cluster.BE {
			j.Grace = math.Round(60 * draw(normal{3, 3, 0, 20}))
		}
		work += j.Duration * float64(j.GPUs)
		jobs[i] = j
	}
	if p.Load == 0 {
		holdLoad(jobs, n, fitgppLoad)
		return jobs, nil
	}
	gap := work / float64(len(jobs)) / (p.Load * float64(n.Count*n.GPUs))
	arrivals := newRand(p.Seed, streamArrivals)
	at := 0.0
	for i := range jobs {
		jobs[i].Submit = math.Round(at*1000) / 1000
		at += exponential(arrivals, gap)
	}
	return jobs, nil
}

// holdLoad gives jobs their submission: the next one comes whenever the GPUs
// of running and waiting jobs are fewer than load times those of the cluster,
// while all run in strict order, each on the node that it fills best, as priod
// simulate places them: another placement would be faster or slower in the end,
// and its queue would dry up or grow without end.
func holdLoad(jobs []trace.Job, node trace.NodeGroup, load float64) {
	nodes := make([]room, node.Count)
	for i := range nodes {
		nodes[i] = room{node.GPUs, node.CPUs, node.MemMB}
	}
	most := int(math.Ceil(load * float64(node.Count*node.GPUs)))
	var running endings
	now, asked, head, next := 0.0, 0, 0, 0
	for next < len(jobs) {
		for ; next < len(jobs) && asked < most; next++ {
			jobs[next].Submit = now
			asked += jobs[next].GPUs
		}
		for ; head < next; head++ {
			j := &jobs[head]
			at := -1
			for i, n := range nodes {
				if n.gpus >= j.GPUs && n.cpus >= j.CPUs && n.mem >= j.MemMB && (at < 0 || n.gpus < nodes[at].gpus) {
					at = i
				}
			}
			if at < 0 {
				break
			}
			nodes[at].give(j, 1)
			heap.Push(&running, ending{now + j.Duration, head, at})
		}
		now = running[0].at
		for len(running) > 0 && running[0].at == now {
			e := heap.Pop(&running).(ending)
			nodes[e.node].give(&jobs[e.job], -1)
			asked -= jobs[e.job].GPUs
		}
	}
}

// room is what is free on a node.
type room struct {
	gpus, cpus int
	mem        int64
}

func (n *room) give(j *trace.Job, times int) {
	n.gpus, n.cpus, n.mem = n.gpus-times*j.GPUs, n.cpus-times*j.CPUs, n.mem-int64(times)*j.MemMB
}

// ending is when a job leaves its node.
type ending struct {
	at        float64
	job, node int
}

type endings []ending

func (e endings) Len() int { return len(e) }
func (e endings) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].job < e[j].job
}
func (e endings) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)   { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
