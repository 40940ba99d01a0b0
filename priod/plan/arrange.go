package plan

import (
	"cmp"
	"slices"
)

// Band is where values may lie, both ends included, and how far apart the
// values of two neighbouring tiers must at least be.
type Band struct {
	Lo, Hi, Step int64
}

// Capacity is how many tiers fit into the band.
func (b Band) Capacity() int {
	if b.Step <= 0 || b.Hi < b.Lo {
		return 0
	}
	return int((b.Hi-b.Lo)/b.Step) + 1
}

// Tier is a set of jobs that share one value: the values that they hold now.
// Jobs without a known value are left out; they are written in any case.
type Tier []int64

// Arrange gives each tier one value inside the band, the first tier the
// highest, neighbours at least a step apart, so that as many jobs as possible
// keep the value that they hold: no other choice needs fewer writes. It needs
// at most Capacity tiers. renumbered counts the jobs that hold a value in the
// right order and must give it up all the same, because a gap is used up.
//
// With u = value + rank*step the demand "at least a step apart" becomes "u
// never rises", and the band becomes one range for all u. The jobs that keep
// their value are then a heaviest non-increasing subsequence of u.
func Arrange(tiers []Tier, b Band) (values []int64, renumbered int) {
	n := len(tiers)
	if n == 0 {
		return nil, 0
	}
	lowest := b.Lo + int64(n-1)*b.Step
	spaced := candidates(tiers, func(rank int, v int64) (int64, bool) {
		u := v + int64(rank)*b.Step
		return u, u >= lowest && u <= b.Hi
	})
	kept, weight := heaviest(spaced)
	values = make([]int64, n)
	fixed := make([]bool, n)
	for _, c := range kept {
		values[c.tier], fixed[c.tier] = c.u-int64(c.tier)*b.Step, true
	}
	fill(values, fixed, b)

	// Without the gaps' demand: values strictly falling, that is value+rank
	// never rising.
	_, free := heaviest(candidates(tiers, func(rank int, v int64) (int64, bool) {
		return v + int64(rank), v >= b.Lo && v <= b.Hi
	}))
	return values, free - weight
}

// candidate is a value that some jobs of a tier hold and could keep.
type candidate struct {
	tier   int
	u      int64
	weight int
}

// candidates lists the distinct values of each tier after mapping, tier by
// tier and rising within a tier, so that no two of one tier form a chain.
func candidates(tiers []Tier, mapped func(rank int, v int64) (int64, bool)) []candidate {
	most := 0
	for _, t := range tiers {
		most += len(t)
	}
	all := make([]candidate, 0, most)
	for rank, t := range tiers {
		first := len(all)
		for _, v := range t {
			if u, ok := mapped(rank, v); ok {
				all = append(all, candidate{rank, u, 1})
			}
		}
		own := all[first:]
		slices.SortFunc(own, func(a, b candidate) int { return cmp.Compare(a.u, b.u) })
		merged := own[:0]
		for _, c := range own {
			if k := len(merged); k > 0 && merged[k-1].u == c.u {
				merged[k-1].weight++
			} else {
				merged = append(merged, c)
			}
		}
		all = all[:first+len(merged)]
	}
	return all
}

// heaviest returns the heaviest chain whose u never rises, and its weight. It
// takes O(k log k): a Fenwick tree over u keeps the best chain ending at or
// above each u. Among equals the chain found first stays.
func heaviest(all []candidate) (chain []candidate, weight int) {
	us := make([]int64, len(all))
	for i, c := range all {
		us[i] = c.u
	}
	slices.Sort(us)
	us = slices.Compact(us)
	type end struct{ weight, at int } // at is 1 + index into all
	tree := make([]end, len(us)+1)
	before := make([]int, len(all))
	best := end{}
	for i, c := range all {
		k, _ := slices.BinarySearch(us, c.u)
		k = len(us) - k // falling u has rising k
		from := end{}
		for x := k; x > 0; x -= x & -x {
			if tree[x].weight > from.weight {
				from = tree[x]
			}
		}
		before[i] = from.at
		e := end{from.weight + c.weight, i + 1}
		for x := k; x < len(tree); x += x & -x {
			if e.weight > tree[x].weight {
				tree[x] = e
			}
		}
		if e.weight > best.weight {
			best = e
		}
	}
	for at := best.at; at > 0; at = before[at-1] {
		chain = append(chain, all[at-1])
	}
	slices.Reverse(chain)
	return chain, best.weight
}

// fill gives values to the tiers between the fixed ones. Newcomers at either
// end stay close to their neighbour, because more will come behind them;
// newcomers between two fixed tiers share the gap evenly.
func fill(values []int64, fixed []bool, b Band) {
	n := len(values)
	for i := 0; i < n; {
		if fixed[i] {
			i++
			continue
		}
		end := i
		for end < n && !fixed[end] {
			end++
		}
		m := int64(end - i)
		above, below := b.Hi+b.Step, b.Lo-b.Step
		if i > 0 {
			above = values[i-1]
		}
		if end < n {
			below = values[end]
		}
		steps := (above - below) / b.Step // at least m+1, by the choice of u
		stride := max(1, steps/(2*(m+int64(n))+1))
		for k := int64(1); k <= m; k++ {
			at := &values[i+int(k)-1]
			switch {
			case i > 0 && end < n:
				*at = above - b.Step*(k*steps/(m+1))
			case end < n:
				*at = below + b.Step*stride*(m+1-k)
			default:
				*at = above - b.Step*stride*k
			}
		}
		i = end
	}
}
