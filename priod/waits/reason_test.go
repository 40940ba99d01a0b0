package waits

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Slurm's reasons of 22.05 to 26.05, with blanks or, as scontrol prints them, without.
func TestReasons(t *testing.T) {
	for reason, want := range map[string]plan.Cause{
		"Priority": "", "Resources": "", "None": "", "": "", "No suitable topology unit found": "", "Insufficient_resources_in_topology_unit": "",
		"JobHeldUser": plan.HeldBack, "JobHeldAdmin": plan.HeldBack, "JobHoldMaxRequeue": plan.HeldBack,
		"Dependency": plan.AfterJob, "DependencyNeverSatisfied": plan.AfterJob, "BeginTime": plan.BeforeTime, "Licenses": plan.NoLicence,
		"AssocGrpGRES": plan.AtLimit, "AssocMaxJobsLimit": plan.AtLimit, "AssociationJobLimit": plan.AtLimit, "QOSGrpCpuLimit": plan.AtLimit, "QOSMaxGRESPerUser": plan.AtLimit,
		"QOSUsageThreshold": plan.AtLimit, "QOSNotAllowed": plan.AtLimit, "MaxGRESPerAccount": plan.AtLimit, "MaxJobsPerAccount": plan.AtLimit, "MaxMemPerLimit": plan.AtLimit,
		"JobArrayTaskLimit": plan.AtLimit, "PartitionTimeLimit": plan.AtLimit, "PartitionNodeLimit": plan.AtLimit, "AccountNotAllowed": plan.AtLimit, "InvalidQOS": plan.AtLimit,
		"BadConstraints": plan.NoNode, "Constraints": plan.NoNode, "PartitionDown": plan.NoNode, "Reservation": plan.NoNode, "MaxPoweredUpNodes": plan.NoNode,
		"ReqNodeNotAvail, UnavailableNodes:n[1-2]":                                                    plan.NoNode,
		"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": "", // the nodes tell
		"BurstBufferStageIn": plan.ByOther, "Cleaning": plan.ByOther, "MpiPortsBusy": plan.ByOther, "NvidiaImexChannels": plan.ByOther, "something new": plan.ByOther,
	} {
		cause, what, told := byReason(&cluster.Job{State: cluster.Pending, Priority: 1, Reason: reason}, time.Unix(0, 0))
		if cause != want || told != (want != "") || len(what) > 60 {
			t.Errorf("%q: %q (%s), want %q", reason, cause, what, want)
		}
	}
	if cause, what, _ := byReason(&cluster.Job{State: cluster.Pending, Reason: "launch failed requeued held"}, time.Time{}); cause != plan.HeldBack || what == "" {
		t.Error(cause, what)
	}
}

// Slurm says "DOWN, DRAINED or reserved" of a job behind one of another partition, too: the nodes tell which it is.
func TestNodesSaidToBeDown(t *testing.T) {
	const text = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
	for usable, want := range map[bool]plan.Cause{true: plan.Capacity, false: plan.NoNode} {
		s := &cluster.Snapshot{At: noon, Nodes: []cluster.Node{{Name: "n1", Usable: usable, GPUType: "a", GPUs: 4, GPUsUsed: 4, CPUs: 8, Partitions: []string{"p", "q"}}}}
		s.Jobs = []cluster.Job{{ID: slurmplug.Plain(7), State: cluster.Pending, Partition: "p", Reason: text, Priority: 1, GPUs: 2, TaskCount: 1}}
		w := newWalk(s, nodemap.New(s), false)
		w.judgeAll(nil)
		v := &w.verdicts[0]
		_, words, _ := w.explain(v)
		if up := strings.Contains(words, "its nodes are up"); v.cause != want || up != usable {
			t.Errorf("usable %v: %s %q %q", usable, v.cause, v.what, words)
		}
	}
}

// The reason that Slurm shows of a job in several partitions is that of one of them.
func TestReasonOfOneOfSeveralPartitions(t *testing.T) {
	for partition, want := range map[string]bool{"p": true, "p,q": false} {
		j := &cluster.Job{State: cluster.Pending, Priority: 1, Reason: "BadConstraints", Partition: partition}
		if _, _, told := byReason(j, noon); told != want || j.Unsatisfied() != want || j.WantsRoom() == want {
			t.Errorf("%s: %v, unsatisfied %v, wants room %v", partition, told, j.Unsatisfied(), j.WantsRoom())
		}
	}
	j := &cluster.Job{State: cluster.Pending, Priority: 1, Reason: "ReqNodeNotAvail, UnavailableNodes:n[1-2]"}
	w := &walk{snapshot: &cluster.Snapshot{Jobs: []cluster.Job{*j}}}
	if _, words, _ := w.explain(&verdict{cause: plan.NoNode, what: "ReqNodeNotAvail"}); words != "UnavailableNodes:n[1-2]" {
		t.Errorf("%q", words)
	}
}
