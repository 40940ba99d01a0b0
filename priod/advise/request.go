package advise

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/sbatch"
)

// Request is what a job asks for that is not submitted yet, as far as a
// schedule needs it; one task of an array.
type Request struct {
	GPUs    int    // of the whole job, at least 1
	GPUType string // "" when it is left open
	Option  string // of sbatch that asks for the GPUs: "gres", "gpus", ...
	Value   string // that it has

	Nodes int   // 0: as few as the GPUs need
	CPUs  int   // of the whole job
	MemMB int64 // of the whole job; 0: not said, see Defaults
	Whole bool  // whole nodes

	Limit      time.Duration // slurmplug.Unlimited; 0: the partition's
	Partitions []string      // nil: the default one
	QOS        string
	Features   string
	On, Not    []string // nodes that it has to use, and must not

	Tag  jobtag.Tag
	Name string        // of the job, as Slurm will know it
	Job  cluster.JobID `json:"-"` // it is one that waits; zero: it is not submitted

	Notes []string // what a schedule does not look into
}

// OfJob is the request of a job that waits.
func OfJob(j *cluster.Job) Request {
	r := Request{
		GPUs: j.GPUs, GPUType: j.GPUType, Nodes: j.Nodes, CPUs: max(j.CPUs, 1), MemMB: max(j.MemMB, 1), Whole: j.Whole,
		Limit: j.TimeLimit, Partitions: strings.Split(j.Partition, ","), QOS: j.QOS, Features: j.Features, Tag: j.Tag, Name: j.Name, Job: j.ID,
	}
	if strings.Contains(r.GPUType, ",") {
		r.GPUType = ""
	}
	return r
}

