package speed

import (
	"cmp"
	"fmt"
	"math"
)

// Usual is the part of a Knowledge that is about no single program. A covariance is its
// upper triangle, row by row.
type Usual struct {
	Types  []string  `json:"gpu_types"`
	Linked []int     `json:"linked"` // by type: the first one that programs compare it with, directly or not
	Mean   []float64 `json:"mean"`   // of the programs' log speeds, up to a constant for each program
	Doubt  []float64 `json:"doubt"`  // posterior covariance of the mean
	Spread []float64 `json:"spread"` // covariance of the programs around it
}

// Lesson is what a Knowledge has of one program.
type Lesson struct {
	Program    Program   `json:"-"`
	Unit       Unit      `json:"-"`      // of its work
	Runs       int       `json:"runs"`   // in all
	OnType     []int     `json:"on"`     // that spent most of their time on a type
	Mean       []float64 `json:"mean"`   // logs of the work per second
	Covariance []float64 `json:"spread"` // of the mean
}

// Types are the GPU types that any run was on.
func (k *Knowledge) Types() []string { return k.usual.Types }

// Lessons are the Knowledge as plain data, to be stored.
func (k *Knowledge) Lessons() (Usual, []Lesson) {
	all := make([]Lesson, 0, len(k.programs))
	for _, l := range k.programs {
		all = append(all, *l)
	}
	return k.usual, all
}

// Recall makes the Knowledge again from what Lessons returned, or from a part of it.
func Recall(u Usual, lessons []Lesson) (*Knowledge, error) {
	k := &Knowledge{usual: u, programs: make(map[subject]*Lesson, len(lessons))}
	n := len(u.Types)
	if n == 0 {
		return k, nil
	}
	err := cmp.Or(checkNumbers(u.Mean, n), checkNumbers(u.Doubt, n*(n+1)/2), checkNumbers(u.Spread, n*(n+1)/2))
	for i := range lessons {
		l := &lessons[i]
		err = cmp.Or(err, checkNumbers(l.Mean, n), checkNumbers(l.Covariance, n*(n+1)/2))
		k.programs[subject{l.Program, l.Unit}] = l
	}
	if err != nil {
		return nil, err
	}
	return k, nil
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
