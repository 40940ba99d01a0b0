package slurmplug

import "strings"

// Waits is what a pending job waits for.
type Waits int

// What a pending job can wait for.
const (
	ForElse  Waits = iota // a limit, a licence, a dependency; and whatever is not known here
	ForRoom               // room alone can end it
	ForNodes              // nodes that its request names, or that a reservation keeps
	ForTime               // its begin time
	ForHold               // a user or an administrator holds it
	Forever               // no node satisfies it
)

// reasons are Slurm's words for what a pending job waits for, of 22.05.8, 24.11.5
// and 26.05.3: the codes of src/common/slurm_protocol_defs.c (job_reason_string) and
// later src/common/job_state_reason.c, and the texts that slurmctld sets in their
// place (state_desc), which squeue then prints (src/squeue/print.c,
// _print_job_reason). All other codes are ForElse: limits of associations and QOS,
// and of the new ones MaxPoweredUpNodes, MpiPortsBusy (24.11), NvidiaImexChannels
// (26.05) and Constraints (23.11, about --extra).
var reasons = map[string]Waits{
	"":          ForRoom, // not looked at yet
	"None":      ForRoom,
	"Resources": ForRoom,
	"Priority":  ForRoom,

	// 26.05 says what a topology lacks where others say Resources: IS_TOPO_ERROR in
	// src/slurmctld/node_scheduler.c, the words in src/common/slurm_errno.c. They are
	// about the nodes that are free now. Not among them is "Required nodes do not fit
	// topology": its user named nodes that are in no block or ring, or not in one.
	"Required nodes lack available resources":                               ForRoom,
	"No suitable topology unit found":                                       ForRoom,
	"No suitable topology unit found for segment":                           ForRoom,
	"Insufficient resources in topology unit":                               ForRoom,
	"Weight-based selection could not satisfy request within topology unit": ForRoom,
	"Exceeded maximum node limit during topology allocation":                ForRoom,
	"No available nodes in topology":                                        ForRoom,

	"BeginTime":      ForTime,
	"JobHeldUser":    ForHold,
	"JobHeldAdmin":   ForHold,
	"BadConstraints": Forever,
}

// nodesDown and notAvailable begin texts that continue with names of nodes and the
// like: "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher
// priority partitions" (src/slurmctld/job_scheduler.c), "ReqNodeNotAvail,
// UnavailableNodes:n[1-2]" (src/slurmctld/node_scheduler.c). Slurm says the first
// as well of a job whose nodes are all up, while a job of any other partition that is
// ahead on one of them waits (22.05 to 26.05): the nodes tell which of both it is.
const (
	nodesDown    = "Nodes required for job are DOWN"
	notAvailable = "ReqNodeNotAvail"
)

// WaitsFor says what a pending job waits for from the reason that squeue or
// scontrol, which prints _ for a blank, shows.
func WaitsFor(reason string) Waits {
	if reason == "Priority" || reason == "Resources" || reason == "None" { // most of a queue
		return ForRoom
	}
	if w, known := reasons[reason]; known {
		return w
	}
	text := strings.ReplaceAll(reason, "_", " ")
	if w, known := reasons[text]; known {
		return w
	}
	switch {
	case strings.HasPrefix(text, nodesDown):
		return ForRoom
	case strings.HasPrefix(text, notAvailable):
		return ForNodes
	}
	return ForElse
}

// SaysDown reports whether Slurm says of a job that its nodes are down, drained, or reserved for jobs of
// other partitions, which may be the latter alone.
func SaysDown(reason string) bool {
	return strings.HasPrefix(strings.ReplaceAll(reason, "_", " "), nodesDown)
}

// NotAvailable reports whether the nodes that a job waits for are those that its
// request names, or that a reservation keeps.
func NotAvailable(reason string) bool { return strings.HasPrefix(reason, notAvailable) }