// Read takes a request out of what sbatch would set. An error says which option
// cannot be looked into, or what is wrong with it.
func Read(job sbatch.Job) (Request, error) {
	set := options(job.Set)
	r := Request{QOS: set.text("qos"), Features: set.text("constraint"), Name: set.text("job-name")}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if _, has := set[name]; has {
			return r, fmt.Errorf("--%s: %s", name, refused[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(noted)) {
		if _, has := set[name]; has {
			r.Notes = append(r.Notes, "--"+name+": "+noted[name])
		}
	}
	if list := set.text("partition"); list != "" {
		r.Partitions = strings.Split(list, ",")
	}
	for name, to := range map[string]*[]string{"nodelist": &r.On, "exclude": &r.Not} {
		if text := set.text(name); text != "" {
			hosts, err := slurmplug.ExpandHosts(text)
			if err != nil {
				return r, fmt.Errorf("--%s: %w", name, err)
			}
			*to = hosts
		}
	}
	if text := set.text("time"); text != "" {
		limit, err := slurmplug.ParseTimeLimit(text)
		if err != nil {
			return r, fmt.Errorf("--time: %w", err)
		}
		if r.Limit = limit; limit == 0 {
			r.Limit = slurmplug.Unlimited
		} else if limit > 0 { // Slurm counts in minutes
			r.Limit = (limit + time.Minute - 1) / time.Minute * time.Minute
		}
	}
	if x, has := set["exclusive"]; has && (!x.HasValue || x.Value != "user" && x.Value != "mcs" && x.Value != "topo") {
		r.Whole = true
	}
	return r, r.amounts(set)
}

// Check refuses numbers that Read would not give.
func (r *Request) Check() error {
	switch {
	case r == nil || r.GPUs < 1 || r.GPUs > 1<<20 || r.Nodes < 0 || r.Nodes > 1<<20 || r.CPUs < 0 || r.CPUs > 1<<24 || r.MemMB < 0 || r.MemMB > mostMB:
		return errors.New("a request for amounts that no cluster has")
	case r.Limit < slurmplug.Unlimited || len(r.Partitions) > 100 || len(r.On) > 100_000 || len(r.Not) > 100_000:
		return errors.New("a request with a limit or lists that sbatch would not take")
	}
	return nil
}

// refused are options that change where or when a job runs in a way that a
// schedule made of the queue and the nodes cannot tell.
var refused = map[string]string{
	"clusters":        "advise knows the cluster that you are logged in to",
	"reservation":     "advise does not know what is free inside a reservation; scontrol show reservation does",
	"gpus-per-socket": "ask for GPUs by --gres, --gpus, --gpus-per-node or --gpus-per-task",
	"tres-per-task":   "ask for GPUs by --gres, --gpus, --gpus-per-node or --gpus-per-task",
	"nodefile":        "name the nodes by --nodelist",
}

// noted are options that a schedule leaves out, and what that means.
var noted = map[string]string{
	"array":      "the advice is for its first task; the others come after it",
	"begin":      "the advice is for a job that may start now",
	"dependency": "the advice is for a job that may start now",
	"hold":       "the advice is for a job that may start now",
	"deadline":   "not looked into",
	"licenses":   "whether licences are free is not looked into",
	"prefer":     "not looked into",
	"switches":   "not looked into",
	"contiguous": "not looked into",
}

// mostMB bounds what one job may ask for, so that products stay numbers.
const mostMB = 1 << 40

type options map[string]sbatch.Setting

func (o options) text(name string) string { return o[name].Value }

// number is the value of an option that counts something, def when it is not
// set.
func (o options) number(name string, def int) (int, error) {
	text := o[name].Value
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseUint(text, 10, 20)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("--%s %.40q: want a number from 1", name, text)
	}
	return int(n), nil
}

func (o options) memory(name string) (mb int64, set bool, err error) {
	text := o[name].Value
	if text == "" {
		return 0, false, nil
	}
	if mb, err = slurmplug.ParseMemory(text); err == nil && mb > math.MaxInt32 {
		err = fmt.Errorf("%.40q is more than any node has", text)
	}
	if err != nil {
		err = fmt.Errorf("--%s: %w", name, err)
	}
	return mb, true, err
}

// amounts reads how much a job wants of GPUs, nodes, CPUs and memory.
func (r *Request) amounts(set options) error {
	least, _, span := strings.Cut(set.text("nodes"), "-")
	if span {
		r.Notes = append(r.Notes, fmt.Sprintf("--nodes=%.40s: planned on %.40s", set.text("nodes"), least))
	}
	nodes, err := (options{"nodes": {Value: least}}).number("nodes", 0)
	var numbers [6]int
	for i, name := range []string{"ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus", "ntasks-per-gpu"} {
		if err == nil {
			numbers[i], err = set.number(name, 0)
		}
	}
	if err != nil {
		return err
	}
	tasks, perNode, perTask, perGPU, fewest, tasksPerGPU := numbers[0], numbers[1], max(numbers[2], 1), numbers[3], numbers[4], numbers[5]
	if nodes == 0 && tasks > 0 && perNode > 0 {
		nodes = (tasks + perNode - 1) / perNode
	}
	if tasks == 0 {
		tasks = max(nodes, 1) * max(perNode, 1)
	}
	if err := r.gpus(set, max(nodes, 1), tasks); err != nil {
		return err
	}
	if tasksPerGPU > 0 && set.text("ntasks") == "" {
		tasks = r.GPUs * tasksPerGPU
	}
	r.Nodes = nodes
	if nodes == 0 && r.Option != "gpus" && r.Option != "gpus-per-task" {
		r.Nodes = 1 // what is asked for each node lies on one
	}
	if r.CPUs = max(tasks*perTask, perGPU*r.GPUs, max(nodes, 1)*max(fewest, 1)); r.CPUs > 1<<24 {
		return fmt.Errorf("%d CPUs: no cluster has so many", r.CPUs)
	}

	for _, m := range []struct {
		name  string
		times int
	}{{"mem", max(r.Nodes, 1)}, {"mem-per-cpu", r.CPUs}, {"mem-per-gpu", r.GPUs}} {
		switch mb, has, err := set.memory(m.name); {
		case err != nil:
			return err
		case has && mb == 0:
			r.Whole = true // 0: all memory of each node
		case has:
			if r.MemMB = mb * int64(m.times); r.MemMB > mostMB {
				return fmt.Errorf("--%s: %d MB in all: no cluster has so much", m.name, r.MemMB)
			}
		}
	}
	return nil
}

// gpus reads the GPUs of a job in Slurm's order: for the job, for each node, for
// each task.
func (r *Request) gpus(set options, nodes, tasks int) error {
	for _, ask := range []struct {
		option string
		times  int
	}{{"gpus", 1}, {"gpus-per-node", nodes}, {"gres", nodes}, {"gpus-per-task", tasks}} {
		value := set.text(ask.option)
		if value == "" {
			continue
		}
		all, err := slurmplug.ParseGPUOption(ask.option, value)
		if err != nil {
			return fmt.Errorf("--%s: %w", ask.option, err)
		}
		var types []string
		n := 0
		for _, g := range all {
			if g.Name == "gpu" {
				n = min(n+int(min(g.Count, 1<<16)), 1<<16) // times all tasks it stays a number
				if g.Type != "" {
					types = append(types, g.Type)
				}
			}
		}
		slices.Sort(types)
		types = slices.Compact(types)
		switch {
		case len(types) > 1:
			return fmt.Errorf("--%s=%.80s: a job on several GPU types at once; ask about one type, or leave it open", ask.option, value)
		case len(types) == 1 && r.GPUType != "" && r.GPUType != types[0]:
			return fmt.Errorf("--%s=%.80s and --%s=%.80s ask for different GPU types", r.Option, r.Value, ask.option, value)
		case len(types) == 1:
			r.GPUType = types[0]
		}
		if n > 0 && r.GPUs == 0 {
			r.GPUs, r.Option, r.Value = n*ask.times, ask.option, value
		}
	}
	if r.GPUs == 0 {
		return errors.New("the job requests no GPU: give --gres=gpu:1 or the like")
	}
	if r.GPUs > 1<<20 {
		return fmt.Errorf("%d GPUs: no cluster has so many", r.GPUs)
	}
	return nil
}
