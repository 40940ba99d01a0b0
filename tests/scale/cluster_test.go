package scale

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// gpuTypes of the cluster, from the slowest to the fastest, and how fast they are.
var gpuTypes = []string{"v100", "l40", "a100", "h100"}

const (
	gpusPerNode  = 8
	nodesPerLeaf = 32
	users        = 500
	accounts     = 50
	interval     = 10 * time.Second // from poll to poll
)

// job is a job as Slurm holds it.
type job struct {
	cluster.Job
	own      int64  // its priority without SiteFactor and Nice
	required string // nodes that it names, as a host list
	refused  string // nodes that it refuses
	accepts  string // switches that it accepts, as a value of the lever
	most     int    // nodes that it may have; 0: as many as it asks for

	// In a life:
	run    time.Duration // how long it will run
	leaves time.Time     // when it ends as it was told to; zero: it was not
	gone   bool          // from the queue
}

// generated is a cluster in which everything happens that priod looks at: GPU types,
// switches, partitions, users, TE and BE jobs, gangs, arrays, dependencies, holds.
type generated struct {
	rnd    *rand.Rand
	now    time.Time
	nodes  []cluster.Node
	leaves map[string]string
	jobs   []job
	array  job // the array whose tasks come next with records of their own
	left   int // of its tasks
	nextID uint32
	tags   []jobtag.Tag
	texts  []string // of tags
}

// generate makes a full cluster of a tenth as many nodes as jobs wait, on which half as
// many run.
func generate(seed uint64, jobs int) *generated {
	g := &generated{rnd: rand.New(rand.NewPCG(seed, 19)), now: time.Unix(1_790_000_000, 0), leaves: map[string]string{}, nextID: 1}
	g.makeTags()
	g.makeNodes(jobs / 10)
	g.run(jobs / 2)
	for range jobs {
		g.submit(g.now.Add(-time.Duration(1+g.rnd.IntN(1000)) * time.Minute))
	}
	return g
}

// makeTags makes what users say of their jobs: some dozens of programs, each in several
// forms.
func (g *generated) makeTags() {
	for program := range 40 {
		speeds := map[string]float64{}
		cpus, memory := map[string]jobtag.Curve{}, map[string]jobtag.Curve{}
		for i, name := range gpuTypes {
			speeds[name] = float64(100+i*(5+program)*(1+program%3)) / 100
			cpus[name] = jobtag.Curve{{Amount: 1, Speed: 0.4}, {Amount: float64(4 + program%4), Speed: 0.8}, {Amount: 12, Speed: 1}}
			memory[name] = jobtag.Curve{{Amount: 8000, Speed: 0.7}, {Amount: float64(24000 + 1000*(program%8)), Speed: 1}}
		}
		for form := range 6 {
			t := jobtag.Tag{Type: "be", Grace: time.Duration(60*(1+form)) * time.Second, Signal: "USR1", Ckpt: time.Duration(10*(1+program)) * time.Minute}
			switch form {
			case 0, 1:
				t = jobtag.Tag{Type: "te", Speed: speeds}
			case 2, 3:
				t.Speed = speeds
			case 4:
				t.Speed, t.CPU, t.Mem = speeds, cpus, memory
			}
			t.Retry = []string{"", "infra", "always"}[program%3]
			g.tag(t)
		}
	}
	g.tag(jobtag.Tag{})
}

func (g *generated) tag(t jobtag.Tag) {
	text := ""
	if t.Type != "" {
		var err error
		if text, err = jobtag.Encode(t); err != nil {
			panic(err)
		}
	}
	g.tags, g.texts = append(g.tags, t), append(g.texts, text)
}

// makeNodes makes nodes of four GPU types in racks, with partitions that overlap.
func (g *generated) makeNodes(n int) {
	for i := range n {
		t := i * len(gpuTypes) / n
		node := cluster.Node{
			Name: fmt.Sprintf("%s-%05d", gpuTypes[t], i), Usable: i%200 != 0, State: "IDLE", GPUType: gpuTypes[t], GPUs: gpusPerNode,
			CPUs: 96, Threads: 1, MemMB: 768_000, Features: []string{gpuTypes[t], []string{"ib", "eth"}[i/nodesPerLeaf%2], "rack" + strconv.Itoa(i/(4*nodesPerLeaf))},
			Partitions: []string{"gpu", "long"}[:1+i/nodesPerLeaf%2],
		}
		if !node.Usable {
			node.State = "DOWN"
		}
		g.leaves[node.Name] = "leaf" + strconv.Itoa(i/nodesPerLeaf)
		g.nodes = append(g.nodes, node)
	}
}

