package nodemap

import (
	"slices"

	"slurmprio/priod/cluster"
)

// crowd marks, of the nodes whose GPUs belong to sockets, those on which a job holds more CPUs than the part of its GPUs. On the
// others each socket has that part free for each of its free GPUs: Slurm gives a job the CPUs beside its GPUs where it can
// (gres_select_filter.c). It is asked only where a waiting job needs CPUs of one socket.
func (m *Map) crowd(jobs []cluster.Job) {
	if !slices.ContainsFunc(jobs, func(j cluster.Job) bool { return j.State == cluster.Pending && j.Node.GPUCPUs > 0 }) {
		return
	}
	unknown := make([]int32, len(m.sizes)) // CPUs in use that no job is known to hold
	for at := range m.sizes {
		unknown[at] = m.sizes[at].CPUs - m.Nodes.FreeOn(int32(at)).CPUs
	}
	for i := range jobs {
		j := &jobs[i]
		if j.State == cluster.Pending {
			continue
		}
		for _, share := range m.Shares(j) {
			cpus, size := m.coresOf(j, share.Node, share.CPUs), &m.sizes[share.Node]
			unknown[share.Node] -= cpus
			size.Crowded = size.Crowded || cpus*size.GPUs > share.GPUs*size.CPUs
		}
	}
	for at, cpus := range unknown {
		m.sizes[at].Crowded = m.sizes[at].Crowded || cpus > 0
	}
}
