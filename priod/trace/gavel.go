package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"slurmprio/priod/workload"
)

// gavelSource is Gavel's format: ten columns, tab separated, no header; or a
// recorded stream of its generator, with a header and arrivals for a rate of
// one job in a unit of time.
type gavelSource struct {
	rows
	opts   Options
	first  bool // the row that was read to see which of the two it is
	stream bool
	count  int
}

var (
	gavelColumns = []string{"job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir",
		"total_steps", "scale_factor", "priority_weight", "SLO", "arrival_time"}
	gavelStreamColumns = []string{"job_id", "job_type", "scale_factor", "total_steps", "duration_s_on_v100", "unit_arrival"}
)

// gavelOurs are Gavel's names for our columns.
var gavelOurs = map[string]string{
	"job_id": "job_id", "job_type": "workload", "total_steps": "steps", "scale_factor": "gpus",
	"priority_weight": "weight", "arrival_time": "submit_s", "unit_arrival": "submit_s",
}

func newGavelSource(name string, text io.Reader, opts Options) (*gavelSource, error) {
	s := &gavelSource{rows: newRows(name, text, '\t'), opts: opts, first: true}
	err := s.read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: empty: want jobs", name)
	case err != nil:
		return nil, err
	case len(s.row) == 7:
		return nil, fmt.Errorf("%s: seven columns: want the ten of Gavel's later traces: %s", name, strings.Join(gavelColumns, ", "))
	case slices.Equal(s.row, gavelStreamColumns):
		s.columns, s.stream, s.first = gavelStreamColumns, true, false
		if !(opts.JobsPerHour > 0) {
			return nil, fmt.Errorf("%s: a recorded stream has arrivals without a rate: say how many jobs come in an hour (--jobs-per-hour)", name)
		}
	default:
		s.columns = gavelColumns
	}
	return s, nil
}

func (s *gavelSource) next() (Job, error) {
	if s.first && len(s.row) == len(s.columns) {
		s.first = false
	} else if s.first {
		s.first = false
		return Job{}, s.bad(fmt.Sprintf("%d columns, want %d: %s", len(s.row), len(s.columns), strings.Join(s.columns, ", ")))
	} else if err := s.read(); err != nil {
		return Job{}, err
	}
	j := newJob()
	for i, name := range s.columns {
		if ours, ok := gavelOurs[name]; ok {
			if err := s.set(&j, &columns[columnIndex(ours)], i); err != nil {
				return Job{}, err
			}
		}
	}
	switch {
	case j.GPUs == 0:
		return Job{}, s.at("gpus", "0", wantGPUs)
	case j.Workload == "":
		return Job{}, s.at("job_type", "", "a job type")
	case j.Steps == 0:
		return Job{}, s.at("total_steps", "0", "steps above 0")
	case s.stream && j.ID == "":
		return Job{}, s.at("job_id", "", "an id")
	}
	if s.stream {
		j.Submit *= 3600 / s.opts.JobsPerHour
		return j, nil
	}
	j.ID = strconv.Itoa(s.count) // as Gavel numbers them
	s.count++
	err := s.deadline(&j)
	return j, err
}

// at takes our name of a column too.
func (s *gavelSource) at(key, value, want string) *RowError {
	for _, theirs := range s.columns {
		if gavelOurs[theirs] == key {
			key = theirs
		}
	}
	return s.rows.at(key, value, want)
}

// deadline is SLO times what the job takes on a V100, from its arrival; no SLO
// is written as -1 (gavel/scheduler/scheduler.py, add_job).
func (s *gavelSource) deadline(j *Job) error {
	const field = 8
	factor, ok := number(s.row[field])
	switch {
	case !ok:
		return s.at("SLO", s.row[field], "a multiple of the run time, or -1")
	case factor < 0:
		return nil
	case s.opts.Workloads == nil:
		return s.at("SLO", s.row[field], "workloads that give the run time")
	}
	speed, ok := speedOf(s.opts.Workloads, j, gavelReference)
	if !ok {
		return s.at("SLO", s.row[field], fmt.Sprintf("a workload that runs on %d %s, and %.80q does not", j.GPUs, gavelReference, j.Workload))
	}
	j.Deadline = j.Submit + factor*j.Steps/speed
	return nil
}

// gavelReference is the GPU type on which Gavel counts a job's run time.
const gavelReference = "v100"

func speedOf(t *workload.Table, j *Job, gpuType string) (stepsPerS float64, ok bool) {
	id, ok := t.Lookup(j.Workload)
	if !ok {
		return 0, false
	}
	return t.Speed(id, j.GPUs, gpuType)
}
