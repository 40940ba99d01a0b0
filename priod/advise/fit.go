package advise

import (
	"cmp"
	"slices"
)

// Waited is how long one job waited from a promise on, and how long nine of ten such were said to, s.
type Waited struct {
	Was, Said float64
	Cut       bool // it still waits
}

// fewWaited promises teach nothing yet.
const fewWaited = 30

// FitP90 is by what to multiply waits that nine of ten do not exceed, so that nine of ten of these did not (conformal prediction); 1
// where fewer than 30 are known. Jobs that still wait count as waiting at least so long, as in Kaplan and Meier (1958).
func FitP90(waited []Waited) float64 {
	type ratio struct {
		x   float64
		cut bool
	}
	var all []ratio
	ended := 0
	for _, w := range waited {
		all = append(all, ratio{w.Was / max(w.Said, 60), w.Cut})
		if !w.Cut {
			ended++
		}
	}
	if ended < fewWaited {
		return 1
	}
	slices.SortFunc(all, func(a, b ratio) int { return cmp.Compare(a.x, b.x) })
	left := 1.0
	for i, r := range all {
		if r.cut {
			continue
		}
		if left -= left / float64(len(all)-i); left <= 0.1 {
			return min(max(r.x, leastFit), mostFit)
		}
	}
	return min(max(all[len(all)-1].x, 1), mostFit) // more than one of ten still wait
}

// A promise is fitted by these factors at most.
const (
	leastFit = 0.3
	mostFit  = 5
)
