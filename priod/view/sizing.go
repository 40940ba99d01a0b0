package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
)

// Sizing is how well CPUs and memory go with the GPUs now, and what programs asked
// for beyond what they used.
type Sizing struct {
	GPUs     int           `json:"gpus"`          // on nodes in service
	Free     int           `json:"free_gpus"`     // of them
	Stranded int           `json:"stranded_gpus"` // of the free ones: without their share of CPUs or memory
	Nodes    []StrandedOn  `json:"stranded"`
	CPUOnly  []CPUOnlyJob  `json:"cpu_only"`    // on those nodes, the largest first
	Idle     []IdleMemory  `json:"idle_memory"` // on nodes whose free GPUs lack memory; the most first
	Starving []StarvingJob `json:"starving"`
	Programs []Overasked   `json:"overasked"`
	Unread   []string      `json:"unread"` // rows of accounting that are left out, and why

	Notes []string `json:"-"` // what the figures lack
}

// StrandedOn is a node whose free GPUs lack CPUs or memory.
type StrandedOn struct {
	Node      string `json:"node"`
	GPUType   string `json:"gpu_type"`
	FreeGPUs  int    `json:"free_gpus"`
	FreeCPUs  int    `json:"free_cpus"`
	FreeMemMB int64  `json:"free_mem_mb"`
	ForCPUs   int    `json:"stranded_for_cpus"` // GPUs
	ForMem    int    `json:"stranded_for_mem"`
	// What jobs without GPUs hold of it; one on several nodes as if spread evenly.
	CPUOnlyCPUs  int   `json:"cpu_only_cpus"`
	CPUOnlyMemMB int64 `json:"cpu_only_mem_mb"`
}

// CPUOnlyJob is a running job without GPUs on nodes whose free GPUs lack what it holds.
type CPUOnlyJob struct {
	Job   cluster.JobID `json:"job"`
	User  string        `json:"user"`
	Nodes string        `json:"nodes"` // all that it runs on
	CPUs  int           `json:"cpus"`
	MemMB int64         `json:"mem_mb"`
}

// IdleMemory is a running job that holds more memory than its steps have used so far.
type IdleMemory struct {
	Job   cluster.JobID `json:"job"`
	User  string        `json:"user"`
	Node  string        `json:"node"`
	GPUs  int           `json:"gpus"`
	MemMB int64         `json:"mem_mb"`
	Peak  int64         `json:"peak_mb"`
	Idle  int64         `json:"idle_mb"` // beyond its peak with a margin
}

