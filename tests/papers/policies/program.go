package policies

import (
	"slices"

	"slurmprio/priod/allocate"
	"slurmprio/priod/allocate/lp"
)

// Program is the linear program of an allocation, for what prices do not
// decompose. It has a variable for each column: how many run so at once, on
// average.
type Program struct {
	*allocate.Classes
	Columns []Column

	limit   []float64
	floor   []int // class whose rate a row asks for, -1
	program *lp.Program
}

// Column is jobs that run on the same GPUs of a type: those of one class, or of
// several side by side.
type Column struct {
	Type int
	Runs []Run
}

// Run is so many jobs of a class, and the steps/s that they make together.
type Run struct {
	Class, Jobs int
	Speed       float64
}

// Solve maximises t up to most such that each class's jobs have t x need, and
// then value, a sum over columns. It returns t and its bound.
func (g *Program) Solve(need []float64, most float64, value func(column int) float64) (t, bound float64, err error) {
	floors, columns := g.rows(need, most), make([][]lp.Term, 0, len(g.Columns)+1)
	row := make([]int, len(g.Jobs)) // that asks for the class's rate, -1
	for i := range row {
		row[i] = -1
	}
	for r, class := range g.floor {
		if class >= 0 {
			row[class] = r
		}
	}
	for i := range g.Columns {
		columns = append(columns, g.terms(&g.Columns[i], row))
	}
	last := []lp.Term{{Row: len(g.limit) - 1, Value: 1}}
	for i, r := range row {
		if r >= 0 {
			last = append(last, lp.Term{Row: r, Value: need[i] / g.Jobs[i].Fastest()})
		}
	}
	columns = append(columns, last)
	g.program = lp.New(g.limit, columns)
	cost := make([]float64, len(columns))
	t, bound = most, most
	if floors > 0 {
		cost[len(cost)-1] = 1
		if t, err = g.program.Maximise(cost); err != nil {
			return 0, 0, err
		}
		bound = min(most, g.bound(1))
		g.program.Keep()
	}
	if value != nil {
		cost[len(cost)-1] = 0
		for i := range g.Columns {
			cost[i] = value(i)
		}
		if _, err := g.program.Maximise(cost); err != nil {
			return 0, 0, err
		}
	}
	return t, bound, nil
}

// rows are the time of each class, the GPUs of each type, the rate that each
// class needs, and t. It returns how many ask for a rate.
func (g *Program) rows(need []float64, most float64) (floors int) {
	g.limit, g.floor = g.limit[:0], nil
	for i := range g.Jobs {
		g.limit = append(g.limit, g.Jobs[i].Count)
	}
	g.limit = append(g.limit, g.GPUs...)
	g.floor = slices.Repeat([]int{-1}, len(g.limit))
	for i := range g.Jobs {
		if need[i] > 0 {
			g.limit, g.floor = append(g.limit, 0), append(g.floor, i)
			floors++
		}
	}
	g.limit, g.floor = append(g.limit, min(most, 1e9)), append(g.floor, -1)
	return floors
}

// terms are what one that runs in a column takes of the rows.
func (g *Program) terms(c *Column, row []int) []lp.Term {
	first := c.Runs[0]
	terms := []lp.Term{{Row: first.Class, Value: float64(first.Jobs)}, {Row: len(g.Jobs) + c.Type, Value: g.Jobs[first.Class].GPUs}}
	for _, r := range c.Runs[1:] {
		terms = append(terms, lp.Term{Row: r.Class, Value: float64(r.Jobs)})
	}
	for _, r := range c.Runs {
		if at := row[r.Class]; at >= 0 {
			terms = append(terms, lp.Term{Row: at, Value: -r.Speed / (g.Jobs[r.Class].Fastest() * g.Jobs[r.Class].Count)})
		}
	}
	return terms
}

// Value is how many run in a column.
func (g *Program) Value(column int) float64 { return g.program.Value(column) }

func (g *Program) bound(most float64) float64 { return g.program.Bound(most) }

// Prices are what the program asks of each class for what it needs, summing to 1.
func (g *Program) Prices(need []float64) []float64 {
	of := make([]float64, len(g.Jobs))
	for i, p := range g.program.Prices() {
		if c := g.floor[i]; c >= 0 {
			of[c] = max(0, p) * need[c] / g.Jobs[c].Fastest()
		}
	}
	return of
}
