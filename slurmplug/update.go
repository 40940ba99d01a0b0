package slurmplug

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Lever is one field of a job that scontrol can change. One update carries one lever: Slurm applies fields in its own order and is
// not transactional. Any field that scontrol update knows is a Lever; those below have rules of their own.
type Lever string

// SiteFactor is the lever that ranks jobs, by a number.
const SiteFactor Lever = "SiteFactor"

// Levers on what a pending job asks for. Their values are texts; none takes back, but of PartitionList.
const (
	ReqNodeList Lever = "ReqNodeList" // the nodes that it has to run on, all of them
	Features    Lever = "Features"    // the constraint on its nodes
	ExcNodeList Lever = "ExcNodeList" // the nodes that it refuses
	// PartitionList is the partitions in which it may run, "a100,v100". An update may be answered with an error and
	// be done nevertheless: with AllowGroups on 22.05, with EnforcePartLimits=ALL where one of the list refuses the job.
	// A requeue puts the partition in which the job ran first.
	PartitionList Lever = "Partition"
)

// StartTime is the lever on the begin time of a waiting job: a value of BeginAt, or AtOnce. Slurm keeps it when it has passed.
const StartTime Lever = "StartTime"

// TimeLimit is the lever on the time limit of a job that waits or runs, in whole minutes: a value of LimitOf.
const TimeLimit Lever = "TimeLimit"

// Ranks reports whether the lever moves a job in the order; any other one changes what the job's user asked for.
func (l Lever) Ranks() bool { return l == SiteFactor }

// single reports whether scontrol takes the lever for one job or one task at a time: it
// does so for whatever names nodes (update_job.c, update_size).
func (l Lever) single() bool {
	return l == Size || l == ReqNodeList || l == ExcNodeList || l == NumNodes
}

// Update is one change to one record of the queue.
type Update struct {
	Job   JobID
	Tasks string // as Job.Tasks: set for an unsplit array, else ""

	// HetID and HetOffset name one component of a heterogeneous job, as in Job.
	// Without them the id of its leader reaches all components.
	HetID     uint32
	HetOffset int

	Lever Lever
	Value Value

	// SLUID names the run that is meant, as in Job: to a later one Slurm then answers "Invalid job id specified". "" for whatever
	// the id means. It is left out where Tasks are named, and of tasks that share one request to be ranked.
	SLUID string

	// As is the uid of the user in whose name Slurm takes the update (scontrol --uid), "" for one's own. It needs the rights of an
	// Administrator. An update in an operator's name lifts limits from the job, one in its user's does not.
	As string
}

// Target is the job as scontrol takes it; an unsplit array is named by its
// tasks, because its bare id would also reach tasks that already run.
func (u Update) Target() string {
	if u.byRun() {
		return u.SLUID
	}
	return u.record()
}

// byRun reports whether the update names a run.
func (u *Update) byRun() bool { return u.SLUID != "" && u.Tasks == "" }

// record is the job by its id.
func (u *Update) record() string {
	switch {
	case u.HetID != 0:
		return fmt.Sprintf("%d+%d", u.HetID, u.HetOffset)
	case u.Tasks != "":
		return fmt.Sprintf("%d_[%s]", u.Job.ID, u.Tasks)
	}
	return u.Job.String()
}

// maxOffset is the largest SiteFactor that Slurm takes, either way (NICE_OFFSET - 3).
const maxOffset = 1<<31 - 3

