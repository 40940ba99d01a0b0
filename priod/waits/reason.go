package waits

import (
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// reasons are those of Slurm's that name no limit and that room does not end, of 22.05.8
// (job_reason_string in src/common/slurm_protocol_defs.c) to 26.05.3
// (src/common/job_state_reason.c). What is not here is ByOther.
var reasons = map[string]plan.Cause{
	"Dependency": plan.AfterJob, "DependencyNeverSatisfied": plan.AfterJob,
	"BeginTime":   plan.BeforeTime,
	"JobHeldUser": plan.HeldBack, "JobHeldAdmin": plan.HeldBack, "JobHoldMaxRequeue": plan.HeldBack,
	"Licenses": plan.NoLicence,

	"JobArrayTaskLimit": plan.AtLimit, "PartitionNodeLimit": plan.AtLimit, "PartitionTimeLimit": plan.AtLimit, "AccountingPolicy": plan.AtLimit,
	"AccountNotAllowed": plan.AtLimit, "InvalidAccount": plan.AtLimit, "InvalidQOS": plan.AtLimit,

	"BadConstraints": plan.NoNode, "Constraints": plan.NoNode, "Reservation": plan.NoNode, "ReservationDeleted": plan.NoNode, "NodeDown": plan.NoNode,
	"PartitionDown": plan.NoNode, "PartitionInactive": plan.NoNode, "FrontEndDown": plan.NoNode, "PowerNotAvail": plan.NoNode, "PowerReserved": plan.NoNode,
	"MaxPoweredUpNodes": plan.NoNode,
}

// byReason is the cause that Slurm's reason alone tells; false for a job that waits for
// room, or may. Slurm keeps a reason until it looks at the job again.
func byReason(j *cluster.Job, at time.Time) (cause plan.Cause, what string, told bool) {
	if j.Held() {
		return plan.HeldBack, word(j.Reason), true
	}
	switch cause, known := reasons[j.Reason]; {
	case known && !j.WantsRoom():
		return cause, j.Reason, true
	case j.Dependency && j.WantsRoom() && (j.Eligible.IsZero() || j.Eligible.After(at)): // Slurm has not looked at it yet
		return plan.AfterJob, "Dependency", true
	case j.WantsRoom():
		return "", "", false
	case slurmplug.WaitsFor(j.Reason) == slurmplug.ForNodes:
		return plan.NoNode, word(j.Reason), true
	case limits(j.Reason):
		return plan.AtLimit, j.Reason, true
	}
	return plan.ByOther, word(j.Reason), true
}

// limits reports whether a reason names a limit of an association, an account or a QOS.
func limits(reason string) bool {
	for _, start := range []string{"Assoc", "QOS", "Max"} {
		if strings.HasPrefix(reason, start) {
			return true
		}
	}
	return false
}

// word is a reason without what follows: "ReqNodeNotAvail, UnavailableNodes:n[1-2]".
func word(reason string) string {
	reason, _, _ = strings.Cut(reason, ",")
	return reason[:min(len(reason), 60)]
}

// topology reports whether 26.05 says that the nodes that are free do not lie together.
func topology(reason string) bool {
	return strings.Contains(reason, "opology") && slurmplug.WaitsFor(reason) == slurmplug.ForRoom
}
