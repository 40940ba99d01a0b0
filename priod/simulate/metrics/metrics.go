// Package metrics measures a run. JCT (job completion time) is end - submit; wait
// is the time from submit to end not spent running; slowdown is 1 + wait / run
// time; makespan is the last end - the first submit. Percentiles are by linear
// interpolation.
package metrics

// Outcome is what became of one job. Times are seconds from the trace's start.
type Outcome struct {
	Start       float64 // first start
	End         float64
	Ran         float64 // s on GPUs, all runs together
	Shared      float64 // s of Ran beside another job on the same GPUs
	Wasted      float64 // GPU-seconds that made no progress: lost work, grace, restarts
	Preemptions int32
	Trials      int32   // runs that came to an end by themselves
	Failures    int32   // of these, that failed
	Lost        float64 // s of Ran in trials that failed, but for what they saved
	Type        int32   // index of the last GPU type in the cluster's list; -1 when GPUs are only counted
	Nodes       string  // of the last run, separated by commas; "" while it runs, and where nodes are not told apart
	Failed      bool    // so did its last trial
	Held        bool    // and priod put it back held
	Done        bool    // it ran to its end before the simulation stopped
}
