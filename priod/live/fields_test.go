package live

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Every field of squeue's record makes a difference to the job in some request, and every
// field of the job comes from it. Of one that does not, say here where it goes or comes from.
func TestEveryFieldOfARecord(t *testing.T) {
	elsewhere := []string{"UID", "AtOnce", "Shares"}                                                                                                                                                                    // users.name makes it the User, addArrays the limit of all of an array, keepOthers a node's Owned
	others := []string{"AtOnce", "ArrayRuns", "SiteFactor", "SiteFactorKnown", "Asked", "Switches", "NodeCount", "Tag", "Node", "Parts", "Site", "Admitted", "Right", "EntitledSince", "RightTasks", "Idle", "Fragile"} // addArrays, sprio, closer looks, packages consent, headroom, guarantee and idle, and what TestJob covers
	when := time.Unix(1700000000, 0)
	base := slurmplug.Job{ID: slurmplug.JobID{ID: 3, Task: 1}, RawID: 4, TaskCount: 1, User: "ann", Partition: "gpu", State: "PENDING", Nodes: 2, NumTasks: 4,
		TRES: "cpu=2,mem=4G,node=2", TimeLimit: time.Hour, Submit: when, Comment: "prio:type=te&v=1"}
	var bases []slurmplug.Job
	for _, request := range []func(j *slurmplug.Job){
		func(j *slurmplug.Job) { j.TresPerJob = "gres:gpu:v100:4" },
		func(j *slurmplug.Job) { j.TresPerNode = "gres:gpu:2" },
		func(j *slurmplug.Job) { j.TresPerTask = "gres:gpu:1" },
		func(j *slurmplug.Job) { j.TresPerSock = "gres:gpu:1"; j.Sockets = 2 },
		func(j *slurmplug.Job) { j.State, j.NodeList, j.TresPerNode = "RUNNING", "v1", "gres:gpu:2" },
		func(j *slurmplug.Job) { j.HetID = 2 },
		func(j *slurmplug.Job) { j.CPUs, j.MinMemMB = 4, 1024 },
		func(j *slurmplug.Job) { j.TresPerJob, j.CPUsPerTRES = "gres:gpu:4", "gres:gpu:2" },
		func(j *slurmplug.Job) { j.TresPerNode, j.Threads = "gres:gpu:1,lscratch:10", 1 },
		func(j *slurmplug.Job) { j.TresPerNode = "gres:shard:1" },
		func(j *slurmplug.Job) { j.Comment = "prio:v=7" },
		func(j *slurmplug.Job) { j.Partition, j.Reason = "gpu,down", "PartitionDown" },
	} {
		j := base
		request(&j)
		bases = append(bases, j)
	}
	convert := func(j slurmplug.Job) (o cluster.Job) {
		var tags tagCache
		tags.begin()
		v := conversion{nodeMB: []int64{2048}, types: gpuTypes(nodes()), tags: &tags, partitions: cluster.Partitions{"gpu": {}, "down": {Closed: "DOWN"}},
			partitionQOS: map[string]string{"down": "tiny"}, withQOS: []string{"down"}, qosLimits: map[string]slurmplug.QOSLimits{"tiny": {MaxTime: time.Minute}, "": {Flags: []string{"PartitionTimeLimit"}}}}
		v.job(&o, &j)
		return o
	}
	filled := map[string]bool{}
	note := func(o cluster.Job) {
		v := reflect.ValueOf(o)
		for i := range v.NumField() {
			filled[v.Type().Field(i).Name] = filled[v.Type().Field(i).Name] || !v.Field(i).IsZero()
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[slurmplug.Job]()) {
		differs := slices.ContainsFunc(bases, func(j slurmplug.Job) bool {
			was := convert(j)
			field := reflect.ValueOf(&j).Elem().FieldByIndex(f.Index)
			field.Set(another(t, field))
			now := convert(j)
			note(now)
			return !reflect.DeepEqual(was, now)
		})
		if !differs && !slices.Contains(elsewhere, f.Name) {
			t.Errorf("no job shows slurmplug's %s", f.Name)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[cluster.Job]()) {
		if !filled[f.Name] && !slices.Contains(others, f.Name) {
			t.Errorf("cluster.Job's %s is never filled", f.Name)
		}
	}
}

// another returns a value that differs from v.
func another(t *testing.T, v reflect.Value) reflect.Value {
	t.Helper()
	next := reflect.New(v.Type()).Elem()
	switch x := v.Interface().(type) {
	case time.Time:
		return reflect.ValueOf(x.Add(time.Hour))
	case slurmplug.JobID:
		return reflect.ValueOf(slurmplug.Plain(x.ID + 1))
	}
	switch v.Kind() {
	case reflect.Bool:
		next.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		next.SetInt(v.Int() + 1)
	case reflect.Uint32:
		next.SetUint(v.Uint() + 1)
	case reflect.String:
		next.SetString(v.String() + "x")
	default:
		t.Fatalf("no other value is known of a %s", v.Type())
	}
	return next
}
