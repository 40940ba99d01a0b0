package slurmplug

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// JobID names a job for its whole life: a plain job, the part of an array
// that Slurm still holds in one record, or one array task. Slurm gives a
// started task a raw id of its own; that id is an attribute, not a name.
type JobID struct {
	ID   uint32 // JobID, or ArrayJobID for everything that belongs to an array
	Task int32  // array task, NoTask for a plain job or an unsplit array
}

// NoTask is the Task of a plain job and of an unsplit array.
const NoTask int32 = -1

// Plain returns the JobID of a job that is no array task.
func Plain(id uint32) JobID { return JobID{ID: id, Task: NoTask} }

// String gives the id as scontrol takes it: "17" or "17_4".
func (j JobID) String() string {
	if j.Task == NoTask {
		return strconv.FormatUint(uint64(j.ID), 10)
	}
	return strconv.FormatUint(uint64(j.ID), 10) + "_" + strconv.FormatInt(int64(j.Task), 10)
}

// MarshalText renders the id as String does, so that JSON carries "17_4".
func (j JobID) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (j *JobID) UnmarshalText(b []byte) error {
	v, err := ParseJobID(string(b))
	if err == nil {
		*j = v
	}
	return err
}

// Compare orders by id, then task.
func (j JobID) Compare(k JobID) int {
	return cmp.Or(cmp.Compare(j.ID, k.ID), cmp.Compare(j.Task, k.Task))
}

// ParseJobID reads "17" or "17_4"; anything else is an error that names it.
func ParseJobID(s string) (JobID, error) {
	head, tail, isTask := strings.Cut(s, "_")
	id, err := strconv.ParseUint(head, 10, 32)
	if err != nil || id == 0 {
		return JobID{}, fmt.Errorf("job id %q: want a number or NUMBER_TASK", s)
	}
	if !isTask {
		return Plain(uint32(id)), nil
	}
	task, err := strconv.ParseUint(tail, 10, 31)
	if err != nil {
		return JobID{}, fmt.Errorf("job id %q: the task after _ is not a number", s)
	}
	return JobID{ID: uint32(id), Task: int32(task)}, nil
}

// JobName is a job as a person names it, with the words that squeue prints.
type JobName struct {
	Job    JobID  // the job, its array or the leader of a heterogeneous job; zero with a SLUID
	Offset int    // of the component of a heterogeneous job; -1 for other jobs
	SLUID  string // names the run; else ""
}

// ParseJobName reads "17", "17_4", "17_[1-3,7%2]" as the array, "17+1" and a SLUID.
func ParseJobName(s string) (JobName, error) {
	name := JobName{Offset: -1}
	if isSLUID(s) {
		name.SLUID = s
		return name, nil
	}
	wrong := fmt.Errorf("job id %.80q: want one as squeue prints it: 17, 17_4, 17_[1-3], 17+0, or a SLUID", s)
	head := s
	if array, tasks, ok := strings.Cut(s, "_["); ok {
		tasks, limit, limited := strings.Cut(strings.TrimSuffix(tasks, "]"), "%")
		tasks = strings.TrimRight(strings.TrimSuffix(tasks, "..."), ",-") // squeue cuts off what is too long
		if limited {
			tasks += "%" + limit
		}
		if _, err := CountTasks(tasks); err != nil || !strings.HasSuffix(s, "]") {
			return name, wrong
		}
		head = array
	} else if leader, offset, ok := strings.Cut(s, "+"); ok {
		n, err := strconv.ParseUint(offset, 10, 16)
		if err != nil || strings.Contains(leader, "_") {
			return name, wrong
		}
		head, name.Offset = leader, int(n)
	}
	var err error
	if name.Job, err = ParseJobID(head); err != nil {
		return name, wrong
	}
	return name, nil
}

// String is the name as ParseJobName reads it.
func (n JobName) String() string {
	switch {
	case n.SLUID != "":
		return n.SLUID
	case n.Offset >= 0:
		return fmt.Sprintf("%s+%d", n.Job, n.Offset)
	}
	return n.Job.String()
}
