package rounds

import "math"

// Estimator is a scheduler that has to find out how fast jobs are.
type Estimator interface {
	// Learned reports whether estimates have changed since the last call.
	Learned() bool
	// Estimate is how fast a job is thought to be on each type, in any unit.
	Estimate(a *Active, types []Type) []float64
	// Completed shows a job that has ended.
	Completed(a *Active, types []Type)
}

// estimate sets what is believed of jobs that have just come and, when the
// estimator has learned, of all. It reports whether anything did change.
func (e *engine) estimate(arrived []*Active) (changed bool) {
	if e.opt.Estimator == nil {
		return false
	}
	if e.opt.Estimator.Learned() {
		arrived, changed = e.active, true
	}
	for _, a := range arrived {
		a.believe(e.opt.Estimator.Estimate(a, e.types))
	}
	return changed
}

// believe takes ratios of speeds. How much there is left to do stays known, on
// the mean type; so does where a job cannot run at all.
func (a *Active) believe(speeds []float64) {
	off, n, fastest := 0.0, 0.0, 0.0
	for j, s := range a.Speed {
		if s > 0 {
			off += math.Log(s / speeds[j])
			n++
		}
	}
	scale := math.Exp(off / n)
	a.Estimate = make([]float64, len(a.Speed))
	for j, s := range a.Speed {
		if s > 0 {
			a.Estimate[j] = scale * speeds[j]
			fastest = max(fastest, a.Estimate[j])
		}
	}
	a.best, a.moved = 1/fastest, true
}
