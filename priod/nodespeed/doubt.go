package nodespeed

import (
	"math"
	"slices"
	"sort"
)

// part is one group's part in a comparison: so many runs of the node, so many of
// others, and the pairs in which the node's run is slower by more than Margin.
type part struct{ own, others, pairs int }

// compare counts pairs. all holds the logs of the group, sorted; own those of the node among them; counted those of own that count.
func compare(all, own, counted []float64) part {
	p := part{own: len(counted), others: len(all) - len(own)}
	if p.own == 0 || p.others == 0 {
		return p
	}
	slices.Sort(own)
	for _, y := range counted {
		y -= math.Log1p(Margin)
		p.pairs += sort.SearchFloat64s(all, y) - sort.SearchFloat64s(own, y)
	}
	return p
}

// bound is Chernoff's bound on the log of how likely it is, among runs in any order, that
// the weighted pairs sum to what they do or more:
//
//	log P(S >= s) <= min over t > 0 of  log E exp(t S) - t s
//
// Of k runs among m others the pairs U have E exp(u U) = prod over i = 1 .. k of
// i (exp(u (m+i)) - 1) / ((m+i) (exp(u i) - 1)), after Mann & Whitney's recursion: the
// Gaussian binomial coefficient. Any t gives a bound; those tried are powers of the root
// of 2. which tells the parts that count; nil: all.
func bound(parts []part, which func(int) bool) float64 {
	sum, mean := 0.0, 0.0
	for i, p := range parts {
		if which == nil || which(i) {
			sum += float64(p.pairs) * p.weight()
			mean += float64(p.own*p.others) * p.weight() / 2
		}
	}
	best := 0.0
	if sum <= mean {
		return best
	}
	for e := -4; e <= 40; e++ {
		t := math.Pow(2, float64(e)/2)
		log := -t * sum
		for i, p := range parts {
			if which == nil || which(i) {
				log += p.logMGF(t * p.weight())
			}
		}
		if log > best { // it is convex in t
			break
		}
		best = log
	}
	return best
}

func (p part) weight() float64 { return 1 / float64(p.own+p.others+1) }

// logMGF is log E exp(u U).
func (p part) logMGF(u float64) (log float64) {
	for i := 1; i <= p.own; i++ {
		k, n := float64(i), float64(p.others+i)
		log += math.Log(k/n) + logExpm1(u*n) - logExpm1(u*k)
	}
	return log
}

// logExpm1 is log(exp(x) - 1).
func logExpm1(x float64) float64 {
	if x > 40 {
		return x
	}
	return math.Log(math.Expm1(x))
}

// median is that of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// within is which of n sorted values, counted from 0 and from both ends, enclose the
// median in 19 cases of 20 at least, by the sign test; -1: too few.
func within(n int) int {
	below, log := 0.0, -float64(n)*math.Ln2 // of the binomial distribution
	for k := range n {
		below += math.Exp(log)
		if below > 0.025 {
			return k - 1
		}
		log += math.Log(float64(n-k) / float64(k+1))
	}
	return -1
}