// Validate refuses what scontrol would misread: it takes a SiteFactor that is
// no number for 0, and an abbreviated or unknown name for another field.
func (u Update) Validate() error {
	if u.Job.ID == 0 || u.Job.Task < NoTask {
		return fmt.Errorf("job %s: no such id", u.Job)
	}
	if u.Tasks != "" {
		if u.Job.Task != NoTask || u.HetID != 0 {
			return fmt.Errorf("job %s: a task and a component have no tasks", u.Job)
		}
		if strings.ContainsAny(u.Tasks, "[%") {
			return fmt.Errorf("job %s: tasks %.40q: want them without brackets and limit", u.Job, u.Tasks)
		}
		if _, err := CountTasks(u.Tasks); err != nil {
			return fmt.Errorf("job %s: %w", u.Job, err)
		}
	}
	if u.HetOffset < 0 {
		return fmt.Errorf("job %s: component %d", u.Job, u.HetOffset)
	}
	if u.SLUID != "" && !isSLUID(u.SLUID) {
		return fmt.Errorf("job %s: run %.40q: no SLUID", u.Job, u.SLUID)
	}
	if u.As != "" {
		if _, err := parseUint(u.As, math.MaxUint32-2); err != nil {
			return fmt.Errorf("job %s: as user %.40q: want a uid", u.Job, u.As)
		}
	}
	switch u.Lever {
	case SiteFactor:
		if n := u.Value.Number(); !u.Value.IsNumber() || n < -maxOffset || n > maxOffset {
			return fmt.Errorf("job %s: %s=%.40q: want a whole number from %d to %d", u.Job, u.Lever, u.Value, -maxOffset, maxOffset)
		}
		return nil
	case PartitionList:
		if u.Value == (Value{}) {
			return fmt.Errorf("job %s: Partition names no partition", u.Job)
		}
	case NumNodes:
		if _, _, err := ParseNodes(u.Value.String()); err != nil {
			return fmt.Errorf("job %s: %w", u.Job, err)
		}
		return nil
	case StartTime: // scontrol has many words for a time
		if _, at := u.Value.Begin(); !at && u.Value != AtOnce && u.Value.kind != aDelay {
			return fmt.Errorf("job %s: %s=%.40q is no begin time", u.Job, u.Lever, u.Value)
		}
		return nil
	case TimeLimit: // of less than a minute scontrol makes another
		if limit, err := ParseTimeLimit(u.Value.String()); err != nil || limit > 0 && limit < time.Minute || limit == 0 {
			return fmt.Errorf("job %s: %s=%.40q is no time limit", u.Job, u.Lever, u.Value)
		}
		return nil
	case Switches:
		if _, _, err := ParseSwitches(u.Value.String()); err != nil {
			return fmt.Errorf("job %s: %w", u.Job, err)
		}
		return nil
	case Size:
		if err := validateSize(u.Value.String()); err != nil {
			return fmt.Errorf("job %s: %w", u.Job, err)
		}
		return nil
	}
	return u.validText()
}

// validText checks a value that is any text.
func (u Update) validText() error {
	if !isLever(string(u.Lever)) {
		return fmt.Errorf("job %s: %.40q is no field of a job", u.Job, u.Lever)
	}
	text := u.Value.String()
	if len(text) > maxValue {
		return fmt.Errorf("job %s: %s: %d bytes, Slurm takes %d", u.Job, u.Lever, len(text), maxValue)
	}
	for i := range len(text) {
		// White space ends a word, quotes stay in the value, "!!" is the line
		// before: scontrol's standard input has no way to write them.
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"'`\\!", c) >= 0 {
			return fmt.Errorf("job %s: %s=%.80q: %q cannot be written", u.Job, u.Lever, text, c)
		}
	}
	return nil
}

// isSLUID reports whether s has the form of "s4C5M81FV4NT00" (26.05).
func isSLUID(s string) bool {
	digits, ok := strings.CutPrefix(s, "s")
	return ok && len(digits) > 1 && len(digits) <= 20 && strings.Trim(digits, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// maxValue is Slurm's own limit on a text (slurmctld/job_mgr.c).
const maxValue = 1024

// isLever reports whether s can be the name of a field to write, and is none of
// those by which scontrol chooses jobs (JobId, JobName, UserID, Clusters).
func isLever(s string) bool {
	lower := strings.ToLower(s)
	letters := !strings.ContainsFunc(s, func(c rune) bool { return c|0x20 < 'a' || c|0x20 > 'z' })
	chooses := slices.ContainsFunc([]string{"job", "user", "cluster"}, func(c string) bool { return strings.HasPrefix(lower, c) })
	return letters && !chooses && 2 < len(s) && len(s) <= 40
}

// Status says how an update ended.
type Status string

// The ways an update can end.
const (
	Applied   Status = "applied"
	Raced     Status = "raced"     // the job finished, started or left meanwhile: nothing to do
	Refused   Status = "refused"   // Slurm said no; Message holds its words
	Unknown   Status = "unknown"   // time-out or no connection: it may or may not have happened
	Postponed Status = "postponed" // not done: no turn in time, or the controller is busy or down; try again
)

// Result is what became of one update.
type Result struct {
	Update
	Status  Status
	Message string
}
