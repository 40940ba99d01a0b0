package idle

import "slurmprio/priod/cluster"

// Verdict is what all sources together show of a job now.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota // no source can tell
	Works
	Quiet
)

// Combine says what the signs of a job show together, and the sign that says so. What shows its GPUs is believed before all
// others: a job that only keeps its CPUs busy holds its GPUs for nothing. Else any sign of work counts. sure: the
// GPUs or CPUs of a job without work are known; output and steps alone are a hint.
func Combine(signs []cluster.Sign) (v Verdict, by cluster.Sign, sure bool) {
	for i := range signs {
		s := &signs[i]
		switch {
		case v != Unknown && by.Shows == cluster.GPUs && s.Shows != cluster.GPUs: // the GPUs have spoken
			continue
		case s.Works && (v != Works || s.Shows == cluster.GPUs && by.Shows != cluster.GPUs):
			v, by = Works, *s
		case s.Works:
		case v == Unknown, s.Shows == cluster.GPUs && by.Shows != cluster.GPUs, v == Quiet && s.Shows < by.Shows:
			v, by = Quiet, *s
		}
	}
	return v, by, v == Quiet && by.Shows <= cluster.CPUs
}
