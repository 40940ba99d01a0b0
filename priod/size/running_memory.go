package size

import (
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/size/giveback"
	"slurmprio/slurmplug"
)

// GiveBackSettings say which running jobs give back memory that they do not use.
type GiveBackSettings struct {
	Enabled bool          // memory is lowered; jobs get lowered memory back in any case
	After   time.Duration // a job runs at least so long before its memory is lowered
	Ranking plan.Classes  // whose jobs
}

// maxMeasured is how many jobs are measured in one cycle: sstat asks their nodes one
// after the other.
const maxMeasured = 20

// measureEvery is the least time between two measurements of a job.
const measureEvery = 5 * time.Minute

// GiveBack decides on the memory of running jobs. It remembers which jobs were measured
// and which Slurm refused to change, and may be lost.
type GiveBack struct {
	set      GiveBackSettings
	measured map[cluster.JobID]measuredRun
}

// measuredRun is a run of a job that is not measured again for a while.
type measuredRun struct {
	start time.Time // of the run
	until time.Time // zero: as long as it runs
}

// Set takes over the settings, which may change between two cycles.
func (g *GiveBack) Set(set GiveBackSettings) {
	if g.set = set; g.measured == nil {
		g.measured = map[cluster.JobID]measuredRun{}
	}
}

// Enabled reports whether memory of running jobs may be lowered.
func (g *GiveBack) Enabled() bool { return g.set.Enabled }

// Lowered returns the waiting jobs whose memory was lowered while they ran. A job that
// was sized since is not among them: it got its own memory back before that.
func Lowered(s *cluster.Snapshot, h *cluster.History) (jobs []*cluster.Job) {
	var lowered cluster.JobMap[bool]
	for id, requests := range h.Requests {
		if r, written := requests[slurmplug.MinMemoryNode]; written && !requests[slurmplug.Size].At.After(r.At) {
			lowered.Set(id, true)
		}
	}
	if lowered.Len() == 0 {
		return nil
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Pending && lowered.Get(j.ID) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Candidates returns the running jobs to measure: they agreed, and they are on nodes
// whose free GPUs lack memory that other jobs wait for, where what they hold could be
// enough.
func (g *GiveBack) Candidates(s *cluster.Snapshot, h *cluster.History) (jobs []*cluster.Job) {
	on := g.eligible(s, h)
	if len(on) == 0 {
		return nil
	}
	wanted := typesWaitedFor(s)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		here := on[n.Name]
		if len(here) == 0 || !lacksMemory(n) || !wanted.onNode(n) {
			continue
		}
		most := make([]giveback.Job, len(here))
		for k, j := range here {
			most[k] = giveback.Job{ID: j.ID, MemMB: j.MemMB, Keep: giveback.Keep(0)}
		}
		due := slices.ContainsFunc(here, func(j *cluster.Job) bool { return !g.measured[j.ID].notYet(j, s.At) })
		if due && len(giveback.Choose(giveBackNode(n), most)) > 0 {
			jobs = append(jobs, here...)
		}
		if len(jobs) >= maxMeasured {
			break
		}
	}
	return jobs[:min(len(jobs), maxMeasured)]
}

// eligible returns, by node, the running jobs whose memory may be lowered, once in a
// run. A job that runs with a size of priod's is not among them: it has what it can
// use.
func (g *GiveBack) eligible(s *cluster.Snapshot, h *cluster.History) map[string][]*cluster.Job {
	if !g.set.Enabled {
		return nil
	}
	var on map[string][]*cluster.Job
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Running || !Agrees(j) || j.Nodes != 1 || j.HetLeader != 0 || !g.set.Ranking.Ranks(j.Partition) ||
			j.Start.IsZero() || s.At.Sub(j.Start) < g.set.After || j.MemMB-giveback.Keep(0) < giveback.Margin {
			continue
		}
		size := h.Requests[j.ID][slurmplug.Size]
		if size.Value != size.Was || h.Requests[j.ID][slurmplug.MinMemoryNode].Ours(slurmplug.Number(j.MemMB)) || g.measured[j.ID].wasRefused(j) {
			continue
		}
		if on == nil {
			on = map[string][]*cluster.Job{}
		}
		on[j.NodeList] = append(on[j.NodeList], j)
	}
	return on
}

// Agrees reports whether a job's tag agrees to give back memory.
func Agrees(j *cluster.Job) bool { return j.TagErr == "" && j.Tag.GiveBack }

func (r measuredRun) wasRefused(j *cluster.Job) bool {
	return r.start.Equal(j.Start) && r.until.IsZero()
}

