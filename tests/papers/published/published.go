// Package published is what the published code of Gavel (stanford-futuredata/
// gavel, scheduler/policies) makes of its policies: the baseline, beside round
// model gavel-published.
//
// The optima of its linear programs are not unique, and what it returns is
// where the interior point method of its solver (ECOS) stops: near the analytic
// centre of the optima, where everybody's time is spread over all types that
// allow it, GPUs stay free although jobs could use them, and gangs that could
// run all the time do not. That one rule holds for all of its policies, those
// that know the speeds and those that do not; the latter see all types as
// equally fast, as fast as V100 where steps count.
package published

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/allocate"
	"slurmprio/tests/papers/policies"
)

// Has says whether the policy is here. For others our own answer stands: they
// are rules, or not wired into the published scheduler.
func Has(p policies.Policy) bool {
	return !p.Packed && (p.Name == "max-min" || p.Name == "finish-time-fairness" || p.Name == "makespan")
}

// Blind is what an agnostic policy takes for the speeds of a job.
func Blind(policy string, types []string, speed []float64) ([]float64, error) {
	seen := 1.0
	if policy != "max-min" {
		v100 := slices.Index(types, "v100")
		if v100 < 0 {
			return nil, fmt.Errorf("the published agnostic %s takes every type for as fast as v100: the cluster has none", policy)
		}
		seen = speed[v100]
	}
	return slices.Repeat([]float64{seen}, len(types)), nil
}

// Allocate returns the time of each job on each type; a job without speed gets
// none. Rates are claimed, at a level that is as high as possible, by
//
//	max-min               weight x P / gang x level
//	makespan              steps left / T, no level: T comes from a bisection
//	finish-time-fairness  steps left / (rho x isolated - elapsed) at 1/rho
//
// P is the rate on all types in proportion to their GPUs. Weights do not count
// in finish-time fairness, which is solved along its tangent at the optimum.
func Allocate(policy string, p *allocate.Problem) ([][]float64, error) {
	claim, err := claims(policy, p)
	if err != nil {
		return nil, err
	}
	var lp program
	for _, t := range p.Types {
		lp.gpus = append(lp.gpus, float64(t.GPUs))
	}
	same := map[string]int{} // the row of each kind of job
	of := make([]int, len(p.Jobs))
	var kind []byte
	for i := range p.Jobs {
		j := &p.Jobs[i]
		fastest := slices.Max(j.Speed)
		if of[i] = -1; fastest == 0 {
			continue
		}
		r := row{gang: float64(j.GPUs), count: 1}
		for _, s := range j.Speed {
			r.speed = append(r.speed, s/fastest)
		}
		need, ask := claim(i)
		r.need, r.ask = need/fastest, ask/fastest
		kind = kind[:0]
		for _, v := range append(r.speed, r.need, r.ask, r.gang) {
			kind = binary.LittleEndian.AppendUint64(kind, math.Float64bits(v))
		}
		n, known := same[string(kind)]
		if !known {
			n = len(lp.rows)
			same[string(kind)] = n
			lp.rows = append(lp.rows, r)
		} else {
			lp.rows[n].count++
		}
		of[i] = n
	}
	time := make([][]float64, len(p.Jobs))
	x, _, err := interior(&lp)
	if err != nil {
		return nil, err
	}
	none := make([]float64, len(p.Types))
	for i, n := range of {
		if time[i] = none; n >= 0 {
			time[i] = x[n]
		}
	}
	return time, nil
}

// claims says for each job what rate it needs, and how much more for each unit
// of level.
func claims(policy string, p *allocate.Problem) (func(i int) (need, ask float64), error) {
	if policy == "max-min" {
		total := 0.0
		for _, t := range p.Types {
			total += float64(t.GPUs)
		}
		return func(i int) (need, ask float64) {
			j := &p.Jobs[i]
			for t, s := range j.Speed {
				ask += s * float64(p.Types[t].GPUs) / total
			}
			return 0, ask * j.Weight / float64(j.GPUs)
		}, nil
	}
	unweighted := *p
	unweighted.Jobs = slices.Clone(p.Jobs)
	for i := range unweighted.Jobs {
		unweighted.Jobs[i].Weight = 1
	}
	best, err := allocate.Policy(policy).Allocate(&unweighted)
	if err != nil {
		return nil, err
	}
	if policy == "makespan" {
		t := bisect(best.Objective)
		return func(i int) (need, ask float64) { return p.Jobs[i].StepsLeft / t, 0 }, nil
	}
	rho, isolated := best.Objective, p.IsolatedRates()
	return func(i int) (need, ask float64) {
		j := &p.Jobs[i]
		alone := j.IsolatedElapsed + j.StepsLeft/isolated[i]
		need = j.StepsLeft / (rho*alone - j.Elapsed)
		return need, need * need / j.StepsLeft * alone * rho
	}, nil
}

// bisect is the published search for the makespan, in s, which stops within
// 5 %, and widens its range when nothing in it is possible.
func bisect(least float64) float64 {
	low, high, top := 100.0, 1e6, 1e6
	for {
		found := 0.0
		for 1.05*low < high {
			if t := (low + high) / 2; t >= least {
				high, found = t, t
			} else {
				low = t
			}
		}
		if found > 0 {
			return found
		}
		low, high, top = top, 10*top, 10*top
	}
}
