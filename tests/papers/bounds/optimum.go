package bounds

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/allocate/lp"
	"slurmprio/priod/size"
	"slurmprio/priod/workload"
)

// Ideal is what Synergy's OPT gives a job. Its parts need not be whole.
type Ideal struct {
	Job   int
	Type  int
	Speed float64 // relative
	CPUs  float64 // for each GPU
	MemMB float64 // for each GPU
	On    []Fraction
}

// Fraction is how much of a job is on a node; a job's add up to 1.
type Fraction struct {
	Node int
	Part float64
}

// ErrUnlike is that OPT, which sees the nodes of a type as one large node, may
// promise what two unlike nodes cannot give.
var ErrUnlike = errors.New("OPT wants all nodes of a GPU type alike, and empty")

// Optimum is Synergy's OPT (OSDI'22, section 4.3), the upper bound of what a
// mechanism can reach in total relative speed with the jobs that it admits, when
// nobody gets less than its least. Nothing can run what it grants: first an
// integer program gives each job a measured point of its curve, the nodes of a
// type as one large node; then a linear program spreads the jobs over the nodes,
// few of them over several. It is for tests: a second is a short time for it.
func Optimum(jobs []size.Job, nodes []size.Node) ([]Ideal, error) {
	byType := byType(nodes)
	for _, on := range byType {
		for _, node := range on {
			if n := &nodes[node]; n.Total != nodes[on[0]].Total || n.Free != n.Total {
				return nil, fmt.Errorf("%w: node %d is not", ErrUnlike, node)
			}
		}
	}
	requests := admitted(jobs, nodes)
	var all []Ideal
	for t := range byType {
		o := optimumOf(t, nodes, byType[t], requests)
		if len(o.kinds) == 0 {
			continue
		}
		if err := o.choose(); err != nil {
			return nil, err
		}
		placed, err := o.place()
		if err != nil {
			return nil, err
		}
		all = append(all, placed...)
	}
	slices.SortFunc(all, func(a, b Ideal) int { return cmp.Compare(a.Job, b.Job) })
	return all, nil
}

// kind are the requests that are alike, with the sizes that each may get.
type kind struct {
	gpus     float64
	requests []int
	sizes    []level
	columns  []int // of the sizes
}

// optimum is the problem of one GPU type. Its columns are the sizes of the
// kinds, and their values how many requests get them.
type optimum struct {
	nodes    []int
	each     size.Amount // of them has
	admitted []request   // on all types
	kinds    []kind
	kindOf   []int   // by column
	sizes    []level // by column
	chosen   []int   // by column
}

// level is a size that some job can use, and its relative speed there.
type level struct {
	point
	speed float64
}

func optimumOf(t int, nodes []size.Node, on []int, admitted []request) *optimum {
	o := &optimum{nodes: on, admitted: admitted}
	if len(o.nodes) == 0 {
		return o
	}
	o.each = nodes[on[0]].Total
	fair := share(o.each)
	type alike struct {
		curve *workload.Curve
		gpus  int
	}
	known := map[alike]int{}
	for i := range admitted {
		r := &admitted[i]
		if r.typ != t {
			continue
		}
		k, old := known[alike{r.curve, r.gpus}]
		if !old {
			k = len(o.kinds)
			known[alike{r.curve, r.gpus}] = k
			n := kind{gpus: float64(r.gpus), sizes: r.sizes(fair)}
			for _, size := range n.sizes {
				n.columns = append(n.columns, len(o.sizes))
				o.sizes, o.kindOf = append(o.sizes, size), append(o.kindOf, k)
			}
			o.kinds = append(o.kinds, n)
		}
		o.kinds[k].requests = append(o.kinds[k].requests, i)
	}
	return o
}

// sizes are a request's least, which comes first, and the points of its curve
// from there to its demand that are faster than all that need no more.
func (r *request) sizes(fair point) []level {
	if !r.known {
		return []level{{fair, 1}}
	}
	least := r.want.min(fair)
	var all []level
	for _, c := range slices.Sorted(slices.Values(axis(r.curve.CPUs, least.cpus, r.want.cpus))) {
		for _, m := range slices.Sorted(slices.Values(axis(r.curve.MemMB, least.mem, r.want.mem))) {
			at := level{point{c, m}, r.curve.Relative(c, m)}
			if !slices.ContainsFunc(all, func(u level) bool { return u.mem <= at.mem && u.speed >= at.speed }) {
				all = append(all, at)
			}
		}
	}
	return all
}