// run fills the nodes with so many jobs: first some of several nodes, and then such of
// one to eight GPUs that about all GPUs are taken.
func (g *generated) run(jobs int) {
	at, free := 0, 0
	for i := range g.nodes {
		if g.nodes[i].Usable {
			free += gpusPerNode
		}
	}
	for n := range jobs {
		size, left := 1, jobs-n
		if want := float64(free) / float64(left); n%200 == 0 && free > 80*left/60 {
			size = gpusPerNode * (2 + g.rnd.IntN(3))
		} else if want > 1 {
			size = 1 << g.rnd.IntN(3)
		}
		for at < len(g.nodes) && (!g.nodes[at].Usable || g.nodes[at].GPUsUsed == gpusPerNode) {
			at++
		}
		if at == len(g.nodes) {
			return
		}
		j := g.job(g.now.Add(-time.Duration(600+g.rnd.IntN(600)) * time.Minute))
		on := []int{at}
		if size > gpusPerNode && at+size/gpusPerNode < len(g.nodes) && g.nodes[at].GPUsUsed == 0 {
			for k := at + 1; len(on) < size/gpusPerNode && k < len(g.nodes) && g.nodes[k].Usable && g.nodes[k].GPUType == g.nodes[at].GPUType; k++ {
				on = append(on, k)
			}
		}
		gpus := gpusPerNode
		if len(on) == 1 {
			gpus = min(size, gpusPerNode-g.nodes[at].GPUsUsed)
		}
		j.GPUs, j.Nodes = gpus*len(on), len(on)
		j.CPUs, j.MemMB = 8*j.GPUs, int64(j.GPUs)*64_000
		g.start(&j, on, g.now.Add(-time.Duration(70+g.rnd.IntN(430))*time.Minute))
		free -= j.GPUs
		g.jobs = append(g.jobs, j)
	}
}

// start gives a job these nodes, its GPUs spread evenly.
func (g *generated) start(j *job, on []int, at time.Time) {
	names := make([]string, len(on))
	for k, i := range on {
		n := &g.nodes[i]
		names[k] = n.Name
		n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUsUsed+j.GPUs/len(on), n.CPUsUsed+j.CPUs/len(on), n.MemUsedMB+j.MemMB/int64(len(on))
	}
	slices.Sort(names)
	j.State, j.Reason, j.Start, j.NodeList, j.SiteFactorKnown = cluster.Running, "None", at, slurmplug.CompactHosts(names), false
}

// end takes a running job off its nodes.
func (g *generated) end(j *job) {
	names, err := slurmplug.ExpandHosts(j.NodeList)
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		i := g.index(name)
		n := &g.nodes[i]
		n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUsUsed-j.GPUs/len(names), n.CPUsUsed-j.CPUs/len(names), n.MemUsedMB-j.MemMB/int64(len(names))
	}
}

// index is a node's place: its number stands in its name.
func (g *generated) index(name string) int {
	i, err := strconv.Atoi(name[len(name)-5:])
	if err != nil {
		panic(err)
	}
	return i
}

// job is one that somebody submits.
func (g *generated) job(at time.Time) job {
	id := g.nextID
	g.nextID++
	user := g.rnd.IntN(users)
	tag := g.rnd.IntN(len(g.tags))
	if g.rnd.IntN(5) == 0 {
		tag = len(g.tags) - 1 // untagged
	}
	gpus := 1 << g.rnd.IntN(4)
	j := job{own: int64(5000 + g.rnd.IntN(5000)), Job: cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "user" + strconv.Itoa(user), Account: "account" + strconv.Itoa(user%accounts), Partition: []string{"gpu", "gpu", "long", "gpu,long"}[g.rnd.IntN(4)],
		Name: "job" + strconv.Itoa(g.rnd.IntN(2000)), QOS: "normal", State: cluster.Pending, Reason: "Priority", Nodes: 1, GPUs: gpus,
		CPUs: 8 * gpus, MemMB: int64(gpus) * 64_000, TimeLimit: time.Duration(1+g.rnd.IntN(72)) * time.Hour, Submit: at, Eligible: at, SiteFactorKnown: true,
		Tag: g.tags[tag], TagText: g.texts[tag],
	}}
	return j
}

