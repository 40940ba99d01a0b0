package slurmplug

import "testing"

func TestWaitsFor(t *testing.T) {
	for reason, want := range map[string]Waits{
		"": ForRoom, "None": ForRoom, "Resources": ForRoom, "Priority": ForRoom,
		"No suitable topology unit found": ForRoom, "No_suitable_topology_unit_found_for_segment": ForRoom,
		"Required nodes lack available resources": ForRoom, "Required nodes do not fit topology": ForElse,
		"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions":            ForRoom,
		"Nodes_required_for_job_are_DOWN,_DRAINED,_REBOOTING_or_reserved_for_jobs_in_higher_priority_partitions": ForRoom,
		"ReqNodeNotAvail, UnavailableNodes:n[1-2]":                                                               ForNodes, "ReqNodeNotAvail,_Reserved_for_maintenance": ForNodes,
		"BeginTime": ForTime, "JobHeldUser": ForHold, "JobHeldAdmin": ForHold, "BadConstraints": Forever,
		"Constraints": ForElse, "Licenses": ForElse, "QOSMaxGRESPerUser": ForElse, "AssocGrpGRES": ForElse,
		"MaxPoweredUpNodes": ForElse, "MpiPortsBusy": ForElse, "NvidiaImexChannels": ForElse,
		"job requeued in held state": ForElse, "a reason of a Slurm to come": ForElse, "resources": ForElse,
	} {
		if got := WaitsFor(reason); got != want {
			t.Errorf("%q: %d, want %d", reason, got, want)
		}
	}
}
