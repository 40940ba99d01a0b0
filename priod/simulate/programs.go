package simulate

import (
	"fmt"

	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

// Runnable refuses a job whose workload is unknown.
func Runnable(j *trace.Job, table *workload.Table) error {
	if j.Duration > 0 || j.Workload == "" {
		return nil
	}
	if _, known := table.Lookup(j.Workload); !known {
		return fmt.Errorf("job %s: no workload %.80q; see priod workloads list, or give --workloads FILE", j.ID, j.Workload)
	}
	return nil
}

// Speeds is Input.Speed of a table of workloads.
func Speeds(table *workload.Table) func(*trace.Job, string) float64 {
	return func(j *trace.Job, gpuType string) float64 {
		if j.Duration > 0 {
			return 1
		}
		id, known := table.Lookup(j.Workload)
		if !known {
			return 0
		}
		s, _ := table.Speed(id, j.GPUs, gpuType)
		return s
	}
}

// Curves is Input.Curve of a table of workloads.
func Curves(table *workload.Table) func(*trace.Job, string) *workload.Curve {
	all := make([]map[string]*workload.Curve, len(table.All()))
	for id, w := range table.All() {
		all[id] = make(map[string]*workload.Curve, len(w.Curves))
		for gpuType, c := range w.Curves {
			all[id][gpuType] = &c
		}
	}
	return func(j *trace.Job, gpuType string) *workload.Curve {
		if id, known := table.Lookup(j.Workload); known {
			return all[id][gpuType]
		}
		return nil
	}
}
