package slurmplug

import (
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
	switch {
	case j.ID < k.ID:
		return -1
	case j.ID > k.ID:
		return 1
	case j.Task < k.Task:
		return -1
	case j.Task > k.Task:
		return 1
	}
	return 0
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
