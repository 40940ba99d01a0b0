package rounds

// want is the claim of a job on a type in one round.
type want struct {
	priority float64 // what it should have over what it has received
	deficit  float64
	tie      float64
	job      *Active
	rank     int
}

func (w *want) before(v *want) bool {
	switch {
	case w.priority != v.priority:
		return w.priority > v.priority
	case w.deficit != v.deficit:
		return w.deficit > v.deficit
	case w.tie != v.tie:
		return w.tie > v.tie
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
