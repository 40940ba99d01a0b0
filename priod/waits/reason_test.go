package waits

import (
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
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
		"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": plan.NoNode,
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
