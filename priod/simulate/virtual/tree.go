package virtual

// key is a place in an order: lower first.
type key struct {
	tier int32   // of its partition, then TE before BE where the options say so
	rank float64 // what the order goes by
	seq  int64   // ties: first come
}

func (k key) less(o key) bool {
	if k.tier != o.tier {
		return k.tier < o.tier
	}
	if k.rank != o.rank {
		return k.rank < o.rank
	}
	return k.seq < o.seq
}

// tree is a treap of jobs in the order of their keys. It knows the shortest occupancy and the least memory of every subtree.
// Its links stand in the jobs, so a job is in one tree at a time.
type tree struct{ root *job }

// links are a job's part of a tree.
type links struct {
	key         key
	left, right *job
	height      uint32  // random, but the same in every run
	lowest      float64 // shortest occupancy of the subtree
	least       int64   // least memory asked for in the subtree, MB
}

func (j *job) tally() {
	j.lowest, j.least = j.occupancy, j.request.MemMB
	for _, child := range [2]*job{j.left, j.right} {
		if child != nil {
			j.lowest = min(j.lowest, child.lowest)
			j.least = min(j.least, child.least)
		}
	}
}

func (t *tree) insert(j *job) {
	j.left, j.right = nil, nil
	t.root = insert(t.root, j)
}

func insert(n, j *job) *job {
	switch {
	case n == nil || j.height > n.height:
		j.left, j.right = split(n, j.key)
		j.tally()
		return j
	case j.key.less(n.key):
		n.left = insert(n.left, j)
	default:
		n.right = insert(n.right, j)
	}
	n.tally()
	return n
}

// split divides a subtree into what comes before k and the rest.
func split(n *job, k key) (before, rest *job) {
	if n == nil {
		return nil, nil
	}
	if n.key.less(k) {
		n.right, rest = split(n.right, k)
		n.tally()
		return n, rest
	}
	before, n.left = split(n.left, k)
	n.tally()
	return before, n
}

func merge(a, b *job) *job {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.height > b.height:
		a.right = merge(a.right, b)
		a.tally()
		return a
	}
	b.left = merge(a, b.left)
	b.tally()
	return b
}

func (t *tree) remove(j *job) {
	t.root = remove(t.root, j)
	j.left, j.right = nil, nil
}

func remove(n, j *job) *job {
	switch {
	case n == j:
		return merge(n.left, n.right)
	case j.key.less(n.key):
		n.left = remove(n.left, j)
	default:
		n.right = remove(n.right, j)
	}
	n.tally()
	return n
}

func (t *tree) first() *job {
	n := t.root
	for n != nil && n.left != nil {
		n = n.left
	}
	return n
}

// after is the first job whose rank is larger.
func (t *tree) after(rank float64) (next *job) {
	for n := t.root; n != nil; {
		if n.key.rank > rank {
			next, n = n, n.left
		} else {
			n = n.right
		}
	}
	return next
}

// find is the first job that may start, by its occupancy and memory. What may not start may not with more of either.
func (t *tree) find(may func(occupancy float64, memMB int64) bool) *job { return find(t.root, may) }

func find(n *job, may func(float64, int64) bool) *job {
	if n == nil || !may(n.lowest, n.least) {
		return nil
	}
	if j := find(n.left, may); j != nil {
		return j
	}
	if may(n.occupancy, n.request.MemMB) {
		return n
	}
	return find(n.right, may)
}

// all goes through the jobs in order; the tree must not change meanwhile.
func (t *tree) all(yield func(*job) bool) { walk(t.root, yield) }

func walk(n *job, yield func(*job) bool) bool {
	return n == nil || walk(n.left, yield) && yield(n) && walk(n.right, yield)
}
