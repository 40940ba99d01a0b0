package sensitivity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload"
)

// Stay is a job's stay on GPUs that has ended, with what it had and used there.
type Stay struct {
	cluster.PastStay
	CPUs       int      // that it had
	MemMB      int64    // that it had; 0: not recorded
	Nodes      int      // that it was on; 0 counts as 1
	CPUSeconds float64  // of CPU time of all its processes: sacct's TotalCPU
	NodeMB     int64    // most memory of its processes on one node (sacct's MaxRSS); 0: not recorded
	GPUUse     *float64 // largest sample of a task, percent of one GPU; nil: not measured
}

// Key names the runs that are taken to use the same: those of a workload, or of one user
// under one job name, on one GPU type.
type Key struct {
	Workload   string
	User, Name string
	GPUType    string
}

// Usage is what the runs of a key used at most, for each GPU.
type Usage struct {
	Runs  int
	Cores float64 // CPU time over elapsed time
	Had   float64 // CPUs of the run that used most
	RSSMB float64 // 0: not recorded
	HadMB float64 // memory of the run that used most of it; 0: not recorded
}

// Past is what accounting shows of earlier runs.
type Past map[Key]Usage

// Learn sums up stays that ended. It ignores those without GPUs or without CPU time (no
// jobacct_gather), and those shorter than shortest: a run that fails while it starts up
// does not use what it would have used later.
func Learn(stays []Stay, shortest time.Duration) Past {
	past := Past{}
	for i := range stays {
		r := &stays[i]
		length := r.Length()
		if r.GPUs <= 0 || r.CPUs <= 0 || length <= 0 || length < shortest || r.CPUSeconds <= 0 {
			continue
		}
		gpus := float64(r.GPUs)
		// Accounting may count more CPU time than the CPUs of the run had.
		cores := min(r.CPUSeconds/length.Seconds(), float64(r.CPUs)) / gpus
		for _, key := range []Key{{Workload: r.Tag.Workload, GPUType: r.GPUType}, {User: r.User, Name: r.Name, GPUType: r.GPUType}} {
			if key == (Key{GPUType: r.GPUType}) {
				continue
			}
			u := past[key]
			u.Runs++
			if cores > u.Cores {
				u.Cores, u.Had = cores, float64(r.CPUs)/gpus
			}
			if rss := float64(r.NodeMB) * float64(max(1, r.Nodes)) / gpus; rss > u.RSSMB {
				u.RSSMB, u.HadMB = rss, float64(r.MemMB)/gpus
			}
			past[key] = u
		}
	}
	return past
}

// Lesson is what the runs of a key used.
type Lesson struct {
	Key
	Usage
}

// All lists them, workloads first, then by user and name.
func (p Past) All() []Lesson {
	all := make([]Lesson, 0, len(p))
	for k, u := range p {
		all = append(all, Lesson{k, u})
	}
	slices.SortFunc(all, func(a, b Lesson) int {
		if (a.Workload == "") != (b.Workload == "") {
			return cmp.Compare(b.Workload, a.Workload)
		}
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.User, b.User), cmp.Compare(a.Name, b.Name), cmp.Compare(a.GPUType, b.GPUType))
	})
	return all
}

const (
	// saturated is the part of its CPUs from which on a run may have wanted more.
	saturated = 0.9
	// cpuReserve and memReserve multiply what a job was seen to use, because sampling
	// misses short peaks.
	cpuReserve = 1.3
	memReserve = 1.2
	// enoughRuns is how many runs have to be known before a job is taken to need less
	// than its proportional share.
	enoughRuns = 3
)

// Curve guesses how the speed depends on CPUs and memory. With fewer CPUs than it used
// the job is slower in proportion; with more it is no faster. A job that used all of its
// CPUs (Bound) may be faster with cpuReserve times as many; beyond that the curve is
// flat, for lack of data. A job with few runs counts as one that uses its share.
func (u Usage) Curve(share Share) *workload.Curve {
	demand := max(1, math.Ceil(cpuReserve*u.Cores))
	knee := u.Cores
	if u.Bound() {
		knee = demand
	}
	mem := share.MemMB
	if u.RSSMB > 0 && (u.Runs >= enoughRuns || memReserve*u.RSSMB > mem) {
		mem = memReserve * u.RSSMB
	}
	if u.Runs < enoughRuns {
		demand, knee = max(demand, share.CPUs), max(knee, share.CPUs)
	}
	knee = min(knee, demand)
	c := &workload.Curve{IterationS: 1, DemandCPUs: demand, DemandMemMB: max(1, int64(math.Ceil(mem)))}
	c.MemMB = []int64{c.DemandMemMB}
	// Half of the CPUs that it used give half of the speed.
	least := min(1, knee/2)
	c.CPUs, c.Speed = []float64{least, knee}, [][]float64{{least / knee}, {1}}
	relativeTo(c, share)
	return c
}

// Bound reports whether more CPUs might have made the job faster.
func (u Usage) Bound() bool { return u.Cores > saturated*u.Had }

func (u Usage) why(k Key) string {
	whose := fmt.Sprintf("%s of user %s named %.40q", runs(u.Runs), k.User, k.Name)
	if k.Workload != "" {
		whose = fmt.Sprintf("%s of workload %s", runs(u.Runs), k.Workload)
	}
	text := fmt.Sprintf("accounting: %s on %s used at most %.2g CPUs", whose, k.GPUType, u.Cores)
	if u.RSSMB > 0 {
		text += fmt.Sprintf(" and %.0f MB", u.RSSMB)
	}
	text += " for each GPU"
	switch {
	case u.Runs < enoughRuns:
		text += "; too few to size it below its share"
	case u.Bound():
		text += ", all of its CPUs"
	}
	return text
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}
