package speed

import (
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Prior beliefs of the programs of one job name: users run one code on different amounts of data, and on other
// numbers of GPUs, so their programs differ in the work of a run more than in the ratios of types. Standard
// deviations of natural logs; each counts as priorCount programs.
const (
	workSpread  = 1.5
	ratioSpread = 0.15 // the 26 of Gavel (OSDI'20): 0.3 between 1 and 8 GPUs of one program, none between users
)

// group is the programs of one job name whose work is counted in one unit: all users, all numbers of GPUs. Their
// rows are normal around that of the group, which is normal around the site's mean.
type group struct {
	key   subject
	rows  []*row
	users map[string]int // rows of each
	mean  *mat.VecDense
	cov   *mat.SymDense
	step  *mat.VecDense // b_g, then the next change of mean

	weight *mat.SymDense // what the rows know of the group: sum Q - Q C_r Q
}

// within is how the rows of groups scatter around these, for one unit of work.
type within struct {
	cov       *mat.SymDense
	precision map[int]*mat.SymDense // of a row by how many rows of the group are its user's, see of
}

// of is the precision of one of so many rows of one user around their group. How much work a run is may be that
// user's habit, which the rows share: together they say as much of it as one row does.
func (w *within) of(rows int) *mat.SymDense {
	if p := w.precision[rows]; p != nil {
		return p
	}
	n := w.cov.SymmetricDim()
	work := 0.0 // variance of the work of a run: what all types share
	for i := range n {
		for j := range n {
			if i != j {
				work += w.cov.At(i, j) / float64(n*(n-1))
			}
		}
	}
	shared, p := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			shared.SetSym(i, j, w.cov.At(i, j)+float64(rows-1)*max(work, 0))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(shared) || chol.InverseTo(p) != nil {
		p.Zero() // cannot be; the row then tells nothing of its group
	}
	w.precision[rows] = p
	return p
}

// prior is the precision of a row around its group, or around the mean.
func (f *fit) prior(r *row) *mat.SymDense {
	if r.group == nil {
		return f.precision
	}
	return f.within[r.key.unit].of(r.group.users[r.key.User])
}

// group brings together the rows of one job name and unit, where there are several.
func (f *fit) group() {
	by := map[subject]*group{}
	for _, r := range f.rows {
		if r.key.Workload != "" {
			continue
		}
		key := subject{r.key.Pooled(), r.key.unit}
		g := by[key]
		if g == nil {
			g = &group{key: key, users: map[string]int{}}
			by[key], f.groups = g, append(f.groups, g)
		}
		g.rows = append(g.rows, r)
		g.users[r.key.User]++
	}
	f.groups = slices.DeleteFunc(f.groups, func(g *group) bool { return len(g.rows) < 2 })
	for _, g := range f.groups {
		g.mean, g.cov = mat.NewVecDense(f.n, nil), mat.NewSymDense(f.n, nil)
		g.step, g.weight = mat.NewVecDense(f.n, nil), mat.NewSymDense(f.n, nil)
		for _, r := range g.rows {
			r.group = g
			g.mean.AddScaledVec(g.mean, 1/float64(len(g.rows)), r.mean)
		}
	}
	for _, unit := range units {
		w := &within{cov: mat.NewSymDense(f.n, nil)}
		f.within[unit] = w
		w.set(mat.NewSymDense(f.n, nil), 0)
	}
}

// set gives the covariance its expectation by the squares of so many rows around their groups, a user's together as one, shrunk towards the
// prior belief.
func (w *within) set(scatter *mat.SymDense, rows float64) {
	n := scatter.SymmetricDim()
	for i := range n {
		for j := i; j < n; j++ {
			prior := workSpread * workSpread
			if i == j {
				prior += ratioSpread * ratioSpread
			}
			w.cov.SetSym(i, j, (priorCount*prior+scatter.At(i, j))/(priorCount+rows))
		}
	}
	w.precision = map[int]*mat.SymDense{}
}

// updateWithin sets how rows scatter around their groups.
func (f *fit) updateWithin() {
	var deviation mat.VecDense
	for _, unit := range units {
		scatter, rows := mat.NewSymDense(f.n, nil), 0.0
		var square mat.SymDense
		for _, r := range f.rows {
			if r.group != nil && r.key.unit == unit {
				part := 1 / float64(r.group.users[r.key.User])
				rows += part
				deviation.SubVec(r.mean, r.group.mean)
				square.SymRankOne(r.cov, 1, &deviation)
				square.ScaleSym(part, &square)
				scatter.AddSym(scatter, &square)
			}
		}
		f.within[unit].set(scatter, rows)
	}
}

// clear forgets what the rows told.
func (g *group) clear() {
	g.weight.Zero()
	g.step.Zero()
}

// add takes in what a row, whose step is its b_r, tells of the group; q is the precision of rows around it.
func (g *group) add(r *row, q *mat.SymDense) {
	var part, known mat.Dense
	var b mat.VecDense
	part.Mul(q, r.cov)
	known.Mul(&part, q)
	g.weight.AddSym(g.weight, q)
	addTo(g.weight, -1, &known)
	b.MulVec(&part, r.step)
	g.step.AddVec(g.step, &b)
}

// posterior sets the group's cov by what its rows told and the precision of groups around the mean.
func (g *group) posterior(prior *mat.SymDense) (ok bool) {
	var sum mat.SymDense
	var chol mat.Cholesky
	sum.AddSym(g.weight, prior)
	return chol.Factorize(&sum) && chol.InverseTo(g.cov) == nil
}

// lesson is what a program of that name is like, of which no run is known.
func (g *group) lesson(w *within) *Lesson {
	l := &Lesson{Program: g.key.Program, Unit: g.key.unit, OnType: make([]int, g.mean.Len()), Mean: g.mean.RawVector().Data}
	var cov mat.SymDense
	cov.AddSym(g.cov, w.cov)
	l.Covariance = triangle(&cov)
	for _, r := range g.rows {
		l.Runs += len(r.observations)
		for i, n := range r.runsOn {
			l.OnType[i] += n
		}
	}
	return l
}