// capacity of all nodes together.
func (o *optimum) capacity() [2]float64 {
	n := float64(len(o.nodes))
	return [2]float64{n * o.each.CPUs, n * o.each.MemMB}
}

// weight is what a request of a column takes of the capacity, as parts of it.
func (o *optimum) weight(column int) [2]float64 {
	all, g, at := o.capacity(), o.kinds[o.kindOf[column]].gpus, o.sizes[column].point
	return [2]float64{ratio(at.cpus*g, all[0]), ratio(at.mem*g, all[1])}
}

// choose is the integer program, by branch and bound.
func (o *optimum) choose() error {
	tree := branching{optimum: o, best: math.Inf(-1)}
	low, high := make([]int, len(o.sizes)), make([]int, len(o.sizes))
	for c := range high {
		high[c] = len(o.kinds[o.kindOf[c]].requests)
	}
	return tree.explore(low, high)
}

type branching struct {
	*optimum
	best  float64 // total speed of what is chosen
	nodes int
}

const (
	whole = 1e-6 // off a whole number
	// gap is by how much a total must be better to be looked for.
	gap = 1e-4
	// patience is how many linear programs may be solved for one choice.
	patience = 20_000
)

// explore solves the relaxation between two bounds and splits where a number of
// requests is not whole.
func (b *branching) explore(low, high []int) error {
	if b.nodes++; b.nodes > patience {
		return errors.New("OPT: too many ways to choose from")
	}
	x, speed, err := b.relax(low, high)
	if err != nil || x == nil || speed < b.best+gap {
		return err
	}
	b.improve(x)
	split, off := -1, whole
	for c, v := range x {
		if d := math.Abs(v - math.Round(v)); d > off {
			split, off = c, d
		}
	}
	if split < 0 {
		return nil
	}
	down, up := slices.Clone(high), slices.Clone(low)
	down[split], up[split] = int(math.Floor(x[split])), int(math.Ceil(x[split]))
	if err := b.explore(up, high); err != nil {
		return err
	}
	return b.explore(low, down)
}

// relax solves the linear program with low <= x <= high; nil: there is no x.
func (b *branching) relax(low, high []int) (x []float64, speed float64, err error) {
	limit := []float64{rounding, rounding} // of CPUs and memory, as parts
	for _, k := range b.kinds {
		limit = append(limit, float64(len(k.requests)))
	}
	columns, fast, missing := make([][]lp.Term, len(b.sizes)), make([]float64, len(b.sizes)), 0.0
	for c := range b.sizes {
		k, w := 2+b.kindOf[c], b.weight(c)
		columns[c] = []lp.Term{{Row: 0, Value: w[0]}, {Row: 1, Value: w[1]}, {Row: k, Value: 1}}
		fast[c] = b.sizes[c].speed
		limit[0] -= w[0] * float64(low[c])
		limit[1] -= w[1] * float64(low[c])
		limit[k] -= float64(low[c])
		speed += b.sizes[c].speed * float64(low[c])
		if high[c] < low[c] || limit[k] < 0 {
			return nil, 0, nil
		}
		if most := float64(high[c] - low[c]); most < limit[k] {
			columns[c] = append(columns[c], lp.Term{Row: len(limit), Value: 1})
			limit = append(limit, most)
		}
	}
	if limit[0] < -whole || limit[1] < -whole {
		return nil, 0, nil
	}
	limit[0], limit[1] = max(0, limit[0]), max(0, limit[1])
	for _, n := range limit[2 : 2+len(b.kinds)] {
		missing += n
	}
	// First every request gets something, then as many as possible something fast.
	program := lp.New(limit, columns)
	placed, err := program.Maximise(slices.Repeat([]float64{1}, len(columns)))
	if err != nil || placed < missing-whole {
		return nil, 0, err
	}
	program.Keep()
	gained, err := program.Maximise(fast)
	if err != nil {
		return nil, 0, err
	}
	x = make([]float64, len(b.sizes))
	for c := range x {
		x[c] = float64(low[c]) + program.Value(c)
	}
	return x, speed + gained, nil
}