// submit adds a job that waits.
func (g *generated) submit(at time.Time) {
	j := g.job(at)
	switch n := g.rnd.IntN(100); {
	case n < 5:
		j.Reason, j.Dependency, j.SiteFactorKnown = "Dependency", true, false
	case n < 7:
		j.Reason, j.SiteFactorKnown = "JobHeldUser", false
	case n < 10:
		j.Reason = "QOSMaxGRESPerUser"
	case n < 11:
		j.Reason, j.Eligible, j.SiteFactorKnown = "BeginTime", g.now.Add(time.Hour), false
	case n < 16:
		j.Nodes = 2 + g.rnd.IntN(7)
		j.GPUs = gpusPerNode * j.Nodes
		j.CPUs, j.MemMB = 8*j.GPUs, int64(j.GPUs)*64_000
	case n < 18: // an array in one record
		j.Tasks, j.TaskCount = "0-49", 50
	case n < 40: // an array's task with a record of its own
		if g.left == 0 {
			g.array, g.left = j, 50
		}
		g.left--
		raw := j.RawID
		j = g.array
		j.ID, j.RawID = cluster.JobID{ID: g.array.RawID, Task: int32(50 - g.left)}, raw
	}
	if j.ID.Task == slurmplug.NoTask && g.rnd.IntN(4) == 0 {
		j.GPUType = gpuTypes[g.rnd.IntN(len(gpuTypes))]
	}
	if j.ID.Task == slurmplug.NoTask && g.rnd.IntN(20) == 0 {
		j.Features = []string{"ib", "eth", "a100|h100"}[g.rnd.IntN(3)]
	}
	g.jobs = append(g.jobs, j)
}

// pass lets time go on to the next poll: jobs that name their nodes start when these have room.
func (g *generated) pass() {
	g.now = g.now.Add(interval)
	for i := range g.jobs {
		j := &g.jobs[i]
		if j.State != cluster.Pending || j.required == "" || j.Eligible.After(g.now) {
			continue
		}
		names, err := slurmplug.ExpandHosts(j.required)
		if err != nil {
			panic(err)
		}
		on := make([]int, len(names))
		for k, name := range names {
			on[k] = g.index(name)
		}
		if !slices.ContainsFunc(on, func(i int) bool { return !g.holds(i, j, len(on)) }) {
			g.start(j, on, g.now)
		}
	}
}

// holds reports whether a node has room for one of n parts of a job.
func (g *generated) holds(i int, j *job, n int) bool {
	node := &g.nodes[i]
	return node.Usable && node.GPUs-node.GPUsUsed >= j.GPUs/n && node.CPUs-node.CPUsUsed >= j.CPUs/n && node.MemMB-node.MemUsedMB >= j.MemMB/int64(n)
}

// turn has n jobs end, a tenth of them by a failure, n waiting jobs start in their places, and n
// others come. ended is told of each that ends.
func (g *generated) turn(n int, ended func(*job, bool)) {
	var free []int
	for i := range g.jobs {
		if j := &g.jobs[i]; len(free) < n && j.State == cluster.Running && j.GPUs == 1 && g.rnd.IntN(50) == 0 {
			g.end(j)
			free = append(free, g.index(j.NodeList))
			ended(j, len(free)%10 == 0)
			j.RawID = 0
		}
	}
	g.jobs = slices.DeleteFunc(g.jobs, func(j job) bool { return j.RawID == 0 })
	for i := range g.jobs {
		j := &g.jobs[i]
		if len(free) == 0 {
			break
		}
		if j.State == cluster.Pending && j.Reason == "Priority" && j.Tasks == "" && j.GPUType == "" && j.Features == "" && j.required == "" && j.GPUs == 1 && g.holds(free[0], j, 1) {
			g.start(j, free[:1], g.now)
			free = free[1:]
		}
	}
	for range n {
		g.submit(g.now)
	}
}
