package policies

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/allocate"
)

// alloX is AlloX (EuroSys 2020), a baseline of Gavel's section 7: single-GPU
// jobs run one after the other on their GPU until they end, such that
//
//	minimise  sum over jobs m of  k_m x steps left_m / speed_m,type(m)
//
// where the job is the k-th from last on a GPU of its type: its time counts for
// itself and for all that wait behind it, so the sum is that of all times to
// completion. It is an assignment of jobs to places (type, k), of each of which
// there are as many as GPUs of the type. Now run the first jobs of all GPUs.
//
// A job that had its whole time on one type keeps it (Previous); GPUs of such
// jobs are not counted. Gangs are refused: the assignment knows none.
func alloX(p *Problem) (*Allocation, error) {
	free := make([]int, len(p.Types))
	for t := range free {
		free[t] = p.Types[t].GPUs
	}
	a := p.nothing()
	var waiting []int
	for _, i := range p.Arrivals() {
		j := &p.Jobs[i]
		if j.GPUs != 1 {
			return nil, fmt.Errorf("job %.80q has a gang of %d: AlloX places jobs of one GPU only", j.ID, j.GPUs)
		}
		if t := slices.IndexFunc(p.before(i), func(x float64) bool { return x >= 1-allocate.Crumb }); t >= 0 && p.Usable(j, t) && free[t] > 0 {
			free[t]--
			a.Time[i][t] = 1
			continue
		}
		waiting = append(waiting, i)
	}
	s := newSeats(p, free, waiting)
	for row := range s.job {
		s.seat(row)
	}
	a.Objective, a.Bound = s.total()
	s.first(func(job, t int) { a.Time[job][t] = 1 })
	return a, nil
}

// seats is the assignment by shortest augmenting paths (Hungarian method),
// with columns that hold several jobs each.
type seats struct {
	job    []int       // of each row, in Jobs
	time   [][]float64 // s on each type, by row; +Inf: cannot run there, or nothing is free
	column []place
	in     []int   // column of each row, -1
	held   [][]int // rows in each column
	u, v   []float64

	least []float64 // scratch: of each column, the least reduced cost from the tree
	from  []int     // and the row that has it
	tree  []bool
}

// place is the k-th from last on a GPU of a type; room GPUs have it.
type place struct{ t, k, room int }

func newSeats(p *Problem, free, waiting []int) *seats {
	s := &seats{}
	for _, i := range waiting {
		time, some := make([]float64, len(free)), false
		for t := range time {
			if time[t] = math.Inf(1); free[t] > 0 && p.Usable(&p.Jobs[i], t) {
				time[t], some = p.Jobs[i].StepsLeft/p.Jobs[i].Speed[t], true
			}
		}
		if some {
			s.job, s.time = append(s.job, i), append(s.time, time)
		}
	}
	for t, n := range free {
		for k := 1; n > 0 && (k-1)*n < len(s.job); k++ { // no GPU serves more while another could take one
			s.column = append(s.column, place{t, k, n})
		}
	}
	s.in, s.u = make([]int, len(s.job)), make([]float64, len(s.job))
	for row := range s.in {
		s.in[row] = -1
	}
	n := len(s.column)
	s.held, s.v, s.least, s.from, s.tree = make([][]int, n), make([]float64, n), make([]float64, n), make([]int, n), make([]bool, n)
	return s
}

func (s *seats) cost(row, c int) float64 {
	return float64(s.column[c].k) * s.time[row][s.column[c].t]
}

// seat gives a row a column, moving others where that is cheaper.
func (s *seats) seat(row int) {
	for c := range s.column {
		s.least[c], s.tree[c] = math.Inf(1), false
	}
	at := -1
	for rows := []int{row}; ; rows = s.held[at] {
		for _, r := range rows {
			for c := range s.column {
				if d := s.cost(r, c) - s.u[r] - s.v[c]; !s.tree[c] && d < s.least[c] {
					s.least[c], s.from[c] = d, r
				}
			}
		}
		at = -1
		for c := range s.column {
			if !s.tree[c] && (at < 0 || s.least[c] < s.least[at]) {
				at = c
			}
		}
		delta := s.least[at]
		s.u[row] += delta
		for c := range s.column {
			if !s.tree[c] {
				s.least[c] -= delta
				continue
			}
			s.v[c] -= delta
			for _, r := range s.held[c] {
				s.u[r] += delta
			}
		}
		s.tree[at] = true
		if len(s.held[at]) < s.column[at].room {
			break
		}
	}
	for r := -1; r != row; {
		r = s.from[at]
		before := s.in[r]
		if before >= 0 {
			s.held[before] = slices.DeleteFunc(s.held[before], func(x int) bool { return x == r })
		}
		s.held[at] = append(s.held[at], r)
		s.in[r], at = at, before
	}
}

// total is the cost, and what the dual prices prove that it cannot go below.
func (s *seats) total() (cost, bound float64) {
	for row, c := range s.in {
		cost += s.cost(row, c)
		bound += s.u[row]
	}
	for c, v := range s.v {
		bound += v * float64(s.column[c].room)
	}
	return cost, bound
}

// first visits the jobs that come first on their GPU: of a type, those in the
// last column that is not empty, and for the GPUs that it leaves the shortest
// of the column before.
func (s *seats) first(visit func(job, t int)) {
	room := 0
	for c := len(s.column) - 1; c >= 0; c-- {
		if c == len(s.column)-1 || s.column[c+1].t != s.column[c].t {
			room = s.column[c].room
		}
		t := s.column[c].t
		rows := slices.Clone(s.held[c])
		slices.SortFunc(rows, func(x, y int) int {
			return cmp.Or(cmp.Compare(s.time[x][t], s.time[y][t]), cmp.Compare(x, y))
		})
		for _, r := range rows[:min(room, len(rows))] {
			visit(s.job[r], t)
			room--
		}
	}
}
