package rounds

import (
	"cmp"
	"fmt"
	"slices"
)

// Order is the policy that says who comes first.
type Order int

const (
	FIFO Order = iota // by submission
	SJF               // least work first
	SRTF              // least work left first
	LAS               // least GPU time received first
	FTF               // largest slowdown, as it would be at the job's end, first (Themis)
)

var orders = []string{"fifo", "sjf", "srtf", "las", "ftf"}

func (o Order) String() string { return orders[o] }

// ParseOrder reads the name of an order.
func ParseOrder(name string) (Order, error) {
	if i := slices.Index(orders, name); i >= 0 {
		return Order(i), nil
	}
	return 0, fmt.Errorf("order %q: want one of %v", name, orders)
}

// orderer keeps jobs sorted from round to round. Only what moved is sorted anew
// and merged into the rest.
type orderer struct {
	by       Order
	smallest bool                  // FTF: the smallest slowdown first
	speedup  func(*Active) float64 // the best that a job can get over Speed; nil: none
	moved    []*Active
	merged   []*Active
}

// key is ascending: the smallest comes first. Work is in seconds on the job's
// fastest type.
func (o *orderer) key(a *Active, now float64) float64 {
	switch o.by {
	case SJF:
		return a.best * a.work
	case SRTF:
		return o.remaining(a)
	case LAS:
		return a.Ran * float64(a.Job.GPUs)
	case FTF:
		slowdown := (now - a.Job.Submit + o.remaining(a)) / (a.best * a.work)
		if o.smallest {
			return slowdown
		}
		return -slowdown
	}
	return 0
}

func (o *orderer) remaining(a *Active) float64 {
	left := a.best * a.Left()
	if o.speedup != nil {
		left /= o.speedup(a)
	}
	return left
}

// compare orders by starvation, key, submission and the last order, so that the
// sort is stable.
func compare(a, b *Active) int {
	switch {
	case a.starving != b.starving:
		if a.starving {
			return -1
		}
		return 1
	case a.key != b.key:
		return cmp.Compare(a.key, b.key)
	case a.Job.Submit != b.Job.Submit:
		return cmp.Compare(a.Job.Submit, b.Job.Submit)
	}
	return a.pos - b.pos
}

// sort brings jobs, which stood in order but for those that moved, in order.
func (o *orderer) sort(jobs []*Active, now float64) []*Active {
	if o.by == FIFO {
		return jobs // they arrive in order
	}
	o.moved, o.merged = o.moved[:0], o.merged[:0]
	rest := jobs[:0]
	for i, a := range jobs {
		a.pos = i
		if a.moved || o.by == FTF {
			a.moved, a.key = false, o.key(a, now)
			o.moved = append(o.moved, a)
		} else {
			rest = append(rest, a)
		}
	}
	slices.SortFunc(o.moved, compare)
	i := 0
	for _, a := range o.moved {
		for i < len(rest) && compare(rest[i], a) < 0 {
			o.merged = append(o.merged, rest[i])
			i++
		}
		o.merged = append(o.merged, a)
	}
	o.merged = append(o.merged, rest[i:]...)
	return append(jobs[:0], o.merged...)
}
