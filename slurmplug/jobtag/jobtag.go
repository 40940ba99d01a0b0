// Package jobtag is the tag that sbatchwrap writes into a job's comment and
// priod reads back: one type, Encode, Parse.
//
// The tag is the first word of the comment; the user's own comment follows
// after one space:
//
//	prio:cpu=a100:3x1-9x2.4&grace=300&type=te&v=1 the user's own words
//
// After "prio:" stands a URL query. The whole tag is valid or none of it is:
// a comment is hostile text, and half a tag would be a guess.
package jobtag

import (
	"strings"
	"time"
)

// Prefix opens every tag.
const Prefix = "prio:"

// MaxBytes is the longest tag, Prefix included.
const MaxBytes = 512

// None is the Type of a job that wants nothing of priod but its place in Slurm's own order. It stands alone.
const None = "none"

// Tag is what a job says about itself. The zero Tag says nothing.
type Tag struct {
	Type     string             // "te", "be", None or ""
	Grace    time.Duration      // time to save state after the signal, whole seconds; 0: not said
	Ckpt     time.Duration      // time between checkpoints, whole seconds; 0: not said
	Signal   string             // "USR1", "B:USR1"; "": not said
	Workload string             // a name or alias in workloads.toml; see ValidName
	Speed    map[string]float64 // relative throughput for each GRES type
	CPU      map[string]Curve   // CPUs per GPU against relative speed, for each GRES type
	Mem      map[string]Curve   // MB per GPU against relative speed, for each GRES type
	Steps    float64            // total work; 0: not said
	Retry    string             // "never", "infra", "always" or ""
}

// Curve is relative speed over an amount per GPU, ascending by amount.
type Curve []Point

// Point is one measured point of a Curve.
type Point struct {
	Amount float64 // CPUs, or MB
	Speed  float64 // relative
}

// Split takes a comment apart: the tag, "" when the comment does not begin
// with one, and the user's own words, unchanged. The tag is not checked.
func Split(comment string) (tag, rest string) {
	if !strings.HasPrefix(comment, Prefix) {
		return "", comment
	}
	tag, rest, _ = strings.Cut(comment, " ")
	return tag, rest
}

// AllowsSteering reports whether the tag says how fast the job is on several GPU types,
// and so allows priod to choose one for it.
func (t *Tag) AllowsSteering() bool { return len(t.Speed) > 0 || t.Workload != "" }
