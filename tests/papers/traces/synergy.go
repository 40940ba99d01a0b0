package traces

import (
	"io"

	"slurmprio/priod/trace"
)

// wantGPUs is what a job of the papers' traces asks for.
const wantGPUs = "a whole number from 1"

// synergySource is Synergy's format: five columns and no header.
type synergySource struct{ trace.Rows }

var synergyColumns = []string{"job_id", "workload", "submit_s", "steps", "gpus"}

// Synergy reads Synergy's format.
func Synergy(name string, text io.Reader) (trace.Source, error) {
	s := &synergySource{trace.NewRows(name, text, ',')}
	s.Columns = synergyColumns
	return s, nil
}

// Next reads the next row.
func (s *synergySource) Next() (trace.Job, error) {
	if err := s.Read(); err != nil {
		return trace.Job{}, err
	}
	j := trace.NewJob()
	for i, name := range synergyColumns {
		if err := s.Set(&j, name, i); err != nil {
			return trace.Job{}, err
		}
	}
	switch {
	case j.ID == "":
		return trace.Job{}, s.At("job_id", "", "an id")
	case j.GPUs == 0:
		return trace.Job{}, s.At("gpus", "0", wantGPUs)
	case j.Workload == "":
		return trace.Job{}, s.At("workload", "", "a workload")
	case j.Steps == 0:
		return trace.Job{}, s.At("steps", s.Row[3], "steps above 0")
	}
	return j, nil
}
