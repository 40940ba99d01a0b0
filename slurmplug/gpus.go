package slurmplug

import (
	"cmp"
	"slices"
	"strings"
)

// GPUs says how many GPUs the whole job holds, or while it is pending asks for (one task of an array), and of
// which GRES type: "" when it left the type open, several joined by a comma.
//
// What a job holds is tres-alloc's: with --exclusive all of its nodes, with -n 48 those of as many nodes as that took.
// A cluster without AccountingStorageTRES=gres/gpu lists none there; then, and while it is pending, the count follows from
// the request, in Slurm's order: for the job, for each node, each task, each socket. Of --ntasks-per-gpu alone only
// tres-alloc tells (seen on 22.05.8, 24.11.5 and 26.05.5). The type is the one asked for.
func (j *Job) GPUs() (gpuType string, count int) {
	gpuType, count, read := j.requestedGPUs()
	allocType, alloc, listed := j.AllocatedGPUs()
	switch {
	case !read, listed && count == 0:
		return allocType, alloc
	case listed && j.State != "PENDING":
		count = alloc
	}
	return gpuType, count
}

// OtherGres is what each node of the job gives it beside GPUs: "lscratch:60,nic:1", "" for nothing, as far as it asks
// for that by node. open names what cannot be counted: parts of GPUs (shard, mps), or another GRES by job, socket or task.
func (j *Job) OtherGres() (each, open string) {
	var words []string
	for i, list := range []string{j.TresPerNode, j.TresPerJob, j.TresPerTask, j.TresPerSock} {
		all, err := requestedGres(list)
		if err != nil {
			return "", string(clip([]byte(list)))
		}
		for _, g := range all {
			switch {
			case g.Name == "gpu" || g.Name == "none" || g.Count == 0:
			case Shares(g.Name) || i > 0:
				open = cmp.Or(open, g.Name)
			default:
				words = append(words, g.String())
			}
		}
	}
	return strings.Join(words, ","), open
}

// CPUsPerGPU is --cpus-per-gpu, 0 where it is not asked for. Up to 22.05 NumCPUs of a pending job leaves it out (seen on 22.05.8).
func (j *Job) CPUsPerGPU() int {
	n, _ := perGPU(j.CPUsPerTRES)
	return n
}

// AllocatedGPUs is GPUs as tres-alloc counts them: Slurm's own count of the
// request while the job is pending, what it holds afterwards. The type is
// known only when AccountingStorageTRES names it; ok is false when no GPUs are
// listed at all.
func (j *Job) AllocatedGPUs() (gpuType string, count int, ok bool) {
	t, _ := ParseTRES(j.TRES)
	return t.GPUs()
}

// NodeCount is how many nodes the job asks for at least while it is pending, how
// many it holds afterwards. NumNodes of a pending job is what its last run had or
// an estimate (seen on 22.05.8), tres-alloc the request.
func (j *Job) NodeCount() int {
	if j.State == "PENDING" {
		t, _ := ParseTRES(j.TRES)
		if n, _ := t.Get("node"); n > 0 && n <= maxGPUs {
			return int(n)
		}
	}
	return j.Nodes
}

// MemMB is the memory of the whole job in MB as tres-alloc has it, 0 when it
// is not listed.
func (j *Job) MemMB() int64 {
	t, _ := ParseTRES(j.TRES)
	mb, _ := t.Get("mem")
	return mb
}

// NodeGPUs is how many GPUs one node has to have for the job, as far as squeue tells:
// those that it asks for each node, task or socket. 0: the request is for the whole job.
func (j *Job) NodeGPUs() (count int) {
	for _, r := range []struct {
		list  string
		times int
	}{{j.TresPerNode, 1}, {j.TresPerTask, 1}, {j.TresPerSock, max(j.Sockets, 1)}} {
		all, err := requestedGres(r.list)
		if err != nil {
			continue
		}
		n, _ := countGPUs(all)
		count = max(count, n*r.times)
	}
	return count
}

// ByTask reports whether the job asks for GPUs by task.
func (j *Job) ByTask() bool {
	all, _ := requestedGres(j.TresPerTask)
	n, _ := countGPUs(all)
	return n > 0
}

// requestedGres reads a request by job, node, socket or task. From 23.11 on one by task
// may name more than GRES, "cpu=4,gres/gpu=1", and -c sets it (seen on 24.11.5).
func requestedGres(list string) ([]Gres, error) {
	if isUnset(list) {
		return nil, nil
	}
	var gres []string
	for item := range listItems(list) {
		if !isOtherTRES(item) {
			gres = append(gres, item)
		}
	}
	return ParseGres(strings.Join(gres, ","))
}

// isOtherTRES reports whether an item of a request is no GRES.
func isOtherTRES(item string) bool {
	name := item[:max(strings.IndexAny(item+"=", "=:"), 0)]
	return name == "cpu" || name == "mem" || strings.HasPrefix(name, "license/") || strings.HasPrefix(name, "bb/")
}

// isByTask reports whether a request by task names a resource as --tres-per-task does,
// "cpu:4": -c has it as "cpu=4".
func isByTask(list, name string) bool {
	for item := range listItems(list) {
		if strings.HasPrefix(item, name+":") {
			return true
		}
	}
	return false
}

// requestedGPUs is false when a request is there and cannot be read.
func (j *Job) requestedGPUs() (gpuType string, count int, ok bool) {
	nodes := j.NodeCount()
	for _, r := range []struct {
		list  string
		times int
	}{
		{j.TresPerJob, 1},
		{j.TresPerNode, nodes},
		{j.TresPerTask, j.NumTasks},
		{j.TresPerSock, nodes * max(j.Sockets, 1)},
	} {
		if r.list == "" {
			continue
		}
		all, err := requestedGres(r.list)
		if err != nil {
			return "", 0, false
		}
		n, types := countGPUs(all)
		if n == 0 {
			continue // --gres=none, or another GRES
		}
		return types, n * max(r.times, 1), true
	}
	return "", 0, true
}

// countGPUs counts GPUs, with their types joined by a comma.
func countGPUs(all []Gres) (count int, types string) {
	var named []string
	n := int64(0)
	for _, g := range all {
		if g.Name == "gpu" && g.Count > 0 {
			n += g.Count
			if g.Type != "" {
				named = append(named, g.Type)
			}
		}
	}
	slices.Sort(named)
	return int(min(n, maxGPUs)), strings.Join(slices.Compact(named), ",")
}

// maxGPUs bounds what one request may claim, so that products stay numbers.
const maxGPUs = 1 << 24
