package size

import (
	"fmt"
	"math"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
)

// resizable is a job, or a task of an array, that may get another size.
type resizable struct {
	queuedJob
	id    cluster.JobID
	asked *slurmplug.Asked           // as its owner did
	ahead *pinnedJob                 // it has a size on a node on which no GPU was free; else nil
	on    []*sensitivity.Sensitivity // by kind of nodes; nil: it may not run there
}

// anyConsents reports whether any waiting job agreed to another size.
func anyConsents(s *cluster.Snapshot) bool {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Pending && j.AllowsSize() {
			return true
		}
	}
	return false
}

// prefersNodes is why a job with --prefer is not sized: pinned to a node that lacks
// what the job prefers, Slurm would never start it.
const prefersNodes = "it uses --prefer, with which Slurm refuses the nodes that a size names"

// isBusy reports whether something else about a job is being changed, after which its size
// may be.
func (d *decider) isBusy(j *cluster.Job, id cluster.JobID) bool {
	return d.h.Claiming[j.ID] || d.h.Claiming[id] || d.steered[j.ID]
}

// candidate returns nil and the reason for a job that keeps its size.
func (d *decider) candidate(w queuedJob, id cluster.JobID, types placement.Types) (*resizable, string) {
	j, a := w.job, w.job.Asked
	ahead := d.ahead[id]
	if ahead != nil {
		own := a.Of(ahead.r.Was)
		a = &own
	}
	switch {
	case !j.AllowsSize():
		return nil, "it did not consent"
	case !isOrdered(w.dec, j, d.s.At):
		return nil, "priod does not rank it"
	case j.HetLeader != 0:
		return nil, "it is part of a heterogeneous job"
	case j.Prefer != "":
		return nil, prefersNodes
	case d.h.Claiming[j.ID], d.h.Claiming[id]:
		return nil, "room is being made for it"
	case d.steered[j.ID]:
		return nil, "its GPU type is being chosen"
	case d.kept[id] && ahead == nil, d.foreign[id]:
		return nil, "it has one from an earlier cycle"
	case !d.h.Refusal(j, id, slurmplug.Size).At.IsZero():
		return nil, "Slurm refused the change: " + d.h.Refusal(j, id, slurmplug.Size).Words
	case d.s.At.Before(d.retriesAt(id)):
		return nil, fmt.Sprintf("it did not start with another size; priod tries again after %s", d.retriesAt(id).Format(time.RFC3339))
	case a == nil:
		return nil, "it is too far from the head of the queue, or its request could not be read"
	case a.Fixed != "":
		return nil, "it " + a.Fixed
	case a.Nodes != "":
		return nil, "it names its nodes"
	case a.KeepsCPUs != "" && a.KeepsMemory != "":
		return nil, "it " + a.KeepsCPUs + "; it " + a.KeepsMemory
	case exceededLimit(a) != "":
		return nil, "it requests more than a limit leaves: " + exceededLimit(a)
	}
	c := &resizable{queuedJob: w, id: id, asked: a, ahead: ahead, on: make([]*sensitivity.Sensitivity, len(d.nodes.Kinds))}
	why := "no node has its GPUs"
	for t, n := range d.nodes.Kinds {
		if !types.Has(int32(t)) || n.GPUs == 0 {
			continue
		}
		if c.on[t], why = d.sensitivity(j, a, n), ""; c.on[t].Curve == nil {
			return nil, strings.Join(append([]string{"no curve is known for " + changeable(a) + " on " + n.GPUType}, c.on[t].Notes...), "; ")
		}
	}
	if why != "" {
		return nil, why
	}
	return c, ""
}

// changeable names what of a job's size may change.
func changeable(a *slurmplug.Asked) string {
	switch {
	case a.KeepsCPUs != "":
		return "memory"
	case a.KeepsMemory != "":
		return "CPUs"
	}
	return "CPUs and memory"
}

// curveKey is all that a sensitivity depends on.
type curveKey struct {
	tag, user, name, gpuType string
	share                    sensitivity.Share
	cpus, memMB              float64 // requested, for each GPU
	keepsCPUs, keepsMem      string
}

// sensitivity returns how a job's speed depends on its size on a kind of nodes.
// Resources without a known benefit stay as requested: memory, without which the job
// might die, and CPUs if it has its share of them. There is no curve when nothing is
// known and it has its share.
func (d *decider) sensitivity(j *cluster.Job, a *slurmplug.Asked, n *cluster.Node) *sensitivity.Sensitivity {
	gpus := float64(a.GPUs)
	key := curveKey{
		tag: j.TagText, user: j.User, name: j.Name, gpuType: n.GPUType, keepsCPUs: a.KeepsCPUs, keepsMem: a.KeepsMemory,
		cpus: float64(a.CPUs) / gpus, memMB: float64(a.MemMB) / gpus,
		share: sensitivity.Share{CPUs: float64(n.CPUs) / float64(n.GPUs), MemMB: float64(n.MemMB) / float64(n.GPUs)},
	}
	if s, known := d.curves[key]; known {
		return s
	}
	if len(d.curves) > 1<<14 {
		clear(d.curves)
	}
	s := sensitivity.Of(sensitivity.Job{User: j.User, Name: j.Name, Tag: &j.Tag}, n.GPUType, key.share, d.set.Table, d.set.Past)
	for _, keeps := range []struct {
		why   string
		known *bool
	}{{a.KeepsCPUs, &s.CPU}, {a.KeepsMemory, &s.Mem}} {
		if keeps.why != "" {
			*keeps.known, s.Notes = false, append(s.Notes, "it "+keeps.why)
		}
	}
	s.Why = strings.Join(append([]string{s.Why}, s.Notes...), "; ")
	switch {
	case !s.CPU && !s.Mem && (a.KeepsCPUs != "" || key.cpus >= math.Floor(key.share.CPUs)):
		s.Curve = nil
	case !s.CPU && !s.Mem:
		s.Curve = constantCurve(key.share.CPUs, key.memMB)
	case !s.Mem:
		s.Curve = subCurve(s.Curve, s.Curve.CPUs, s.Curve.DemandCPUs, []int64{ceilMB(key.memMB)}, key.memMB)
	case !s.CPU:
		s.Curve = subCurve(s.Curve, []float64{key.cpus}, key.cpus, s.Curve.MemMB, float64(s.Curve.DemandMemMB))
	}
	d.curves[key] = &s
	return &s
}

func ceilMB(mb float64) int64 { return max(1, int64(math.Ceil(mb))) }

// constantCurve is the curve of a job that is equally fast whatever it gets.
func constantCurve(cpus, memMB float64) *workload.Curve {
	return &workload.Curve{
		IterationS: 1, DemandCPUs: cpus, DemandMemMB: ceilMB(memMB),
		CPUs: []float64{cpus}, MemMB: []int64{ceilMB(memMB)}, Speed: [][]float64{{1}},
	}
}

// subCurve is a curve at some points of another one.
func subCurve(c *workload.Curve, cpus []float64, wantCPUs float64, memMB []int64, wantMB float64) *workload.Curve {
	o := &workload.Curve{IterationS: c.IterationS, DemandCPUs: wantCPUs, DemandMemMB: ceilMB(wantMB), CPUs: cpus, MemMB: memMB}
	for _, x := range cpus {
		row := make([]float64, len(memMB))
		for k, mb := range memMB {
			row[k] = c.Relative(x, float64(mb))
		}
		o.Speed = append(o.Speed, row)
	}
	return o
}
