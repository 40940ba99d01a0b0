package live

import (
	"cmp"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// held is what a job holds, or jobs together.
type held struct {
	cpus, memMB, nodes int64
	gpus               map[string]int64 // by type, "" for all of them
}

// of is the amount of a TRES; known is false for those that are not counted.
func (h *held) of(tres string) (amount int64, known bool) {
	gpus, isGPU := strings.CutPrefix(tres, "gres/gpu")
	switch {
	case tres == "cpu":
		return h.cpus, true
	case tres == "mem":
		return h.memMB, true
	case tres == "node":
		return h.nodes, true
	case isGPU && (gpus == "" || gpus[0] == ':'):
		return h.gpus[strings.TrimPrefix(gpus, ":")], true
	}
	return 0, false
}

// scope is a QOS, or the jobs of one user or account under it.
type scope struct{ qos, user, account string }

// qosHeld is what the running jobs under each QOS with limits hold.
type qosHeld map[scope]*held

// heldUnder adds up what running jobs hold under the limits of QOS: their own and those of their partitions.
func heldUnder(limits map[string]slurmplug.QOSLimits, partitionQOS map[string]string, jobs []slurmplug.Job) qosHeld {
	if len(limits) == 0 {
		return nil
	}
	all := qosHeld{}
	for i := range jobs {
		j := &jobs[i]
		if s := state(j.State); j.Unread != "" || s == cluster.Pending || s == cluster.Other {
			continue
		}
		for k, qos := range []string{j.QOS, partitionQOS[j.Partition]} {
			l, limited := limits[qos]
			if !limited || len(l.User)+len(l.Account)+len(l.All) == 0 || k > 0 && qos == j.QOS {
				continue
			}
			for _, s := range []scope{{qos: qos}, {qos: qos, user: j.User}, {qos: qos, account: j.Account}} {
				if all[s] == nil {
					all[s] = &held{gpus: map[string]int64{}}
				}
				all[s].add(j)
			}
		}
	}
	return all
}

func (h *held) add(j *slurmplug.Job) {
	gpuType, gpus := j.GPUs()
	h.cpus, h.memMB, h.nodes = h.cpus+int64(j.CPUs), h.memMB+j.MemMB(), h.nodes+int64(j.Nodes)
	h.gpus[""] += int64(gpus)
	if gpuType != "" {
		h.gpus[gpuType] += int64(gpus)
	}
}

// bound sets the most that Slurm may allocate to a waiting job on nodes of these sizes: whole cores, and whole nodes where
// it has them to itself. Slurm compares that with the limits of QOS once it has found a place, and what the job asks for
// before (slurmctld/acct_policy.c).
func (d *demand) bound(j *slurmplug.Job, whole bool, nodes []nodeSize, nodeMB []int64) {
	count := int64(max(d.nodes, 1))
	d.most = held{cpus: int64(d.cpus), memMB: d.memMB, nodes: count, gpus: map[string]int64{"": int64(d.gpus)}}
	for _, n := range nodes {
		each := max((d.cpus+int(count)-1)/int(count), d.nodeCPUs)
		if j.Threads == 1 {
			each *= max(n.threads, 1)
		}
		if core := max(n.together, n.threads, 1); each%core != 0 {
			each += core - each%core
		}
		if whole {
			each = n.cpus
			d.most.gpus[""] = max(d.most.gpus[""], int64(n.gpus)*count)
		}
		d.most.cpus = max(d.most.cpus, int64(each)*count)
	}
	d.most.gpus[d.gpuType] = d.most.gpus[""]
	switch {
	case d.allMem && len(nodeMB) > 0:
		d.most.memMB = max(d.most.memMB, slices.Max(nodeMB)*count)
	case d.memByCPU:
		d.most.memMB = max(d.most.memMB, j.MinMemMB*d.most.cpus)
	}
}

// beyond sets the partitions in which a waiting job exceeds limits of QOS with what Slurm may allocate to it, beside the
// jobs that run: of its own, and of those that have a QOS. why says which limit, where that are all of its own.
func (v *conversion) beyond(j *cluster.Job, most held) (why string) {
	if len(v.qosLimits) == 0 || j.State != cluster.Pending {
		return ""
	}
	own, some := cluster.PartitionNames(j.Partition), false
	var beyond []string
	for i, name := range slices.Concat(own, v.withQOS) {
		switch is := v.exceeds(j, most, name); {
		case is != "" && !slices.Contains(beyond, name):
			why, beyond = cmp.Or(why, is), append(beyond, name)
		case is == "":
			some = some || i < len(own)
		}
	}
	if j.Beyond = strings.Join(beyond, ","); some {
		return ""
	}
	return why
}

// exceeds names the QOS whose limits a job exceeds in a partition; "": none. What the QOS of the partition says goes before
// what the job's own says of the same, unless that has the flag OverPartQOS (slurmctld/acct_policy.c).
func (v *conversion) exceeds(j *cluster.Job, most held, partition string) string {
	qos := []string{v.partitionQOS[partition], j.QOS}
	if own := v.qosLimits[j.QOS]; own.Has("OverPartQOS") {
		slices.Reverse(qos)
	}
	said, limited := map[string]bool{}, false
	for _, name := range qos {
		l := v.qosLimits[name]
		if l.MaxTime > 0 && !limited && (j.TimeLimit == slurmplug.Unlimited || j.TimeLimit > l.MaxTime) {
			return "a longer time limit than QOS " + name + " allows"
		}
		limited = limited || l.MaxTime > 0
		for _, x := range []struct {
			limit slurmplug.TRES
			of    string
			scope scope
		}{
			{l.Node, "a node", scope{}}, {l.Job, "a job", scope{}}, {l.All, "all jobs", scope{qos: name}},
			{l.User, "a user", scope{qos: name, user: j.User}}, {l.Account, "an account", scope{qos: name, account: j.Account}},
		} {
			for _, limit := range x.limit {
				amount, known := most.of(limit.Name)
				before := said[x.of+limit.Name]
				if said[x.of+limit.Name] = true; !known || amount == 0 || before {
					continue
				}
				if x.of == "a node" {
					amount = (amount + most.nodes - 1) / most.nodes
				}
				if h := v.qosHeld[x.scope]; h != nil {
					run, _ := h.of(limit.Name)
					amount += run
				}
				if amount > limit.Count {
					return "more " + limit.Name + " than QOS " + name + " allows of " + x.of
				}
			}
		}
	}
	return ""
}
