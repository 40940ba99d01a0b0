// Package trace reads past jobs (Slurm's own accounting, the Standard Workload Format, our
// CSV), the nodes that they are replayed on, and what happens to these.
package trace

import (
	"iter"
	"math"

	"slurmprio/priod/cluster"
)

// Job is one job of a trace. Times are seconds from the trace's start. A job
// is given either by how long it runs (Duration) or by how much it has to do
// (Workload and Steps); then its run time depends on the GPU type.
type Job struct {
	ID     string
	Submit float64
	GPUs   int // of the whole job: Gavel's scale factor; 0: it holds CPUs and memory alone

	Duration float64 // s; 0 when Workload and Steps say it
	Workload string  // a name or alias in workloads.toml; beside a Duration it only says how CPUs and memory matter
	Steps    float64

	Limit    float64 // time limit, s; 0: the job's run time
	Class    cluster.Class
	Untagged bool    // BE, and its owner has agreed to nothing
	NoTag    bool    // Untagged, and priod is not told its workload, steps, grace or checkpoints either
	Grace    float64 // s that it takes to leave on the signal
	Ckpt     float64 // s between two checkpoints; 0: it saves its state when told to

	CPUs  int   // of the whole job; 0: the share of its GPUs, without GPUs one for each node
	MemMB int64 // of the whole job; 0: the share of its GPUs, without GPUs of its CPUs
	Nodes int   // 0: as few as the GPUs need, or the CPUs without GPUs

	// Partition is Slurm's, or a list "a,b" in the order in which they are tried; "" when the trace does not say.
	// Accounting has the one in which a job ran.
	Partition string

	User, Account string
	QOS           string  // "" when the trace does not say
	Weight        float64 // of its share: 1 unless the trace says otherwise
	Billing       int     // TRES for which its account is billed; 0: the trace does not say
	GPUType       string  // "" when left open
	Deadline      float64 // s from the trace's start; NoDeadline when there is none

	// What really became of the job, where the trace says so; End is 0 where it does not.
	Start  float64 // of its first run
	End    float64 // of its last run
	Ran    float64 // s, all runs together
	Retry  string  // what its tag says of failures: never, infra, always; "": nothing
	Trials []Trial // its runs before the last one that failed, in order
	Ending Ending  // of the last one, which Duration or Steps are of

	IdleAfter float64 // s of its first run after which it holds its GPUs and works no more; 0: it works to its end
}

// NoDeadline is the Deadline of a job without one.
var NoDeadline = math.Inf(1)

// NewJob is a Job of which nothing is said yet.
func NewJob() Job { return Job{Weight: 1, Deadline: NoDeadline} }

// Each gives jobs that are all known as a Reader does those of a file.
func Each(jobs []Job) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
	}
}

// Bounds of what a row may say; sums and products of a few stay exact numbers.
const (
	maxSeconds = 1e12
	maxGPUs    = 1 << 20 // and CPUs, nodes
	maxWork    = 1e18    // steps
)
