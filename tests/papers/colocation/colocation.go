// Package colocation estimates how programs slow each other down on the same
// GPUs when only some pairs have been tried: the estimator of Gavel (OSDI 2020;
// scheduler/throughput_estimator.py of its authors). Some reference programs
// are known in all pairs. A new program is tried in a few, the rest follows
// from a matrix factorisation, and it is then taken for the reference that it
// resembles most. pairs.go keeps the pairs that are known.
//
// The published factorisation alternates ridge regressions from a random start.
// Here the references' side comes from their singular values, so that the
// answer is always the same, and only the new program's side is a regression.
package colocation

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// The published rank and weight of the penalty.
const (
	rank  = 10
	ridge = 1e-2
)

// References are programs that are known in all pairs.
type References struct {
	ratios  *mat.Dense // a row for each, a column for each pair of GPU type and partner
	factors *mat.Dense // a row for each column of ratios
}

// New takes speeds beside a partner over speeds alone, from 0 (they do not run
// together) to 1: a row for each reference program, a column for each pair of
// GPU type and partner, in any order that New and Like have in common.
func New(ratios [][]float64) (*References, error) {
	if len(ratios) == 0 || len(ratios[0]) == 0 {
		return nil, errors.New("no reference programs")
	}
	m := mat.NewDense(len(ratios), len(ratios[0]), nil)
	for i, row := range ratios {
		if len(row) != len(ratios[0]) {
			return nil, fmt.Errorf("reference %d: %d ratios, want %d as the first one has", i+1, len(row), len(ratios[0]))
		}
		for j, v := range row {
			if !(v >= 0) || math.IsInf(v, 1) {
				return nil, fmt.Errorf("reference %d: ratio %d is %v: want 0 to 1", i+1, j+1, v)
			}
			m.Set(i, j, min(v, 1))
		}
	}
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDThin) {
		return nil, errors.New("the ratios of the reference programs have no singular values")
	}
	var v mat.Dense
	svd.VTo(&v)
	values := svd.Values(nil)
	k := min(rank, len(values))
	factors := mat.NewDense(len(ratios[0]), k, nil)
	for j := range len(ratios[0]) {
		for f := range k {
			factors.Set(j, f, v.At(j, f)*math.Sqrt(values[f])) // both sides of the product bear half
		}
	}
	return &References{m, factors}, nil
}

// Like is the reference that a program resembles most: by the cosine between
// what is known and completed of the one and the other. known has a ratio for
// each column, NaN where the pair was not tried. ok is false when none was, or
// when all that is known is 0.
func (r *References) Like(known []float64) (reference int, ok bool) {
	full := r.complete(known)
	if full == nil || mat.Norm(full, 2) == 0 {
		return 0, false
	}
	best := math.Inf(-1)
	rows, _ := r.ratios.Dims()
	for i := range rows {
		row := r.ratios.RowView(i)
		if length := mat.Norm(row, 2); length > 0 {
			if c := mat.Dot(row, full) / length; c > best {
				best, reference, ok = c, i, true
			}
		}
	}
	return reference, ok
}

// complete fills in what was not tried, nil when nothing was.
func (r *References) complete(known []float64) *mat.VecDense {
	columns, k := r.factors.Dims()
	normal := mat.NewSymDense(k, nil)
	right := mat.NewVecDense(k, nil)
	tried := false
	for j := range columns {
		if math.IsNaN(known[j]) {
			continue
		}
		tried = true
		f := mat.NewVecDense(k, r.factors.RawRowView(j))
		normal.SymRankOne(normal, 1, f)
		right.AddScaledVec(right, ratio(known[j]), f)
	}
	if !tried {
		return nil
	}
	for f := range k {
		normal.SetSym(f, f, normal.At(f, f)+ridge)
	}
	var chol mat.Cholesky
	var own mat.VecDense
	if !chol.Factorize(normal) || chol.SolveVecTo(&own, right) != nil {
		return nil
	}
	full := mat.NewVecDense(columns, nil)
	full.MulVec(r.factors, &own)
	for j := range columns {
		v := full.AtVec(j)
		if !math.IsNaN(known[j]) {
			v = known[j]
		}
		full.SetVec(j, ratio(v))
	}
	return full
}

func ratio(v float64) float64 { return min(max(v, 0), 1) }
