package slurmplug

import "fmt"

// Lever is one field of a job that scontrol can change. One update carries one
// lever: Slurm applies fields in its own order and is not transactional.
type Lever string

// The levers that rank jobs. Release clears a directly set priority, and only
// on a job that is not held (research: Slurm job_mgr.c, direct_set_prio).
const (
	SiteFactor Lever = "SiteFactor"
	Nice       Lever = "Nice"
	Priority   Lever = "Priority"
	Release    Lever = "release"
)

// Update is one change to one record of the queue.
type Update struct {
	Job   JobID
	Tasks string // as Job.Tasks: set for an unsplit array, else ""
	Lever Lever
	Value string // as scontrol takes it; "" for Release
}

// Target is the job as scontrol takes it; an unsplit array is named by its
// tasks, because its bare id would also reach tasks that already run.
func (u Update) Target() string {
	if u.Tasks != "" {
		return fmt.Sprintf("%d_[%s]", u.Job.ID, u.Tasks)
	}
	return u.Job.String()
}

// Status says how an update ended.
type Status string

// The ways an update can end.
const (
	Applied   Status = "applied"
	Raced     Status = "raced"     // the job finished, started or left meanwhile: nothing to do
	Refused   Status = "refused"   // Slurm said no; Message holds its words
	Unknown   Status = "unknown"   // time-out or no connection: it may or may not have happened
	Postponed Status = "postponed" // not sent: rate limit or the controller's queues
)

// Result is what became of one update.
type Result struct {
	Update
	Status  Status
	Message string
}
