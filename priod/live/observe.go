package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Observe polls the queue, the nodes and sprio. When one of them cannot be trusted, it
// returns an error instead of all.
func (c *Cluster) Observe(ctx context.Context) (cluster.Snapshot, error) {
	at := time.Now()
	var jobs []slurmplug.Job
	var nodes []slurmplug.Node
	var factors []slurmplug.Factors
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { jobs, err = c.client.ReuseJobs(gctx, c.jobs); return err })
	g.Go(func() (err error) {
		if err = c.refreshConfig(gctx, at); err != nil {
			return err
		}
		if nodes, err = c.client.Nodes(gctx); err != nil {
			return err
		}
		if c.multifactor {
			factors, err = c.client.Factors(gctx)
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return cluster.Snapshot{}, err
	}
	c.jobs = jobs
	s := c.snapshot(at, jobs, nodes)
	c.findFragile(ctx, s.Jobs, jobs)
	if err := c.addReservations(ctx, &s); err != nil {
		return cluster.Snapshot{}, err
	}
	c.addArrays(ctx, at, jobs, s.Jobs)
	s.Multifactor = addFactors(s.Jobs, factors, c.weights)
	s.Unread = append(s.Unread, unreadFactors(factors)...)
	s.Unread = append(s.Unread, c.Unread()...)
	s.Unread = append(s.Unread, c.addParts(ctx, s.Jobs)...)
	return s, nil
}

// ObserveQueue polls the queue, and what else can be read.
func (c *Cluster) ObserveQueue(ctx context.Context) (cluster.Snapshot, error) {
	at := time.Now()
	if err := c.refreshConfig(ctx, at); err != nil && !errors.Is(err, slurmplug.ErrDoubtful) {
		return cluster.Snapshot{}, err
	}
	jobs, err := c.client.ReuseJobs(ctx, c.jobs)
	if err != nil {
		return cluster.Snapshot{}, err
	}
	c.jobs = jobs
	nodes, _ := c.client.Nodes(ctx)
	s := c.snapshot(at, jobs, nodes)
	c.addArrays(ctx, at, jobs, s.Jobs)
	c.findFragile(ctx, s.Jobs, jobs)
	if c.multifactor {
		factors, _ := c.client.Factors(ctx) // a value that is not seen is written all the same
		s.Multifactor = addFactors(s.Jobs, factors, c.weights)
	}
	return s, nil
}

// keepOthers has the nodes of running jobs that share (--oversubscribe) start no other job.
func keepOthers(nodes []cluster.Node, jobs []slurmplug.Job) {
	kept := map[string]bool{}
	for i := range jobs {
		if j := &jobs[i]; j.Shares && j.Unread == "" && state(j.State) != cluster.Pending {
			hosts, _ := slurmplug.ExpandHosts(j.NodeList)
			for _, h := range hosts {
				kept[h] = true
			}
		}
	}
	for i := range nodes {
		nodes[i].Owned = nodes[i].Owned || kept[nodes[i].Name]
	}
}

// unread are the records of nodes, partitions and jobs that could not be read.
func unread(nodes []slurmplug.Node, partitions []cluster.UnreadRecord, jobs []slurmplug.Job) (all []cluster.UnreadRecord) {
	for i := range nodes {
		if n := &nodes[i]; n.Unread != "" {
			all = append(all, cluster.UnreadRecord{Kind: cluster.UnreadNode, Name: n.Name, Why: n.Unread})
		}
	}
	all = append(all, partitions...)
	for i := range jobs {
		if j := &jobs[i]; j.Unread != "" {
			all = append(all, cluster.UnreadRecord{Kind: cluster.UnreadJob, Name: j.ID.String(), Why: j.Unread})
		}
	}
	return all
}

// unreadPartitions are the partitions that could not be read.
func unreadPartitions(partitions []slurmplug.Partition) (all []cluster.UnreadRecord) {
	for i := range partitions {
		if p := &partitions[i]; p.Unread != "" {
			all = append(all, cluster.UnreadRecord{Kind: cluster.UnreadPartition, Name: p.Name, Why: p.Unread})
		}
	}
	return all
}

// unreadFactors are the lines of sprio that could not be read.
func unreadFactors(factors []slurmplug.Factors) (all []cluster.UnreadRecord) {
	for i := range factors {
		if f := &factors[i]; f.Unread != "" {
			all = append(all, cluster.UnreadRecord{Kind: cluster.UnreadFactors, Name: strconv.FormatUint(uint64(f.RawID), 10), Why: f.Unread})
		}
	}
	return all
}

// snapshot turns Slurm's records into a cluster.Snapshot.
func (c *Cluster) snapshot(at time.Time, jobs []slurmplug.Job, nodes []slurmplug.Node) cluster.Snapshot {
	s := cluster.Snapshot{At: at.Round(0), Cluster: c.name, Config: c.stamp, Nodes: ConvertNodes(nodes), MemShared: !c.conf.ConsumesMemory(), Fresh: true}
	s.Jobs = make([]cluster.Job, len(jobs))
	c.tags.begin()
	c.nodeMB, c.allMB = c.nodeMB[:0], c.allMB[:0]
	for i := range nodes {
		if mb := nodes[i].MemMB; nodes[i].Unread == "" && !slices.Contains(c.nodeMB, mb) {
			c.nodeMB = append(c.nodeMB, mb)
		}
		if mb := nodes[i].RealMB; nodes[i].Unread == "" && !slices.Contains(c.allMB, mb) {
			c.allMB = append(c.allMB, mb)
		}
	}
	for i, k := 0, 0; i < len(nodes); i++ {
		if nodes[i].Unread == "" {
			if s.Nodes[k].Together = c.conf.Together(&nodes[i]); !c.conf.ConsumesMemory() { // each job may have all of a node's, MemSpecLimit too
				s.Nodes[k].MemMB, s.Nodes[k].MemUsedMB = nodes[i].RealMB, 0
			}
			if nodes[i].Bound && nodes[i].SocketCPUs < nodes[i].CPUs { // of one socket all GPUs have all CPUs
				s.Nodes[k].Socket = nodes[i].SocketCPUs
			}
			k++
		}
	}
	if c.conf.SharingKeepsOthers() {
		keepOthers(s.Nodes, jobs)
	}
	s.Partitions, c.nodeSizes = c.partitions, sizesOf(s.Nodes)
	c.qosHeld = heldUnder(c.qosLimits, c.partitionQOS, jobs)
	v := c.conversion(gpuTypes(s.Nodes), &c.tags)
	for i := range jobs {
		v.job(&s.Jobs[i], &jobs[i])
		if jobs[i].Unread != "" {
			continue
		}
		s.Jobs[i].User = c.users.name(jobs[i].UID, jobs[i].User)
	}
	c.tags.end()
	s.Unread = unread(nodes, c.unreadPartitions, jobs)
	return s
}

// ConvertNodes turns Slurm's nodes into those of a snapshot. Those that cannot be read are
// left out.
func ConvertNodes(nodes []slurmplug.Node) []cluster.Node {
	out := make([]cluster.Node, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		if n.Unread != "" {
			continue
		}
		o := cluster.Node{
			Name: n.Name, State: strings.Join(n.State, "+"), Features: n.Features, Partitions: n.Partitions,
			CPUs: n.CPUs, CPUsUsed: n.CPUsAlloc, Threads: n.Threads, MemMB: n.MemMB, MemUsedMB: n.MemAllocMB, TmpMB: n.TmpMB, Owned: n.Owner != "",
			Load: cluster.Load{Known: n.LoadKnown, CPUs: n.Load},
		}
		for _, f := range n.Available {
			if !slices.Contains(n.Features, f) {
				o.Spare = append(o.Spare, f)
			}
		}
		o.Usable, o.Silent = usable(n.State)
		o.Gres = otherGres(n)
		for _, g := range n.Gres {
			if g.Name != "gpu" || g.Count == 0 {
				continue
			}
			o.MixedTypes = o.MixedTypes || o.GPUs > 0 && g.Type != o.GPUType
			o.GPUType = g.Type
			o.GPUs += int(g.Count)
		}
		for _, g := range n.GresUsed {
			if g.Name == "gpu" {
				o.GPUsUsed += int(g.Count)
			} else if slurmplug.Shares(g.Name) {
				o.GPUsUsed += int(g.On)
			}
		}
		o.GPUsUsed = min(o.GPUsUsed, o.GPUs)
		if o.MixedTypes {
			o.Parts = gpuParts(n)
		}
		out = append(out, o)
	}
	return out
}

// otherGres are the GRES of a node beside GPUs and parts of them, each name and type once.
func otherGres(n *slurmplug.Node) (all []cluster.GresCount) {
	for _, g := range n.Gres {
		if g.Name == "gpu" || slurmplug.Shares(g.Name) {
			continue
		}
		o := cluster.GresCount{Name: g.Name, Count: g.Count}
		for _, used := range n.GresUsed {
			if used.Name == g.Name && used.Type == g.Type {
				o.Used += used.Count
			}
		}
		all = append(all, o)
	}
	return all
}

// gpuParts counts the GPUs of a node by type; nil where Slurm shows used ones of a type that the
// node has not: it is not known which are free then.
func gpuParts(n *slurmplug.Node) (parts []cluster.GPUPart) {
	add := func(gpuType string, count, used int) {
		at := slices.IndexFunc(parts, func(p cluster.GPUPart) bool { return p.Type == gpuType })
		if at < 0 {
			at, parts = len(parts), append(parts, cluster.GPUPart{Type: gpuType})
		}
		parts[at].Count += count
		parts[at].Used += used
	}
	for _, g := range n.Gres {
		if g.Name == "gpu" && g.Count > 0 {
			add(g.Type, int(g.Count), 0)
		}
	}
	for _, g := range n.GresUsed {
		if g.Name == "gpu" {
			add(g.Type, 0, int(g.Count))
		} else if slurmplug.Shares(g.Name) && g.On > 0 {
			add(g.Type, 0, int(g.On))
		}
	}
	if slices.ContainsFunc(parts, func(p cluster.GPUPart) bool { return p.Used > p.Count }) {
		return nil
	}
	return parts
}

// usable is false for states in which Slurm starts nothing on the node. silent is true when
// the only reason is that the node does not answer, as after a start of slurmctld.
func usable(state []string) (yes, silent bool) {
	yes = true
	for _, s := range state {
		switch s {
		case "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINTENANCE", "MAINT",
			"FUTURE", "INVAL", "INVALID_REG", "POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED", "ERROR":
			return false, false
		case "NOT_RESPONDING", "UNKNOWN":
			yes, silent = false, true
		}
	}
	return yes, silent
}

// gpuTypes maps a node's name to the GPU type that it has, "" when it has
// several.
func gpuTypes(nodes []cluster.Node) map[string]string {
	types := make(map[string]string, len(nodes))
	for i := range nodes {
		if n := &nodes[i]; n.GPUs > 0 && !n.MixedTypes {
			types[n.Name] = n.GPUType
		}
	}
	return types
}

// conversion turns Slurm's records of jobs into cluster.Jobs. It is used by one goroutine.
type conversion struct {
	limits       timeLimits                     // read only
	wholeNodes   wholeNodes                     // read only
	types        map[string]string              // GPU types by node, read only
	sizes        nodeSizes                      // read only
	nodeMB       []int64                        // memory of the nodes, with and without MemSpecLimit, each amount once; read only
	qosLimits    map[string]slurmplug.QOSLimits // read only
	qosHeld      qosHeld                        // read only
	partitionQOS map[string]string              // read only
	withQOS      []string                       // the same partitions; read only
	partitions   cluster.Partitions             // read only
	defMemPerCPU int64                          // MB
	noThreads    bool                           // see slurmplug.Config.StartsNoTaskThreads
	nodesByTask  bool                           // see slurmplug.Config.NodesNeedTasks
	bySocket     bool                           // see slurmplug.Config.TasksBySocket
	spreads      map[string]bool                // partitions, see slurmplug.Config.SpreadsTasks; read only
	listsGPUs    bool                           // tres-alloc lists the GPUs of each job that holds some (AccountingStorageTRES)
	tags         *tagCache
	demands      demandCache
}

// conversion goes by what was last read of the site. types are the GPU types by node, nil where they do not count.
func (c *Cluster) conversion(types map[string]string, tags *tagCache) conversion {
	perCPU, _ := c.conf.DefaultMemory()
	return conversion{
		limits: c.limits, wholeNodes: c.wholeNodes, types: types, sizes: c.nodeSizes, nodeMB: c.allMB, qosLimits: c.qosLimits, qosHeld: c.qosHeld,
		partitionQOS: c.partitionQOS, withQOS: c.withQOS, partitions: c.admitting, defMemPerCPU: perCPU,
		noThreads: c.conf.StartsNoTaskThreads(), nodesByTask: c.conf.NodesNeedTasks(), bySocket: c.conf.TasksBySocket(), spreads: c.spreads, listsGPUs: c.conf.ListsGPUs(), tags: tags,
	}
}

// job fills in o, which is empty. It does so field by field: a literal would be made apart, and
// copied.
func (v *conversion) job(o *cluster.Job, j *slurmplug.Job) {
	if j.Unread != "" { // no more than its names is known
		o.ID, o.RawID, o.Tasks, o.TaskCount, o.State = j.ID, j.RawID, j.Tasks, max(j.TaskCount, 1), cluster.Unread
		return
	}
	o.ID, o.RawID, o.SLUID, o.Tasks, o.TaskCount, o.HetLeader, o.HetOffset = j.ID, j.RawID, sluid(j), j.Tasks, max(j.TaskCount, 1), j.HetID, j.HetOffset
	o.User, o.Name, o.Account, o.Partition, o.QOS, o.Reservation = j.User, j.Name, j.Account, j.Partition, j.QOS, j.Reservation
	o.Interactive = j.Interactive
	o.State, o.Reason, o.Priority, o.Nice, o.Restarts = state(j.State), j.Reason, int64(j.Priority), j.Nice, j.Restarts
	o.CPUs, o.Features, o.Prefer, o.Whole, o.NodeList = j.CPUs, j.Features, j.Prefer, j.Whole || v.wholeNodes.all(j.Partition), j.NodeList
	o.TimeLimit, o.Submit, o.Eligible, o.Start, o.Dependency = j.TimeLimit, j.Submit, j.Eligible, j.Start, j.Dependency != ""
	if o.TimeLimit == 0 {
		o.TimeLimit = v.limits.of(j.Partition)
	}
	d := v.demands.of(j, o.Whole, v)
	o.Nodes, o.MemMB, o.GPUType, o.GPUs, o.Node.GPUs, o.Node.CPUs, o.Node.MemMB = d.nodes, d.memMB, d.gpuType, d.gpus, d.nodeGPUs, d.nodeCPUs, d.nodeMB
	o.Node.BySocket, o.Node.GPUCPUs = d.bySocket, d.gpuCPUs
	o.CPUs, o.TaskCPUs, o.OneThread, o.MemByCPU, o.AllMem, o.Gres, o.Open = max(o.CPUs, d.cpus), d.taskCPUs, j.Threads == 1, d.memByCPU, d.allMem, d.gres, d.open
	if own := v.qosLimits[j.QOS]; o.State == cluster.Pending {
		o.Lifts = cluster.Lifts{MaxTime: own.Has("PartitionTimeLimit"), MaxNodes: own.Has("PartitionMaxNodes"), MinNodes: own.Has("PartitionMinNodes")}
	}
	if limited := v.beyond(o, d.most); limited != "" {
		o.Open = limited
	}
	if j.SharedWith != "" {
		o.Open = "nodes shared with jobs of the same " + strings.ToLower(j.SharedWith)
	}
	if o.State == cluster.Running && o.GPUType == "" && o.GPUs > 0 {
		o.GPUType = allocatedType(j.NodeList, v.types)
	}
	o.Elsewhere = o.State == cluster.Pending && v.partitions.Elsewhere(o)
	o.Tag, o.TagText, o.TagErr = v.tags.read(j.Comment)
}

// sluid is the SLUID of a record's run. It is "" where a command by SLUID would reach other
// jobs than one by id: the SLUID of an unsplit array means all of its tasks, that of a
// heterogeneous job's leader the leader alone (seen on 26.05.5).
func sluid(j *slurmplug.Job) string {
	if j.Tasks != "" || j.HetID != 0 {
		return ""
	}
	return j.SLUID
}

// timeLimits are those of jobs that name none, by partition.
type timeLimits map[string]time.Duration

// of is the time limit of a job that names none: its partition's, the longest of
// several.
func (l timeLimits) of(partitions string) time.Duration {
	longest := time.Duration(0)
	for p := range strings.SplitSeq(partitions, ",") {
		limit, known := l[p]
		if !known || limit == slurmplug.Unlimited {
			return slurmplug.Unlimited
		}
		longest = max(longest, limit)
	}
	return longest
}

// wholeNodes are the partitions that give whole nodes to their jobs.
type wholeNodes map[string]bool

// all reports whether a job gets whole nodes in each of its partitions.
func (w wholeNodes) all(partitions string) bool {
	for p := range strings.SplitSeq(partitions, ",") {
		if !w[p] {
			return false
		}
	}
	return true
}

func state(s string) cluster.State {
	switch s {
	case "PENDING":
		return cluster.Pending
	case "RUNNING", "CONFIGURING", "RESIZING": // the last while its memory is lowered (seen on 26.05.5)
		return cluster.Running
	case "SUSPENDED", "STOPPED":
		return cluster.Suspended
	case "COMPLETING":
		return cluster.Completing
	}
	return cluster.Other
}

// allocatedType is the GPU type of the nodes that a job holds, "" when they
// differ.
func allocatedType(list string, types map[string]string) string {
	if t, ok := types[list]; ok {
		return t
	}
	names, err := slurmplug.ExpandHosts(list)
	if err != nil || len(names) == 0 {
		return ""
	}
	first := types[names[0]]
	if slices.ContainsFunc(names, func(n string) bool { return types[n] != first }) {
		return ""
	}
	return first
}

// addFactors puts the SiteFactors that sprio shows into the jobs, and returns what Slurm's own
// factors do and can do.
func addFactors(jobs []cluster.Job, factors []slurmplug.Factors, weights int64) cluster.Multifactor {
	byID := make(map[uint32]*slurmplug.Factors, len(factors))
	lowest, highest := int64(0), int64(0)
	m, first := cluster.Multifactor{Polled: true}, true
	for i := range factors {
		f := &factors[i]
		if f.Unread != "" {
			continue
		}
		byID[f.RawID] = f
		own := f.Age + f.Assoc + f.FairShare + f.JobSize + f.Partition + f.QOS + f.TRES
		if own == 0 && f.Priority > max(f.SiteFactor-f.Nice, 0)+1 {
			continue // its priority was set by hand, and sprio shows no factors of it
		}
		if first {
			lowest, highest, first = own, own, false
		}
		lowest, highest = min(lowest, own), max(highest, own)
	}
	for i := range jobs {
		if f := byID[jobs[i].RawID]; f != nil {
			jobs[i].SiteFactor, jobs[i].SiteFactorKnown = f.SiteFactor, true
		}
	}
	m.Seen, m.Highest = highest-lowest, highest
	m.Span = max(weights, m.Seen)
	return m
}

// demandCache remembers, within one conversion, what each request comes to: a hundred
// thousand jobs have a few different ones, and neighbours often the same.
type demandCache struct {
	last   request
	demand demand
	all    map[request]demand
}

// request is all that a job's demand depends on.
type request struct {
	state, partition, tres, perJob, perNode, perTask, perSocket, perTRES string
	nodes, cpus, tasks, sockets, threads                                 int
	minCPUs                                                              int
	minMemMB                                                             int64
	whole                                                                bool
}

type demand struct {
	nodes   int
	memMB   int64
	gpuType string
	gpus    int

	nodeGPUs       int
	nodeCPUs       int
	nodeMB         int64
	cpus, taskCPUs int
	memByCPU       bool
	bySocket       bool
	gpuCPUs        int
	allMem         bool
	most           held // that Slurm may allocate to it on the nodes that it may have; of a pending job
	gres, open     string
}

func (c *demandCache) of(j *slurmplug.Job, whole bool, v *conversion) demand {
	r := request{
		j.State, j.Partition, j.TRES, j.TresPerJob, j.TresPerNode, j.TresPerTask, j.TresPerSock, j.CPUsPerTRES, j.Nodes, j.CPUs, j.NumTasks, j.Sockets, j.Threads,
		j.MinCPUs, j.MinMemMB, whole,
	}
	if c.all != nil && r == c.last {
		return c.demand
	}
	d, known := c.all[r]
	if !known {
		d.nodes, d.memMB = j.NodeCount(), j.MemMB()
		d.gpuType, d.gpus = j.GPUs()
		d.nodeGPUs = j.NodeGPUs()
		d.gres, d.open = j.OtherGres()
		if j.State == "PENDING" {
			nodes := v.sizes.of(j.Partition, d.gpuType, d.nodeGPUs)
			d.allocate(j, whole, nodes, v.defMemPerCPU)
			v.onSockets(&d, j, nodes)
			if v.nodesByTask && j.NumTasks > 0 && j.NumTasks < d.nodes {
				d.open = cmp.Or(d.open, "fewer tasks than nodes")
			}
			if j.NumTasks > 1 && d.gpus > 0 && slices.ContainsFunc(cluster.PartitionNames(j.Partition), func(p string) bool { return v.spreads[p] }) {
				d.open = cmp.Or(d.open, "several tasks where the least loaded node comes first (LLN)")
			}
			d.allMem = j.MinMemMB == 0 && d.memMB > 0 && slices.Contains(v.nodeMB, d.memMB/int64(max(d.nodes, 1))) // a request by GPU has no MinMemMB either
			d.bound(j, whole, nodes, v.nodeMB)
			if j.ByTask() && j.NumTasks > 1 && slices.ContainsFunc(nodes, func(n nodeSize) bool { return n.threads > 1 }) {
				d.open = cmp.Or(v.openByTask(j, d.taskCPUs), d.open)
			}
		} else if holds, err := slurmplug.ParseTRES(j.TRES); v.listsGPUs && err == nil && len(holds) > 0 {
			_, d.gpus, _ = holds.GPUs() // none of --gpus-per-socket, which 22.05 may start without GPUs
		}
		if c.all == nil {
			c.all = map[request]demand{}
		}
		c.all[r] = d
	}
	c.last, c.demand = r, d
	return d
}

// openByTask names what is not counted of a pending job with GPUs by task, on nodes whose cores have several threads; "" for
// nothing. Slurm gives tasks of one CPU out by cores: a node with one GPU free counts for two of them (22.05.8).
func (c *conversion) openByTask(j *slurmplug.Job, taskCPUs int) string {
	switch {
	case j.Threads == 1 && c.noThreads:
		return "GPUs by task with one thread of each core, which this Slurm does not start"
	case j.Threads != 1 && taskCPUs == 1 && j.NumTasks%max(j.NodeCount(), 1) != 0:
		return "GPUs by task of one CPU, unevenly on several nodes whose cores have several threads"
	}
	return ""
}

// onSockets finds how many CPUs of one socket each GPU of a pending job needs. Where GPUs belong to sockets, Slurm leaves out the
// sockets that have fewer in its first pass, and the second has only what that left (gres_select_filter.c,
// gres_select_filter_sock_core): of GPUs of the whole job with CPUs by GPU, and on 24.11.5 and 26.05.5 also of tasks.
func (c *conversion) onSockets(d *demand, j *slurmplug.Job, nodes []nodeSize) {
	switch {
	case d.gpus == 0 || !slices.ContainsFunc(nodes, func(n nodeSize) bool { return n.socket > 0 }):
	case c.bySocket && j.MinCPUs > max(j.CPUs, 1):
		d.open = cmp.Or(d.open, "more CPUs of each node (--mincpus) than its tasks need, of several sockets")
	case d.gpus == 1:
	case j.TresPerJob != "" && j.CPUsPerGPU() > 0:
		d.gpuCPUs = j.CPUsPerGPU()
	case !c.bySocket || j.NumTasks < 2:
	case j.ByTask(), j.TresPerJob != "" && j.NumTasks%d.gpus == 0:
		d.gpuCPUs = max((d.cpus+d.gpus-1)/d.gpus, 1)
	case j.TresPerJob != "":
		d.open = cmp.Or(d.open, "tasks that are no multiple of the GPUs, of several sockets")
	}
	d.bySocket = c.bySocket && d.gpuCPUs > 0
}

// allocate completes a pending job's demand with what Slurm will allocate, by the nodes that it may have: the CPUs of
// --cpus-per-gpu, as many nodes as its CPUs need, each with what the job asks for by node, and all GPUs of whole nodes.
func (d *demand) allocate(j *slurmplug.Job, whole bool, nodes []nodeSize, defMemPerCPU int64) {
	most, least := 0, -1
	for _, n := range nodes {
		cpus := n.cpus
		if j.Threads == 1 {
			cpus /= max(n.threads, 1)
		}
		most = max(most, cpus)
		if least < 0 || n.gpus < least {
			least = n.gpus
		}
		switch {
		case n.bySocket() && j.CPUsPerGPU() > 0:
			d.open = "CPUs for each GPU on whole sockets"
		case whole && n.gpus*j.CPUsPerGPU() > n.cpus:
			d.open = "CPUs for each GPU on whole nodes that have fewer"
		case j.Threads == 1 && n.threads > 1 && n.gpus*j.CPUsPerGPU() > cpus: // 22.05.8 gives it cores of the sockets of its GPUs alone, and holds it
			d.open = "one thread of each core, and more CPUs for each GPU than its part of a node"
		case j.CPUsPerGPU() > 0 && j.MinCPUs > max(d.nodeGPUs, d.gpus/max(d.nodes, 1))*j.CPUsPerGPU():
			d.open = "more CPUs of each node (--mincpus) than its GPUs get"
		}
	}
	if whole {
		d.gpus = max(d.gpus, least*max(d.nodes, 1))
	}
	d.cpus, d.nodeCPUs = max(j.CPUs, d.gpus*j.CPUsPerGPU()), j.MinCPUs
	if tasks := max(j.NumTasks, 1); d.cpus%tasks == 0 && j.CPUsPerGPU() == 0 {
		d.taskCPUs = d.cpus / tasks
	}
	one := j.CPUs <= max(d.nodes, 1) // for one CPU of each node it would be the same by node: the default tells, or a closer look
	if d.memByCPU = j.MinMemMB > 0 && d.memMB == j.MinMemMB*int64(max(j.CPUs, 1)) && (!one || j.MinMemMB == defMemPerCPU); d.memByCPU {
		d.memMB = j.MinMemMB * int64(d.cpus)
	}
	if !d.memByCPU && d.memMB == j.MinMemMB*int64(max(d.nodes, 1)) {
		d.nodeMB = j.MinMemMB
	}
	if most > 0 && d.cpus > most*max(d.nodes, 1) {
		wider := (d.cpus + most - 1) / most
		if d.nodeGPUs > 0 && d.gpus == d.nodeGPUs*max(d.nodes, 1) {
			d.gpus = d.nodeGPUs * wider
		}
		if d.nodes = wider; whole {
			d.gpus = max(d.gpus, least*wider)
		}
		if d.nodeMB > 0 {
			d.memMB = d.nodeMB * int64(wider)
		}
	}
}

// nodeSize is the size of some nodes of a partition.
type nodeSize struct {
	gpuType             string
	gpus, cpus, threads int
	together, socket    int // CPUs that are given out together; of a socket, see cluster.Node
}

// bySocket reports whether its CPUs are given out by whole sockets.
func (n *nodeSize) bySocket() bool { return n.together > max(n.threads, 1) }

// nodeSizes are the sizes of nodes by partition, each once.
type nodeSizes map[string][]nodeSize

func sizesOf(nodes []cluster.Node) nodeSizes {
	sizes := nodeSizes{}
	for i := range nodes {
		n := &nodes[i]
		size := nodeSize{n.GPUType, n.GPUs, n.CPUs, n.Threads, n.Together, n.Socket}
		if n.MixedTypes {
			size.gpuType = ""
		}
		for _, p := range n.Partitions {
			if !slices.Contains(sizes[p], size) {
				sizes[p] = append(sizes[p], size)
			}
		}
	}
	return sizes
}

// of are the sizes of the nodes of some partitions that have GPUs of a type, "" for any, and so many of them.
func (s nodeSizes) of(partitions, gpuType string, gpus int) (all []nodeSize) {
	for p := range strings.SplitSeq(partitions, ",") {
		for _, n := range s[p] {
			if n.gpus >= gpus && (gpuType == "" || n.gpuType == "" || n.gpuType == gpuType) {
				all = append(all, n)
			}
		}
	}
	return all
}

// tagCache remembers parsed comments from one poll to the next: a hundred
// thousand jobs carry a few different ones.
type tagCache struct{ last, now map[string]parsedTag }

type parsedTag struct {
	tag  jobtag.Tag
	text string // "" when the tag does not count
	err  string
}

func (t *tagCache) begin() { t.now = make(map[string]parsedTag, len(t.last)) }
func (t *tagCache) end()   { t.last, t.now = t.now, nil }

func (t *tagCache) read(comment string) (tag jobtag.Tag, text, err string) {
	if !strings.HasPrefix(comment, jobtag.Prefix) {
		return jobtag.Tag{}, "", ""
	}
	text, _ = jobtag.Split(comment)
	p, known := t.now[text]
	if !known {
		if p, known = t.last[text]; !known {
			p = parseTag(strings.Clone(text)) // without the rest of the comment
		}
		t.now[text] = p
	}
	return p.tag, p.text, p.err
}

func parseTag(text string) parsedTag {
	tag, err := jobtag.Parse(text)
	if err != nil {
		return parsedTag{tag: tag, err: err.Error()}
	}
	return parsedTag{tag: tag, text: text}
}

// refreshConfig reads the values of slurm.conf and the partitions when they are older than configEvery and
// partitionsEvery: they change with scontrol reconfigure, partitions with scontrol update, too.
func (c *Cluster) refreshConfig(ctx context.Context, at time.Time) error {
	fresh := func(read time.Time, every time.Duration) bool {
		return !read.IsZero() && at.Sub(read) < every && !at.Before(read)
	}
	if fresh(c.configAt, configEvery) {
		if fresh(c.partitionsAt, partitionsEvery) {
			return nil
		}
		return c.readPartitions(ctx, at)
	}
	conf, err := c.client.Config(ctx)
	if err != nil {
		return err
	}
	if _, err = c.client.AskAbilities(ctx); err != nil {
		return err
	}
	c.conf = conf
	c.client.UseMetrics(conf)
	c.name = conf.ClusterName()
	c.multifactor = conf.PriorityType() == "priority/multifactor"
	c.accounts = nil
	if c.weights, err = conf.WeightSum(); err != nil {
		return fmt.Errorf("scontrol show config: %w", err)
	}
	if c.qosLimits = nil; c.conf.EnforcesLimits() {
		c.qosLimits, _ = c.client.QOSLimits(ctx) // without slurmdbd they are not known
	}
	if err := c.readPartitions(ctx, at); err != nil {
		return err
	}
	c.configAt = at
	return nil
}

func (c *Cluster) readPartitions(ctx context.Context, at time.Time) error {
	partitions, err := c.client.Partitions(ctx)
	if err != nil {
		return err
	}
	c.stamp, c.partitionsAt = c.conf.Stamp(partitions), at
	c.addSubAccounts(ctx, c.conf, partitions)
	c.setLimits(partitions)
	return nil
}

// addSubAccounts adds to the accounts that partitions admit or deny those below them, which Slurm counts as well (24.11.5
// and 26.05.5; 22.05.8 does not). Where the tree of accounts cannot be read it is not known whom these partitions admit.
func (c *Cluster) addSubAccounts(ctx context.Context, conf slurmplug.Config, partitions []slurmplug.Partition) {
	names := func(p slurmplug.Partition) bool { return p.Accounts != nil || p.NotAccounts != nil }
	if !conf.AtLeast(24, 11) || !slices.ContainsFunc(partitions, names) {
		return
	}
	if c.accounts == nil {
		c.accounts, _ = c.client.Accounts(ctx, c.name)
	}
	for i := range partitions {
		switch p := &partitions[i]; {
		case !names(*p):
		case len(c.accounts) == 0:
			p.Accounts, p.NotAccounts, p.Groups = nil, nil, []string{"not known"}
		default:
			p.Accounts, p.NotAccounts = withSubAccounts(c.accounts, p.Accounts), withSubAccounts(c.accounts, p.NotAccounts)
		}
	}
}

// withSubAccounts are some accounts and all below them; nil for nil.
func withSubAccounts(tree []slurmplug.Account, some []string) []string {
	all := slices.Clone(some)
	for n := -1; len(all) > max(n, 0); { // one level of the tree after the other
		n = len(all)
		for i := range tree {
			if slices.Contains(all, tree[i].Parent) && !slices.Contains(all, tree[i].Name) {
				all = append(all, tree[i].Name)
			}
		}
	}
	return all
}

func (c *Cluster) setLimits(partitions []slurmplug.Partition) {
	c.limits, c.wholeNodes = make(timeLimits, len(partitions)), wholeNodes{}
	c.unreadPartitions = unreadPartitions(partitions)
	c.partitions, c.partitionQOS, c.withQOS, c.spreads = nil, map[string]string{}, nil, map[string]bool{}
	for _, p := range partitions {
		if p.QOS != "" {
			c.partitionQOS[p.Name], c.withQOS = p.QOS, append(c.withQOS, p.Name)
		}
		c.partitions = append(c.partitions, cluster.NewPartition(&p))
		if p.WholeNodes != "" {
			c.wholeNodes[p.Name] = true
		}
		c.spreads[p.Name] = c.conf.SpreadsTasks(&p)
		c.limits[p.Name] = cmp.Or(p.DefaultTime, p.MaxTime, slurmplug.Unlimited)
	}
	c.admitting = (&cluster.Snapshot{Partitions: c.partitions}).PartitionsByName()
}
