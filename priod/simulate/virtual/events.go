package virtual

// kind is what happens. Of one moment, what frees comes before what asks.
type kind uint8

const (
	scheduled  kind = iota // Slurm's main scheduler runs, and knows of nothing else of this moment: a trace has whole seconds
	filled                 // its backfill does
	ended                  // a run is over
	left                   // an evicted job has left
	freed                  // the epilog is over
	repaired               // a node is back that failed by chance
	returned               // an outage of Options.NodeEvents ends
	failed                 // a node goes down by chance
	befell                 // an event of Options.NodeEvents begins
	announced              // one is announced
	unreserved             // a reservation ends
	requeued               // a job may run again
	arrived                // a job is submitted
	calculate              // Slurm computes priorities
	cycled                 // priod's turn
	tended                 // priod looks at evictions under way
	called                 // a TE submission wakes priod
	relaxed                // a job has waited for few switches as long as it may
)

// event is something that will happen, unless the job's epoch is over by then.
type event struct {
	at    float64
	kind  kind
	seq   int64
	job   *job
	epoch int32
	node  int32  // of befell and announced: the index of the event
	why   outage // of returned
}

func (e event) before(o event) bool {
	switch {
	case e.at != o.at:
		return e.at < o.at
	case e.kind != o.kind:
		return e.kind < o.kind
	}
	return e.seq < o.seq
}

// agenda is a binary heap of events.
type agenda struct {
	heap []event
	seq  int64
}

func (a *agenda) push(e event) {
	a.seq++
	e.seq = a.seq
	h := append(a.heap, e)
	i := len(h) - 1
	for i > 0 && e.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = e
	a.heap = h
}

func (a *agenda) pop() event {
	h := a.heap
	top, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	a.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return top
}
