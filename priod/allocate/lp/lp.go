// Package lp is a revised simplex for the linear programs of policies: pairs of
// jobs on one GPU, sums of throughputs, the bound of sizing. It solves
//
//	maximise c x  such that  A x <= b, x >= 0,  with b >= 0
//
// so that x = 0 is where it starts. The inverse of the basis is dense, columns
// are sparse: right for a few hundred rows and many columns. A solved program
// can continue with another objective among the optima of the one before (Keep).
package lp

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// ErrUnbounded and ErrNumeric are why there is no optimum.
var (
	ErrUnbounded = errors.New("the linear program is unbounded")
	ErrNumeric   = errors.New("the linear program lost its way in rounding errors")
)

// Term is one coefficient of a column.
type Term struct {
	Row   int
	Value float64
}

// Program is the program with its present basis.
type Program struct {
	limit   []float64
	column  [][]Term // the last ones are the slacks of the rows
	slacks  int      // index of the first
	banned  []bool   // columns that must not enter
	cost    []float64
	basis   []int // column of each row
	place   []int // row of each basic column, -1
	inverse [][]float64
	value   []float64 // of the basic columns
	price   []float64 // of the rows
	rising  []float64
}

const (
	tolerance = 1e-9
	pivotMin  = 1e-9
	refactor  = 64 // pivots between two inversions
	patience  = 2000
	// perturbation is added to the limits, to each another multiple, so that few
	// pivots gain nothing; it is far below any precision asked for.
	perturbation = 1e-10
)

// New makes a program; limit is b.
func New(limit []float64, columns [][]Term) *Program {
	rows := len(limit)
	p := &Program{limit: slices.Clone(limit), column: slices.Clone(columns), slacks: len(columns), basis: make([]int, rows),
		value: make([]float64, rows), price: make([]float64, rows), rising: make([]float64, rows), inverse: make([][]float64, rows)}
	p.place = make([]int, len(columns)+rows)
	for j := range p.place {
		p.place[j] = -1
	}
	for r := range rows {
		p.column = append(p.column, []Term{{r, 1}})
		p.basis[r], p.place[p.slacks+r] = p.slacks+r, r
		p.inverse[r] = make([]float64, rows)
		p.inverse[r][r] = 1
		p.limit[r] = limit[r] + perturbation*(1+float64(r*7919%1013)/1013)
		p.value[r] = p.limit[r]
	}
	p.banned = make([]bool, len(p.column))
	p.cost = make([]float64, len(p.column))
	return p
}

// Maximise finds the optimum for these costs, one for each column, from the
// present basis on, and returns its value.
func (p *Program) Maximise(cost []float64) (float64, error) {
	clear(p.cost)
	copy(p.cost, cost)
	best, since := math.Inf(-1), 0
	for pivots := 1; ; pivots++ {
		if pivots%refactor == 0 {
			if err := p.invert(); err != nil {
				return 0, err
			}
		}
		p.prices()
		enter := p.entering(since > patience)
		if enter < 0 {
			p.refine()
			return p.objective(), nil
		}
		if err := p.pivot(enter, since > patience); err != nil {
			return 0, err
		}
		switch now := p.objective(); {
		case now > best:
			best, since = now, 0
		default:
			since++
		}
		if pivots > 50*(len(p.column)+100) {
			return 0, ErrNumeric
		}
	}
}

func (p *Program) objective() float64 {
	sum := 0.0
	for r, j := range p.basis {
		sum += p.cost[j] * p.value[r]
	}
	return sum
}

// prices of the rows in this basis.
func (p *Program) prices() {
	clear(p.price)
	for r, j := range p.basis {
		if c := p.cost[j]; c != 0 {
			for k, v := range p.inverse[r] {
				p.price[k] += c * v
			}
		}
	}
}

func (p *Program) gain(j int) float64 {
	g := p.cost[j]
	for _, t := range p.column[j] {
		g -= p.price[t.Row] * t.Value
	}
	return g
}

