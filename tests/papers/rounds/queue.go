package rounds

// want is the claim of a job on a type in one round. The larger comes first:
// the priority, then what breaks ties, then the earlier rank.
type want struct {
	first, second, third float64
	job                  *Active
	rank                 int32
}

func (w *want) before(v *want) bool {
	switch {
	case w.first != v.first:
		return w.first > v.first
	case w.second != v.second:
		return w.second > v.second
	case w.third != v.third:
		return w.third > v.third
	}
	return w.rank < v.rank
}

// queue is a heap with the first claim on top. A round takes few of many
// claims, so that a sort would do most of its work for nothing.
type queue []want

func (q queue) heapify() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *queue) pop() *Active {
	h, last := *q, len(*q)-1
	top := h[0].job
	h[0] = h[last]
	*q = h[:last]
	if last > 0 {
		q.down(0)
	}
	return top
}

func (q queue) down(i int) {
	w := q[i]
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1].before(&q[child]) {
			child++
		}
		if !q[child].before(&w) {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = w
}