// Holding are the running jobs on the nodes whose free GPUs lack memory.
func (r *Sizing) Holding(s *cluster.Snapshot) (jobs []*cluster.Job) {
	lacks := map[string]bool{}
	for _, n := range r.Nodes {
		lacks[n.Node] = n.ForMem > 0
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Running && lacks[j.NodeList] {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// SetPeaks takes in what such jobs have used at most so far, in MB.
func (r *Sizing) SetPeaks(jobs []*cluster.Job, peaks map[cluster.JobID]int64) {
	for _, j := range jobs {
		peak, measured := peaks[j.ID]
		needs := peak + max(peak/4, 1024) // it is taken to need a quarter more than it has used, and no less than 1024 MB more
		if idle := j.MemMB - needs; measured && idle > 0 {
			r.Idle = append(r.Idle, IdleMemory{Job: j.ID, User: j.User, Node: j.NodeList, GPUs: j.GPUs, MemMB: j.MemMB, Peak: peak, Idle: idle})
		}
	}
	slices.SortStableFunc(r.Idle, func(a, b IdleMemory) int { return cmp.Compare(b.Idle, a.Idle) })
}

// StarvingJob is a running job that would be faster with CPUs that lie idle beside
// it. Only its next start can give it more.
type StarvingJob struct {
	Job   cluster.JobID `json:"job"`
	User  string        `json:"user"`
	Node  string        `json:"node"`
	CPUs  int           `json:"cpus"`
	Wants int           `json:"wants_cpus"`
	Idle  int           `json:"idle_cpus"` // on its node, beyond the share of free GPUs
	Gain  float64       `json:"gain"`      // speed with what it wants over that which it has
	Why   string        `json:"why"`
}

// Overasked is a program whose runs had far more CPUs or memory than they used.
type Overasked struct {
	Program string  `json:"program"`
	GPUType string  `json:"gpu_type"`
	Runs    int     `json:"runs"`
	Had     float64 `json:"had_cpus"` // for each GPU, as all that follows
	Used    float64 `json:"used_cpus"`
	HadMB   float64 `json:"had_mem_mb"`  // 0: not recorded
	UsedMB  float64 `json:"used_mem_mb"` // 0: not measured
	Options string  `json:"options"`     // for the next script of a job with one GPU: by --cpus-per-gpu and --mem-per-gpu it would keep its size
}

// far is how many times its demand a program must have had to be told.
const far = 2

// OfSizing sums up a snapshot, and what accounting taught: past and shares may be nil.
func OfSizing(s *cluster.Snapshot, table *workload.Table, past sensitivity.Past, shares map[string]sensitivity.Share) *Sizing {
	r := &Sizing{Nodes: []StrandedOn{}, CPUOnly: []CPUOnlyJob{}, Idle: []IdleMemory{}, Starving: []StarvingJob{}, Programs: []Overasked{}}
	r.stranded(s)
	r.cpuOnly(s)
	r.starving(s, table, past)
	r.overasked(past, shares)
	return r
}

// stranded counts the GPUs of nodes in service, and finds those that lack their
// share of the rest.
func (r *Sizing) stranded(s *cluster.Snapshot) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.GPUs == 0 || !n.Usable {
			continue
		}
		r.GPUs += n.GPUs
		free := max(n.GPUs-n.GPUsUsed, 0)
		r.Free += free
		on := StrandedOn{
			Node: n.Name, GPUType: n.GPUType, FreeGPUs: free, FreeCPUs: max(n.CPUs-n.CPUsUsed, 0), FreeMemMB: max(n.MemMB-n.MemUsedMB, 0),
		}
		on.ForCPUs, on.ForMem = lacking(n.GPUs, free, float64(on.FreeCPUs), float64(n.CPUs)), lacking(n.GPUs, free, float64(on.FreeMemMB), float64(n.MemMB))
		if stranded := max(on.ForCPUs, on.ForMem); stranded > 0 {
			r.Stranded += stranded
			r.Nodes = append(r.Nodes, on)
		}
	}
}

// lacking is how many of a node's free GPUs do not get their share of something, in whole CPUs or MB.
func lacking(gpus, freeGPUs int, free, all float64) int {
	if share := math.Floor(all / float64(gpus)); share > 0 {
		return freeGPUs - min(freeGPUs, int(free/share))
	}
	return 0
}

// starving finds jobs on one node that would gain by CPUs that lie idle there.
func (r *Sizing) starving(s *cluster.Snapshot, table *workload.Table, past sensitivity.Past) {
	nodes := map[string]*cluster.Node{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.GPUs > 0 && n.Usable {
			nodes[n.Name] = n
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		n := nodes[j.NodeList]
		if j.State != cluster.Running || n == nil || j.GPUs == 0 || j.TagErr != "" {
			continue
		}
		spare := n.CPUs - n.CPUsUsed - n.CPUs*max(n.GPUs-n.GPUsUsed, 0)/n.GPUs
		share := sensitivity.Share{CPUs: float64(n.CPUs) / float64(n.GPUs), MemMB: float64(n.MemMB) / float64(n.GPUs)}
		known := sensitivity.Of(sensitivity.Job{User: j.User, Name: j.Name, Tag: &j.Tag}, n.GPUType, share, table, past)
		if spare < 1 || !known.CPU {
			continue
		}
		gpus := float64(j.GPUs)
		wants := int(math.Ceil(known.Curve.DemandCPUs * gpus))
		mem := float64(j.MemMB) / gpus
		has := known.Curve.Relative(float64(j.CPUs)/gpus, mem)
		if gain := known.Curve.Relative(known.Curve.DemandCPUs, mem) / has; wants > j.CPUs && gain > 1.01 {
			r.Starving = append(r.Starving, StarvingJob{
				Job: j.ID, User: j.User, Node: n.Name, CPUs: j.CPUs, Wants: wants, Idle: spare, Gain: gain, Why: known.Why,
			})
		}
	}
	slices.SortStableFunc(r.Starving, func(a, b StarvingJob) int { return cmp.Compare(b.Gain, a.Gain) })
}

// overasked finds the programs that had far more than they used.
func (r *Sizing) overasked(past sensitivity.Past, shares map[string]sensitivity.Share) {
	for _, l := range past.All() {
		share, here := shares[l.GPUType]
		if !here {
			continue
		}
		demand := l.Curve(share)
		cpus, memMB := math.Ceil(demand.DemandCPUs), float64(demand.DemandMemMB)
		o := Overasked{Program: l.Workload, GPUType: l.GPUType, Runs: l.Runs, Had: l.Had, Used: l.Cores, HadMB: l.HadMB, UsedMB: l.RSSMB}
		if o.Had < far*cpus && (o.UsedMB == 0 || o.HadMB < far*memMB) {
			continue
		}
		if o.Program == "" {
			o.Program = l.User + "'s " + l.Name
		}
		var options []string
		if cpus < o.Had {
			options = append(options, fmt.Sprintf("-c %.0f", cpus))
		}
		if o.UsedMB > 0 && (o.HadMB == 0 || memMB < o.HadMB) {
			options = append(options, fmt.Sprintf("--mem=%.0fM", memMB))
		}
		o.Options = strings.Join(options, " ")
		r.Programs = append(r.Programs, o)
	}
	slices.SortStableFunc(r.Programs, func(a, b Overasked) int { return cmp.Compare(b.times(), a.times()) })
}

// times is how many times what it used a program had.
func (o *Overasked) times() float64 {
	times := o.Had / o.Used
	if o.UsedMB > 0 {
		times = max(times, o.HadMB/o.UsedMB)
	}
	return times
}

// cpuOnly adds to the nodes with stranded GPUs what jobs without GPUs hold there.
func (r *Sizing) cpuOnly(s *cluster.Snapshot) {
	at := make(map[string]*StrandedOn, len(r.Nodes))
	for i := range r.Nodes {
		at[r.Nodes[i].Node] = &r.Nodes[i]
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Running || j.GPUs > 0 || j.NodeList == "" || len(at) == 0 {
			continue
		}
		names, err := slurmplug.ExpandHosts(j.NodeList)
		if err != nil {
			continue
		}
		there := false
		for _, name := range names {
			if n := at[name]; n != nil {
				there = true
				n.CPUOnlyCPUs += j.CPUs / len(names)
				n.CPUOnlyMemMB += j.MemMB / int64(len(names))
			}
		}
		if there {
			r.CPUOnly = append(r.CPUOnly, CPUOnlyJob{Job: j.ID, User: j.User, Nodes: j.NodeList, CPUs: j.CPUs, MemMB: j.MemMB})
		}
	}
	slices.SortStableFunc(r.CPUOnly, func(a, b CPUOnlyJob) int { return cmp.Compare(b.CPUs, a.CPUs) })
}

// Page shows it with a plot.
func (r *Sizing) Page() *report.Page {
	p := &report.Page{Title: "CPUs and memory of GPU nodes", Words: []string{r.words()}, Tables: r.tables(), Notes: append(r.Notes, UnreadWords(r.Unread)...)}
	p.Plot(report.Figure{Title: "GPUs", YLabel: "GPUs", Bars: []report.Bar{
		{Name: "in use", Value: float64(r.GPUs - r.Free)}, {Name: "free, with their share", Value: float64(r.Free - r.Stranded)}, {Name: "stranded", Value: float64(r.Stranded)},
	}})
	return p
}

func (r *Sizing) words() string {
	stranded := "each with its share of its node's CPUs and memory"
	if r.Stranded > 0 {
		stranded = fmt.Sprintf("%d of them stranded: their nodes lack the CPUs or the memory of their share", r.Stranded)
	}
	return fmt.Sprintf("%d of %d GPUs are free, %s.", r.Free, r.GPUs, stranded)
}

func (r *Sizing) tables() []report.PageTable {
	return []report.PageTable{
		report.TableOf("", []string{"NODE", "TYPE", "FREE GPUS", "FREE CPUS", "FREE MB", "STRANDED FOR CPUS", "FOR MEMORY", "CPU-ONLY JOBS HOLD CPUS", "MB"}, r.Nodes, func(n *StrandedOn) []any {
			return []any{n.Node, n.GPUType, n.FreeGPUs, n.FreeCPUs, n.FreeMemMB, n.ForCPUs, n.ForMem, n.CPUOnlyCPUs, n.CPUOnlyMemMB}
		}),
		report.TableOf("Jobs without GPUs that hold CPUs and memory there", []string{"JOB", "USER", "NODES", "CPUS", "MB"}, r.CPUOnly, func(j *CPUOnlyJob) []any {
			return []any{j.Job.String(), j.User, j.Nodes, j.CPUs, j.MemMB}
		}),
		report.TableOf("These hold memory there that their steps have not used so far; a quarter more than they used, at least 1024 MB, is left to them",
			[]string{"JOB", "USER", "NODE", "GPUS", "MB", "USED AT MOST", "IDLE"}, r.Idle, func(j *IdleMemory) []any {
				return []any{j.Job.String(), j.User, j.Node, j.GPUs, j.MemMB, j.Peak, j.Idle}
			}),
		report.TableOf("Slower than possible next to idle CPUs", []string{"JOB", "USER", "NODE", "CPUS", "WANTS", "IDLE THERE", "TIMES FASTER", "BY"}, r.Starving,
			func(j *StarvingJob) []any {
				return []any{j.Job.String(), j.User, j.Node, j.CPUs, j.Wants, j.Idle, fmt.Sprintf("%.2f", j.Gain), j.Why}
			}),
		report.TableOf("These had far more for each GPU than they used. What is enough can stand in the next script in place of its -c and --mem, times its GPUs "+
			"(--cpus-per-gpu and --mem-per-gpu would keep priod from sizing the job)",
			[]string{"PROGRAM", "TYPE", "RUNS", "HAD CPUS", "USED CPUS", "HAD MB", "USED MB", "ENOUGH"}, r.Programs, func(p *Overasked) []any {
				return []any{p.Program, p.GPUType, p.Runs, fmt.Sprintf("%.3g", p.Had), fmt.Sprintf("%.2g", p.Used), Megabytes(p.HadMB), Megabytes(p.UsedMB), p.Options}
			}),
	}
}

// Megabytes are "-" where accounting has none.
func Megabytes(mb float64) string {
	if mb == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", mb)
}

// ReadSizing looks at the queue and the nodes as they are now, and where since is before until, at accounting too.
func ReadSizing(ctx context.Context, cfg *config.Config, slurm *live.Cluster, table *workload.Table, since, until time.Time) (*Sizing, error) {
	snapshot, err := slurm.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("read Slurm: %w", err)
	}
	used, set, past := &live.Used{}, cfg.SpeedSettings(), since.Before(until)
	if past {
		if used, err = slurm.Used(ctx, since, until, set.Today); err != nil {
			return nil, fmt.Errorf("read accounting: %w", err)
		}
	}
	learned := sensitivity.Learn(used.Stays, cfg.Constants.ShortestRun)
	s := OfSizing(&snapshot, table, learned, used.Shares)
	holding := s.Holding(&snapshot)
	peaks, unasked := slurm.Peaks(ctx, holding)
	s.SetPeaks(holding, peaks)
	s.Unread = UnreadRows(slurm)
	note := func(format string, a ...any) { s.Notes = append(s.Notes, fmt.Sprintf(format, a...)) }
	switch {
	case unasked != nil:
		note("What running jobs use of their memory is not known: %v", unasked)
	case len(holding) > 0 && len(peaks) == 0:
		note("What running jobs use of their memory is not known: %s.", Unmeasured(ctx, slurm, nil, 0))
	}
	switch {
	case past && len(learned) == 0:
		note("Accounting says of no run with GPUs what it used: %s.", Unmeasured(ctx, slurm, used.Stays, cfg.Constants.ShortestRun))
	case past && len(s.Programs) == 0:
		note("No program in accounting had twice the CPUs or the memory that it can use.")
	}
	return s, nil
}