// entering is the column that promises most, or the first that promises
// anything where progress stalls (Bland): then no basis comes twice.
func (p *Program) entering(first bool) int {
	best, most := -1, tolerance
	for j := range p.column {
		if p.place[j] >= 0 || p.banned[j] {
			continue
		}
		if g := p.gain(j); g > most {
			if first {
				return j
			}
			best, most = j, g
		}
	}
	return best
}

func (p *Program) pivot(enter int, first bool) error {
	d := p.rising
	for r, row := range p.inverse {
		d[r] = 0
		for _, t := range p.column[enter] {
			d[r] += row[t.Row] * t.Value
		}
	}
	step := math.Inf(1)
	for r := range d {
		if d[r] > pivotMin {
			step = min(step, (max(0, p.value[r])+1e-12)/d[r])
		}
	}
	if math.IsInf(step, 1) {
		return ErrUnbounded
	}
	out := -1
	for r := range d { // of those that reach 0 by then the safest, or the first
		if d[r] > pivotMin && max(0, p.value[r])/d[r] <= step {
			if out < 0 || first && p.basis[r] < p.basis[out] || !first && d[r] > d[out] {
				out = r
			}
		}
	}
	step = max(0, p.value[out]) / d[out]
	leaving := p.inverse[out]
	for k := range leaving {
		leaving[k] /= d[out]
	}
	for r, row := range p.inverse {
		if r == out || d[r] == 0 {
			continue
		}
		f := d[r]
		for k, v := range leaving {
			row[k] -= f * v
		}
		p.value[r] = max(0, p.value[r]-f*step)
	}
	p.value[out] = step
	p.place[p.basis[out]] = -1
	p.basis[out], p.place[enter] = enter, out
	return nil
}

// invert recomputes the inverse of the basis.
func (p *Program) invert() error {
	n := len(p.basis)
	basis, inverse := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	for k, j := range p.basis {
		for _, t := range p.column[j] {
			basis.Set(t.Row, k, t.Value)
		}
	}
	if inverse.Inverse(basis) != nil {
		return ErrNumeric
	}
	for r := range n {
		p.inverse[r] = inverse.RawRowView(r)
		p.value[r] = 0
		for k, v := range p.inverse[r] {
			p.value[r] += v * p.limit[k]
		}
		p.value[r] = max(0, p.value[r])
	}
	return nil
}

// refine takes from the values what the pivots' rounding added: the inverse of
// what their sums miss of the limits.
func (p *Program) refine() {
	miss := slices.Clone(p.limit)
	for r, j := range p.basis {
		for _, t := range p.column[j] {
			miss[t.Row] -= t.Value * p.value[r]
		}
	}
	for r, row := range p.inverse {
		sum := p.value[r]
		for k, v := range row {
			sum += v * miss[k]
		}
		p.value[r] = max(0, sum)
	}
}

// Keep bans all columns whose entering would make the present objective
// worse: what follows is chosen among the optima.
func (p *Program) Keep() {
	p.prices()
	for j := range p.column {
		if p.place[j] < 0 && p.gain(j) < -tolerance {
			p.banned[j] = true
		}
	}
}

// Value of a column.
func (p *Program) Value(column int) float64 {
	if r := p.place[column]; r >= 0 {
		return p.value[r]
	}
	return 0
}

// Bound is what no solution exceeds: the rows' limits at their prices, after
// what rounding left of gains is paid for by the most that a column can be.
func (p *Program) Bound(most float64) float64 {
	p.prices()
	sum := 0.0
	for r, price := range p.price {
		sum += max(0, price) * p.limit[r]
	}
	for j := range p.slacks {
		if g := p.gain(j); g > 0 {
			sum += g * most
		}
	}
	return sum
}

// Prices of the rows for the present objective.
func (p *Program) Prices() []float64 { p.prices(); return p.price }
