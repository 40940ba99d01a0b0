package speed

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Usual is the part of a Knowledge that is about no single program, as plain data.
type Usual struct {
	Types  []string  `json:"gpu_types"`
	Linked []int     `json:"linked"`
	Mean   []float64 `json:"mean"`   // of the programs' log speeds
	Doubt  []float64 `json:"doubt"`  // covariance of the mean: the upper triangle, row by row
	Spread []float64 `json:"spread"` // covariance of the programs around it: likewise
}

// Lesson is what a Knowledge has of one program, as plain data.
type Lesson struct {
	Program    Program   `json:"-"`
	Steps      bool      `json:"-"`      // work is counted in steps; else in runs
	Runs       int       `json:"runs"`   // in all
	OnType     []int     `json:"on"`     // that spent most of their time on a type
	Mean       []float64 `json:"mean"`   // logs of the work per second
	Covariance []float64 `json:"spread"` // of the mean: the upper triangle, row by row
}

// Types are the GPU types that any run was on.
func (k *Knowledge) Types() []string { return k.types }

// Lessons are the Knowledge as plain data, to be stored.
func (k *Knowledge) Lessons() (Usual, []Lesson) {
	u := Usual{Types: k.types, Linked: k.linked}
	if len(k.types) == 0 {
		return u, nil
	}
	u.Mean, u.Doubt, u.Spread = vector(k.mean), triangle(k.meanCov), triangle(k.rowCov)
	all := make([]Lesson, 0, len(k.rows))
	for key, r := range k.rows {
		all = append(all, Lesson{Program: key.Program, Steps: key.steps, Runs: r.runs, OnType: r.runsOn, Mean: vector(r.mean), Covariance: triangle(r.cov)})
	}
	return u, all
}

// Recall makes the Knowledge again from what Lessons returned, or from a part of it.
func Recall(u Usual, lessons []Lesson) (*Knowledge, error) {
	n := len(u.Types)
	k := &Knowledge{types: u.Types, linked: u.Linked, rows: make(map[subject]*row, len(lessons))}
	if n == 0 {
		return k, nil
	}
	var err error
	if k.mean, err = fromVector(u.Mean, n); err == nil {
		if k.meanCov, err = fromTriangle(u.Doubt, n); err == nil {
			k.rowCov, err = fromTriangle(u.Spread, n)
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range lessons {
		l := &lessons[i]
		r := &row{runsOn: l.OnType, key: subject{l.Program, l.Steps}, runs: l.Runs}
		if r.mean, err = fromVector(l.Mean, n); err == nil {
			r.cov, err = fromTriangle(l.Covariance, n)
		}
		if err != nil {
			return nil, err
		}
		k.rows[r.key] = r
	}
	return k, nil
}

func vector(v *mat.VecDense) []float64 { return append([]float64{}, v.RawVector().Data...) }

func triangle(m *mat.SymDense) (all []float64) {
	for i := range m.SymmetricDim() {
		for j := i; j < m.SymmetricDim(); j++ {
			all = append(all, m.At(i, j))
		}
	}
	return all
}

func fromVector(v []float64, n int) (*mat.VecDense, error) {
	if err := checkNumbers(v, n); err != nil {
		return nil, err
	}
	return mat.NewVecDense(n, append([]float64{}, v...)), nil
}

func fromTriangle(v []float64, n int) (*mat.SymDense, error) {
	if err := checkNumbers(v, n*(n+1)/2); err != nil {
		return nil, err
	}
	m := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			m.SetSym(i, j, v[0])
			v = v[1:]
		}
	}
	return m, nil
}

func checkNumbers(v []float64, n int) error {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("lessons of speeds: %v is no number to go by", x)
		}
	}
	if len(v) != n {
		return fmt.Errorf("lessons of speeds: %d numbers, want %d", len(v), n)
	}
	return nil
}