func (r measuredRun) notYet(j *cluster.Job, at time.Time) bool {
	return r.start.Equal(j.Start) && (r.until.IsZero() || at.Before(r.until) && r.until.Sub(at) <= measureEvery)
}

func giveBackNode(n *cluster.Node) giveback.Node {
	return giveback.Node{
		GPUs: n.GPUs, FreeGPUs: max(n.GPUs-n.GPUsUsed, 0), CPUs: n.CPUs, FreeCPUs: max(n.CPUs-n.CPUsUsed, 0),
		MemMB: n.MemMB, FreeMemMB: max(n.MemMB-n.MemUsedMB, 0),
	}
}

func lacksMemory(n *cluster.Node) bool {
	if n.GPUs == 0 || !n.Usable {
		return false
	}
	_, mem := giveBackNode(n).Lacking()
	return mem > 0
}

// wantedTypes are the GPU types that jobs wait for, by partition; "" stands for any
// type.
type wantedTypes map[string]map[string]bool

// typesWaitedFor tells which GPUs jobs wait for that need nothing but room to start.
func typesWaitedFor(s *cluster.Snapshot) wantedTypes {
	w, seen := wantedTypes{}, map[[2]string]bool{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending || j.GPUs == 0 || !j.WantsRoom() || j.Held() || j.Dependency || j.Reserved() {
			continue
		}
		key := [2]string{j.Partition, j.GPUType}
		if seen[key] {
			continue
		}
		seen[key] = true
		for p := range strings.SplitSeq(j.Partition, ",") {
			if w[p] == nil {
				w[p] = map[string]bool{}
			}
			w[p][j.GPUType] = true
		}
	}
	return w
}

// onNode reports whether some job may wait for a GPU of the node.
func (w wantedTypes) onNode(n *cluster.Node) bool {
	return slices.ContainsFunc(n.Partitions, func(p string) bool {
		return w[p][""] || w[p][n.GPUType] || n.MixedTypes && len(w[p]) > 0
	})
}

// Measured notes which jobs were measured: they are not measured again for a while.
func (g *GiveBack) Measured(jobs []*cluster.Job, at time.Time) {
	for _, j := range jobs {
		g.measured[j.ID] = measuredRun{j.Start, at.Add(measureEvery)}
	}
}

// Decide adds to the plan the writes that give waiting jobs their own memory back, and
// those that lower the memory of running ones. peaks is the most memory in MB that the
// measured jobs have used. All these jobs have their AskedMB.
func (g *GiveBack) Decide(s *cluster.Snapshot, h *cluster.History, p *plan.Plan, lowered, candidates []*cluster.Job, peaks map[cluster.JobID]int64) {
	g.forget(s)
	var actions []plan.Action
	for _, j := range lowered {
		r := h.Requests[j.ID][slurmplug.MinMemoryNode]
		if now, shown := j.Request(slurmplug.MinMemoryNode); shown && r.Ours(now) {
			actions = append(actions, plan.Action{
				Job: j.ID, Tasks: j.Tasks, Lever: slurmplug.MinMemoryNode, Before: now, After: r.Was, Was: r.Was, Reason: "memory",
			})
		}
	}
	on := map[string][]giveback.Job{}
	for _, j := range candidates {
		if peak := peaks[j.ID]; peak > 0 && j.AskedMB == j.MemMB {
			on[j.NodeList] = append(on[j.NodeList], giveback.Job{ID: j.ID, MemMB: j.MemMB, Keep: giveback.Keep(peak)})
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, j := range giveback.Choose(giveBackNode(n), on[n.Name]) {
			own := slurmplug.Number(j.MemMB)
			actions = append(actions, plan.Action{
				Job: j.ID, Lever: slurmplug.MinMemoryNode, Before: own, After: slurmplug.Number(j.Keep), Was: own, Reason: "memory",
			})
		}
	}
	p.Ask(actions)
}

// Refused notes that Slurm refused to change the memory of a run: that is not tried
// again. A waiting job's own memory is.
func (g *GiveBack) Refused(id cluster.JobID, s *cluster.Snapshot) {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.ID == id && j.State == cluster.Running {
			g.measured[id] = measuredRun{start: j.Start}
		}
	}
}

// forget drops what is known of runs that have ended.
func (g *GiveBack) forget(s *cluster.Snapshot) {
	if len(g.measured) == 0 {
		return
	}
	kept := map[cluster.JobID]measuredRun{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Running {
			if r, known := g.measured[j.ID]; known && r.start.Equal(j.Start) {
				kept[j.ID] = r
			}
		}
	}
	g.measured = kept
}
