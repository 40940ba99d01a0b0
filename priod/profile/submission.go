package profile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/slurmplug/sbatch"
)

// Script is a job as its user gives it to sbatch.
type Script struct {
	Name string     // as given; "" for standard input or --wrap
	Job  sbatch.Job // what sbatch would set
	Text []byte     // begins with #!
	Args []string   // of the script
}

// left are the options of a real job that a profile leaves out: when and how
// often it runs, where its output goes, whom to tell; and the shape of its
// CPUs, which is what the profile varies.
var left = []string{
	"begin", "deadline", "dependency", "hold", "time", "time-min", "requeue", "no-requeue", "signal", "wait", "nice", "priority",
	"output", "error", "input", "open-mode", "job-name", "mail-type", "mail-user", "parsable", "quiet", "verbose", "test-only", "wrap",
	"nodes", "ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-socket", "ntasks-per-gpu", "cpus-per-task", "cpus-per-gpu", "mincpus",
	"mem-per-cpu", "ignore-pbs",
}

// refused are options of jobs that a profile cannot stand for.
var refused = map[string]string{
	"array":           "profile one of its tasks: give a script without it",
	"clusters":        "profile on the cluster that you are logged in to",
	"gpus-per-socket": "ask for GPUs by --gres or --gpus",
	"tres-per-task":   "ask for GPUs by --gres or --gpus",
}

// gpuOptions ask for GPUs; of each the value is TYPE:COUNT, TYPE or COUNT.
var gpuOptions = []string{"gpus", "gpus-per-node", "gpus-per-task"}

// GPUs is how many GPUs the job asks for, and of which type; "" for any. An
// error says what a profile cannot do.
func (s *Script) GPUs() (gpuType string, n int, err error) {
	set := s.Job.Set
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if _, has := set[name]; has {
			return "", 0, fmt.Errorf("--%s: %s", name, refused[name])
		}
	}
	if nodes, has := set["nodes"]; has && nodes.Value != "1" && nodes.Value != "1-1" {
		return "", 0, fmt.Errorf("--nodes=%.20s: a profile is that of one node; give fewer GPUs, the curves are for each GPU", nodes.Value)
	}
	for _, name := range []string{"ntasks", "ntasks-per-node"} {
		if tasks, has := set[name]; has && tasks.Value != "1" {
			return "", 0, fmt.Errorf("--%s=%.20s: a profile runs one task; for CPUs ask by --cpus-per-task", name, tasks.Value)
		}
	}
	types := map[string]bool{}
	for _, name := range append([]string{"gres"}, gpuOptions...) {
		value, has := set[name]
		if !has {
			continue
		}
		all, err := slurmplug.ParseGPUOption(name, value.Value)
		if err != nil {
			return "", 0, fmt.Errorf("--%s: %w", name, err)
		}
		for _, g := range all {
			if g.Name == "gpu" {
				n = max(n, int(min(g.Count, 1<<16)))
				types[g.Type] = true
			}
		}
	}
	if n == 0 {
		return "", 0, errors.New("the job requests no GPU: give --gres=gpu:1 or the like")
	}
	if delete(types, ""); len(types) > 1 {
		return "", 0, errors.New("the job asks for several GPU types at once; a profile is that of one type after the other")
	}
	for t := range types {
		gpuType = t
	}
	return gpuType, n, nil
}

// Arguments are those of an sbatch that holds what the request asks for, for
// the job that the script describes otherwise.
func (s *Script) Arguments(r Request) ([]string, error) {
	set := s.Job.Set
	args := []string{"--parsable", "--job-name=priod-profile", "--output=/dev/null", "--no-requeue", "--nodes=1", "--ntasks=1"}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value := set[name]
		switch {
		case slices.Contains(left, name):
			continue
		case name == "gres" || slices.Contains(gpuOptions, name):
			typed, err := slurmplug.WithGPUType(name, value.Value, r.GPUType)
			if err != nil {
				return nil, err
			}
			value.Value = typed
		}
		word := sbatch.Found{Option: &sbatch.Option{Name: name}, Value: value.Value, HasValue: value.HasValue}
		args = append(args, word.Word())
	}
	if perCPU, has := set["mem-per-cpu"]; has {
		mem, err := times(perCPU.Value, set["cpus-per-task"].Value)
		if err != nil {
			return nil, err
		}
		args = append(args, mem)
	}
	minutes := (r.Time + time.Minute - 1) / time.Minute
	return append(args, fmt.Sprintf("--cpus-per-task=%d", r.CPUs), fmt.Sprintf("--time=%d", minutes),
		fmt.Sprintf("--wrap=exec sleep %d", int(r.Time.Seconds()))), nil
}

// times turns memory for each CPU into that of the job as its user asked for
// it, which does not grow with the CPUs of the profile.
func times(perCPU, cpus string) (string, error) {
	mb, err := slurmplug.ParseMemory(perCPU)
	if err != nil {
		return "", fmt.Errorf("--mem-per-cpu: %w", err)
	}
	n := 1
	if cpus != "" {
		if n, err = strconv.Atoi(cpus); err != nil || n < 1 {
			return "", fmt.Errorf("--cpus-per-task=%.20s: want a number", cpus)
		}
	}
	return fmt.Sprintf("--mem=%dM", mb*int64(n)), nil
}
