package grid

import (
	"slices"
	"strconv"
	"strings"

	"slurmprio/priod/simulate/sweep"
)

// seedFlag is the axis that is repetition, not a question: rows average over it.
const seedFlag = "seed"

// Row is one combination of the axes, averaged over seeds.
type Row struct {
	At   []string           // its value on each of Study.Questions
	Runs int                // points that have a result
	Of   int                // points in all
	Mean map[string]float64 // of each metric, over the runs
}

// Questions are the axes other than the seed's.
func (s *Study) Questions() []Axis {
	return slices.DeleteFunc(slices.Clone(s.Axes), func(a Axis) bool { return a.Flag == seedFlag })
}

// Rows gathers what the runner's folder holds, in the grid's order.
func (s *Study) Rows(r *sweep.Runner, points []sweep.Point) ([]Row, error) {
	var rows []Row
	index := map[string]int{}
	for _, p := range points {
		var at []string
		for i, axis := range s.Axes {
			if axis.Flag != seedFlag {
				at = append(at, p.At[i])
			}
		}
		key := strings.Join(at, "\x00")
		i, known := index[key]
		if !known {
			i = len(rows)
			index[key] = i
			rows = append(rows, Row{At: at, Mean: map[string]float64{}})
		}
		row := &rows[i]
		row.Of++
		measured, ok, err := r.Result(p)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		row.Runs++
		for name, v := range measured {
			row.Mean[name] += (v - row.Mean[name]) / float64(row.Runs)
		}
	}
	return rows, nil
}

// Scale returns the index of the first axis of Questions whose values are all
// numbers: what a plot has along x. -1 when there is none.
func (s *Study) Scale() int {
	return slices.IndexFunc(s.Questions(), func(a Axis) bool {
		return len(a.Values) > 1 && !slices.ContainsFunc(a.Values, func(v string) bool {
			_, err := strconv.ParseFloat(v, 64)
			return err != nil
		})
	})
}
