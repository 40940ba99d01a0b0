package live

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/policy/speed"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Work is what accounting says of the jobs of a time.
type Work struct {
	Runs  []speed.Run       // jobs that completed, by today's names of GPU types
	Names map[uint32]string // of jobs, by raw id
	Types []string          // GPU types of the nodes as they are now
}

// unended are the states in which a job's run ends and the job does not.
var unended = []string{"PREEMPTED", "REQUEUED", "NODE_FAIL", "RESIZING"}

// Lessons say which jobs teach, and how to read them.
type Lessons struct {
	Since    time.Time
	Shortest time.Duration  // what ran for less does not count
	Steps    *regexp.Regexp // its group is the steps in a job's command line, where its tag has none; nil: nobody looks
	Types    speed.Settings // names of GPU types
	Table    *workload.Table
}

// Work reads from accounting what teaches of speeds.
func (c *Cluster) Work(ctx context.Context, l Lessons) (*Work, error) {
	rows, err := c.client.History(ctx, l.Since, time.Time{})
	if err != nil {
		return nil, err
	}
	nodes, err := c.client.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	types := gpuTypes(convertNodes(nodes))
	w := &Work{Names: make(map[uint32]string, len(rows)), Types: distinct(types)}
	stays := make([]stay, len(rows))
	for i := range rows {
		r := &rows[i]
		w.Names[r.RawID] = r.Name
		stays[i] = stay{Run: r}
		held := slurmplug.Job{TRES: r.AllocTRES}
		stays[i].gpuType, stays[i].gpus, _ = held.AllocatedGPUs()
		if stays[i].gpuType == "" && stays[i].gpus > 0 {
			stays[i].gpuType = c.allocatedType(r.NodeList, types)
		}
		stays[i].gpuType = l.Types.Today(stays[i].gpuType)
	}
	if l.Steps != nil {
		lines, err := c.client.SubmitLines(ctx, l.Since)
		if err != nil {
			return nil, err
		}
		for i := range stays {
			stays[i].steps = stepsIn(lines[stays[i].RawID], l.Steps)
		}
	}
	w.Runs = completed(stays, l.Shortest, l.Table)
	return w, nil
}

// GPUTypes reads which GPU types the nodes have, sorted.
func (c *Cluster) GPUTypes(ctx context.Context) ([]string, error) {
	nodes, err := c.client.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return distinct(gpuTypes(convertNodes(nodes))), nil
}

// distinct are the types of nodes, without those of nodes that have none.
func distinct(byNode map[string]string) []string {
	types := slices.Compact(slices.Sorted(maps.Values(byNode)))
	return slices.DeleteFunc(types, func(t string) bool { return t == "" })
}

// stay is a row of accounting with what it held; the type is "" when it is not
// known.
type stay struct {
	*slurmplug.Run
	gpuType string
	gpus    int
	steps   float64 // that the command line says; 0: none
}

// stepsIn reads the number of steps in a command line, 0 when there is none.
func stepsIn(line string, steps *regexp.Regexp) float64 {
	if m := steps.FindStringSubmatch(line); m != nil {
		if v, err := strconv.ParseFloat(m[1], 64); err == nil && v > 0 && !math.IsInf(v, 1) {
			return v
		}
	}
	return 0
}

// completed puts together the runs of each job. What a job did before it was
// requeued counts when its tag says that it saves its state; else it began anew.
func completed(stays []stay, shortest time.Duration, table *workload.Table) []speed.Run {
	slices.SortStableFunc(stays, func(a, b stay) int {
		return cmp.Or(cmp.Compare(a.RawID, b.RawID), a.Start.Compare(b.Start))
	})
	var (
		runs    []speed.Run
		seconds map[string]float64
		unknown bool // time of the job on GPUs of no known type
		last    uint32
	)
	for i := range stays {
		r := &stays[i]
		if r.RawID != last {
			seconds, unknown, last = nil, false, r.RawID
		}
		if r.Start.IsZero() || r.End.IsZero() || r.gpus == 0 {
			continue
		}
		var tag jobtag.Tag
		if text, _ := jobtag.Split(r.Comment); text != "" {
			tag, _ = jobtag.Parse(text) // one that is not valid says nothing
		}
		if seconds == nil || tag.Ckpt == 0 && tag.Grace == 0 {
			seconds, unknown = map[string]float64{}, false
		}
		seconds[r.gpuType] += r.End.Sub(r.Start).Seconds()
		unknown = unknown || r.gpuType == ""
		if slices.Contains(unended, r.State) {
			continue
		}
		total := 0.0
		for _, s := range seconds {
			total += s
		}
		if r.State == "COMPLETED" && !unknown && total >= shortest.Seconds() {
			j := speed.Job{Tag: tag, User: r.User, Name: r.Name, GPUs: r.gpus}
			runs = append(runs, speed.Run{Program: j.Program(table), Seconds: seconds, Work: cmp.Or(tag.Steps, r.steps)})
		}
		seconds = nil // the id may come again
	}
	return runs
}
