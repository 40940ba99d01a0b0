package cluster

// Shows is what a source can tell of a job's work.
type Shows uint8

// What sources show. Of two that disagree, the one further up is believed.
const (
	GPUs   Shows = iota // how busy the job's GPUs are
	CPUs                // how busy its CPUs are
	Output              // whether it still writes its output
	Steps               // whether a step of it runs
)

// The sources.
const (
	FromLoad       = "node load"
	FromPrometheus = "prometheus"
	FromSstat      = "sstat"
	FromOutput     = "output"
	FromSteps      = "steps"
	FromTrace      = "trace"
)

// Sign is what one source shows of a running job now.
type Sign struct {
	Shows  Shows
	Source string
	Works  bool    // false: it shows no work
	Value  float64 // the largest use of its GPUs, %; the CPUs used; the age of its output, s; the steps that run
}
