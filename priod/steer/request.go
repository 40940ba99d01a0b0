package steer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// request is the fields of a job's request by which it is bound to a GPU type: its constraint, to which the feature of
// the type is added, or its list of partitions, of which those with nodes of the type alone are left. The feature goes
// first, where nodes have one: it changes no priority, while a partition brings its own factor and hides the job's age
// until slurmctld counts priorities anew (PriorityCalcPeriod).
type request struct{ features, partitions string }

// levers are what writes a request.
var levers = [...]slurmplug.Lever{slurmplug.Features, slurmplug.PartitionList}

// of is the field of one lever.
func (r *request) of(l slurmplug.Lever) slurmplug.Value {
	if l == slurmplug.Features {
		return slurmplug.Text(r.features)
	}
	return slurmplug.Text(r.partitions)
}

// requestOf is what a job asks for now.
func requestOf(j *cluster.Job) request { return request{j.Features, j.Partition} }

// fieldsOf are the two fields of a waiting job, in the order of levers.
func fieldsOf(j *cluster.Job, h *cluster.History) [2]cluster.Field {
	return [2]cluster.Field{h.Field(j, levers[0]), h.Field(j, levers[1])}
}

// Bound reports whether a waiting job is bound to a GPU type.
func Bound(j *cluster.Job, h *cluster.History) bool {
	fields := fieldsOf(j, h)
	return fields[0].Ours || fields[1].Ours
}

// listed reports whether the job's list of partitions is priod's.
func (j *pendingJob) listed() bool { return j.own.partitions != j.Partition }

// asked is a job as it asks by a request.
func (r *request) asked(j *cluster.Job) cluster.Job {
	asks := *j
	asks.Features, asks.Partition = r.features, r.partitions
	return asks
}

// errNoPartition says that no list of partitions gives a job a type.
var errNoPartition = errors.New("none of its partitions has nodes of that type alone and admits it")

// requestFor is what binds a job to a type: Open to none.
func (types *gpuTypes) requestFor(j *pendingJob, t int32) (request, error) {
	back, err := types.userRequest(j)
	switch {
	case t == Open:
		return back, err
	case types.features[t] != "" && types.has(j.own.partitions, t):
		back.features, err = types.vocabulary.with(j.own.features, types.features[t])
	default:
		if back.partitions, err = types.listFor(j, t), nil; back.partitions == "" {
			err = errNoPartition
		}
	}
	return back, err
}

// userRequest is what can be put back of the request that a job's user wrote, or why nothing can. What priod has not
// written stays as it is.
func (types *gpuTypes) userRequest(j *pendingJob) (request, error) {
	back := requestOf(j.Job)
	if j.own.features != j.Features {
		text, lost := types.vocabulary.accepted(j.own.features)
		if text == "" && len(lost) > 0 {
			return back, errors.New(NoFeature(lost))
		}
		back.features = text
	}
	if j.own.partitions != j.Partition {
		list, lost := PutBackPartitions(j.own.partitions, types.listed)
		drains := func(p cluster.Partition) bool {
			return p.Draining && slices.Contains(lost, p.Name) && slices.Contains(cluster.PartitionNames(j.Partition), p.Name)
		}
		if list == "" || slices.ContainsFunc(types.listed, drains) { // it may start in one that drains, and would not come back to it
			return back, errors.New(NoPartition(lost))
		}
		back.partitions = list
	}
	return back, nil
}

// PutBackPartitions is what Slurm accepts now of a list of partitions that a user wrote: those that there are and that take jobs. Others
// it leaves out of the list, or refuses it (_get_job_parts in slurmctld/job_mgr.c). lost are these. With none known all are accepted.
func PutBackPartitions(own string, known []cluster.Partition) (list string, lost []string) {
	if len(known) == 0 {
		return own, nil
	}
	var kept []string
	for _, name := range cluster.PartitionNames(own) {
		if slices.ContainsFunc(known, func(p cluster.Partition) bool { return p.Name == name && !p.Draining && p.Closed != "INACTIVE" }) {
			kept = append(kept, name)
		} else {
			lost = append(lost, name)
		}
	}
	return strings.Join(kept, ","), lost
}

// NoPartition says why a user's own list of partitions cannot be put back.
func NoPartition(lost []string) string {
	return fmt.Sprintf("its user's own partitions cannot be restored: Slurm lets no job into %.80s (DRAIN, INACTIVE or deleted)", strings.Join(lost, ", "))
}

// has reports whether one of a list of partitions has nodes of a type.
func (types *gpuTypes) has(list string, t int32) bool {
	for name := range strings.SplitSeq(list, ",") {
		if types.in[name].Has(t) {
			return true
		}
	}
	return false
}

// listFor is the partitions in which a job may run that give it a type: those whose nodes with GPUs are all of this type,
// that admit the job, and in which it is neither looked at later nor preempted sooner than in the others. "" for none.
func (types *gpuTypes) listFor(j *pendingJob, t int32) string {
	if !strings.Contains(j.reach, ",") {
		return ""
	}
	names, list := cluster.PartitionNames(j.reach), []string(nil)
	own := len(cluster.PartitionNames(j.own.partitions))
	for i, name := range names {
		p := types.partitions[name]
		if i >= own && p == nil { // its user did not name it, and it is not known whom it admits
			continue
		}
		if types.sole[name] != types.names[t] || p != nil && p.Admits(j.Job) != "" {
			continue
		}
		if !slices.ContainsFunc(names, func(other string) bool { return types.worse(p, types.partitions[other], j.Job) }) {
			list = append(list, name)
		}
	}
	return strings.Join(list, ",")
}

// worse reports whether a job in one partition is looked at later, or preempted sooner, than in another that starts it.
func (types *gpuTypes) worse(p, other *cluster.Partition, j *cluster.Job) bool {
	return p != nil && other != nil && other.Admits(j) == "" && (p.Tier < other.Tier || p.Preemptable && !other.Preemptable)
}

// boundTo is the type to which a request binds a job; Open for none.
func (types *gpuTypes) boundTo(j *pendingJob) int32 {
	if !j.ours {
		return Open
	}
	if j.own.features != j.Features && j.own.partitions == j.Partition {
		return types.boundBy(j.Features, j.own.features)
	}
	for t := range int32(len(types.names)) {
		if ask, err := types.requestFor(j, t); err == nil && ask == requestOf(j.Job) {
			return t
		}
	}
	return Open
}