// improve keeps a whole choice near x when it is better than the best so far:
// x rounded down, then the requests that are left out one by one, each with the
// fastest size for which the others still get their least.
func (b *branching) improve(x []float64) {
	chosen := make([]int, len(x))
	left := [2]float64{rounding, rounding}
	missing := make([]int, len(b.kinds))
	for k := range b.kinds {
		missing[k] = len(b.kinds[k].requests)
	}
	take := func(c, n int) {
		w := b.weight(c)
		chosen[c] += n
		missing[b.kindOf[c]] -= n
		left[0] -= w[0] * float64(n)
		left[1] -= w[1] * float64(n)
	}
	for c, v := range x {
		take(c, int(math.Floor(v+whole)))
	}
	var needed [2]float64
	for k, n := range missing {
		w := b.weight(b.kinds[k].columns[0])
		needed[0] += w[0] * float64(n)
		needed[1] += w[1] * float64(n)
	}
	for k := range missing {
		for missing[k] > 0 {
			least := b.weight(b.kinds[k].columns[0])
			best := -1
			for _, c := range b.kinds[k].columns {
				w := b.weight(c)
				if needed[0]-least[0]+w[0] <= left[0] && needed[1]-least[1]+w[1] <= left[1] && (best < 0 || b.sizes[c].speed > b.sizes[best].speed) {
					best = c
				}
			}
			if best < 0 {
				return
			}
			take(best, 1)
			needed[0] -= least[0]
			needed[1] -= least[1]
		}
	}
	speed := 0.0
	for c, n := range chosen {
		speed += b.sizes[c].speed * float64(n)
	}
	if speed > b.best {
		b.best, b.chosen = speed, chosen
	}
}

// before sorts columns by kind, the fastest of each first.
func (o *optimum) before(a, b int) int {
	return cmp.Or(o.kindOf[a]-o.kindOf[b], cmp.Compare(o.sizes[b].speed, o.sizes[a].speed))
}

// place spreads what was chosen over the nodes: a basic solution of the linear
// program in which no node gives more than it has and every request is placed.
// It has few numbers that are not whole, and so few jobs on several nodes.
func (o *optimum) place() ([]Ideal, error) {
	var used []int // columns, of each kind the fastest first: for those that stand first
	for c, n := range o.chosen {
		if n > 0 {
			used = append(used, c)
		}
	}
	slices.SortStableFunc(used, o.before)
	limit, spread := make([]float64, 3*len(o.nodes)), [][]lp.Term{}
	for i := range limit {
		limit[i] = rounding
	}
	for _, c := range used {
		g, at := o.kinds[o.kindOf[c]].gpus, o.sizes[c].point
		need := [3]float64{ratio(g, float64(o.each.GPUs)), ratio(at.cpus*g, o.each.CPUs), ratio(at.mem*g, o.each.MemMB)}
		for node := range o.nodes {
			spread = append(spread, []lp.Term{{Row: len(limit), Value: 1}, {Row: 3 * node, Value: need[0]}, {Row: 3*node + 1, Value: need[1]}, {Row: 3*node + 2, Value: need[2]}})
		}
		limit = append(limit, float64(o.chosen[c]))
	}
	program := lp.New(limit, spread)
	if _, err := program.Maximise(slices.Repeat([]float64{1}, len(spread))); err != nil {
		return nil, err
	}
	var all []Ideal
	next := make([]int, len(o.kinds)) // of its requests
	for i, c := range used {
		k := o.kindOf[c]
		from := len(all)
		for range o.chosen[c] {
			r := &o.admitted[o.kinds[k].requests[next[k]]]
			next[k]++
			all = append(all, Ideal{Job: r.job, Type: r.typ, Speed: o.sizes[c].speed, CPUs: o.sizes[c].cpus, MemMB: o.sizes[c].mem})
		}
		amounts := make([]float64, len(o.nodes))
		for n := range amounts {
			amounts[n] = program.Value(i*len(o.nodes) + n)
		}
		if !o.deal(all[from:], amounts) {
			return nil, lp.ErrNumeric
		}
	}
	return all, nil
}

// deal puts jobs that are alike on nodes that take so many of them: whole ones
// as far as it goes, then the rest in pieces.
func (o *optimum) deal(jobs []Ideal, amounts []float64) bool {
	for n := range amounts {
		for ; amounts[n] > 1-whole && len(jobs) > 0; amounts[n]-- {
			jobs[0].On, jobs = []Fraction{{o.nodes[n], 1}}, jobs[1:]
		}
	}
	missing := 1.0 // of the first job
	for n, left := range amounts {
		for left > whole && len(jobs) > 0 {
			part := min(left, missing)
			if missing-part < whole {
				part = missing
			}
			jobs[0].On = append(jobs[0].On, Fraction{o.nodes[n], part})
			left -= part
			if missing -= part; missing == 0 {
				jobs, missing = jobs[1:], 1
			}
		}
	}
	return len(jobs) == 0
}
