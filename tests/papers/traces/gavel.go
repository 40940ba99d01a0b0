// Package traces has the formats of the papers' traces, generators that make jobs as their
// authors did, and reads what the authors measured of programs.
package traces

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

// Options say how to read a trace of the papers.
type Options struct {
	Workloads   *workload.Table // run times, on which deadlines of Gavel's traces depend; may be nil
	JobsPerHour float64         // spreads the unit arrivals of a recorded stream of Gavel's generator; +Inf: all jobs at 0
}

// Gavel reads Gavel's format, Synergy Synergy's.
func Gavel(opts Options) func(name string, text io.Reader) (trace.Source, error) {
	return func(name string, text io.Reader) (trace.Source, error) { return newGavelSource(name, text, opts) }
}

// gavelSource is Gavel's format: ten columns, tab separated, no header; or a
// recorded stream of its generator, with a header and arrivals for a rate of
// one job in a unit of time.
type gavelSource struct {
	trace.Rows
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
	s := &gavelSource{Rows: trace.NewRows(name, text, '\t'), opts: opts, first: true}
	err := s.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: empty: want jobs", name)
	case err != nil:
		return nil, err
	case len(s.Row) == 7:
		return nil, fmt.Errorf("%s: seven columns: want the ten of Gavel's later traces: %s", name, strings.Join(gavelColumns, ", "))
	case slices.Equal(s.Row, gavelStreamColumns):
		s.Columns, s.stream, s.first = gavelStreamColumns, true, false
		if !(opts.JobsPerHour > 0) {
			return nil, fmt.Errorf("%s: a recorded stream has arrivals without a rate: say how many jobs come in an hour (--jobs-per-hour)", name)
		}
	default:
		s.Columns = gavelColumns
	}
	return s, nil
}

// Next reads the next row.
func (s *gavelSource) Next() (trace.Job, error) {
	if s.first && len(s.Row) == len(s.Columns) {
		s.first = false
	} else if s.first {
		s.first = false
		return trace.Job{}, s.Bad(fmt.Sprintf("%d columns, want %d: %s", len(s.Row), len(s.Columns), strings.Join(s.Columns, ", ")))
	} else if err := s.Read(); err != nil {
		return trace.Job{}, err
	}
	j := trace.NewJob()
	for i, name := range s.Columns {
		if ours, ok := gavelOurs[name]; ok {
			if err := s.Set(&j, ours, i); err != nil {
				return trace.Job{}, err
			}
		}
	}
	switch {
	case j.GPUs == 0:
		return trace.Job{}, s.At("gpus", "0", wantGPUs)
	case j.Workload == "":
		return trace.Job{}, s.At("job_type", "", "a job type")
	case j.Steps == 0:
		return trace.Job{}, s.At("total_steps", "0", "steps above 0")
	case s.stream && j.ID == "":
		return trace.Job{}, s.At("job_id", "", "an id")
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

// At takes our name of a column too.
func (s *gavelSource) At(key, value, want string) *trace.RowError {
	for _, theirs := range s.Columns {
		if gavelOurs[theirs] == key {
			key = theirs
		}
	}
	return s.Rows.At(key, value, want)
}

// deadline is SLO times what the job takes on a V100, from its arrival; no SLO
// is written as -1 (gavel/scheduler/scheduler.py, add_job).
func (s *gavelSource) deadline(j *trace.Job) error {
	const field = 8
	factor, err := strconv.ParseFloat(s.Row[field], 64)
	switch {
	case err != nil || math.IsNaN(factor) || math.IsInf(factor, 0):
		return s.At("SLO", s.Row[field], "a multiple of the run time, or -1")
	case factor < 0:
		return nil
	case s.opts.Workloads == nil:
		return s.At("SLO", s.Row[field], "workloads that give the run time")
	}
	speed, ok := speedOf(s.opts.Workloads, j, gavelReference)
	if !ok {
		return s.At("SLO", s.Row[field], fmt.Sprintf("a workload that runs on %d %s, and %.80q does not", j.GPUs, gavelReference, j.Workload))
	}
	j.Deadline = j.Submit + factor*j.Steps/speed
	return nil
}

// gavelReference is the GPU type on which Gavel counts a job's run time.
const gavelReference = "v100"

func speedOf(t *workload.Table, j *trace.Job, gpuType string) (stepsPerS float64, ok bool) {
	id, ok := t.Lookup(j.Workload)
	if !ok {
		return 0, false
	}
	return t.Speed(id, j.GPUs, gpuType)
}
