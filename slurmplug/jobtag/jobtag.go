// Package jobtag is the tag that sbatchwrap writes into a job's comment and
// priod reads back: one type, Encode, Parse. See DESIGN, "The tag".
package jobtag

import "time"

// Tag is what a job says about itself. The zero Tag says nothing.
type Tag struct {
	Type     string             // "te", "be" or ""
	Grace    time.Duration      // time to save state after the signal; 0: not said
	Ckpt     time.Duration      // time between checkpoints; 0: not said
	Signal   string             // "USR1", "B:USR1"; "": not said
	Workload string             // a name or alias in workloads.toml
	Speed    map[string]float64 // relative throughput for each GRES type
	CPU      map[string]Curve   // CPUs per GPU against relative speed, for each GRES type
	Mem      map[string]Curve   // MB per GPU against relative speed, for each GRES type
	Steps    float64            // total work; 0: not said
	Share    bool               // may share a GPU
	Retry    string             // "never", "infra", "always" or ""
	Guess    bool               // a rule, not the user, chose type or workload
}

// Curve is relative speed over an amount per GPU, ascending by amount.
type Curve []Point

// Point is one measured point of a Curve.
type Point struct {
	Amount float64 // CPUs, or MB
	Speed  float64 // relative
}
