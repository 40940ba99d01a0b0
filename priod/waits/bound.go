package waits

import (
	"slices"
	"time"

	"slurmprio/priod/plan"
)

// A job that never starts may wait for another cause in each cycle. Beyond mostSpans all spans
// of its wait but the last ones are summed up by cause and What, over as short times as leave
// half of them.
const (
	mostSpans = 64
	lastSpans = 12 // as many as explain shows
)

// sumTimes are the times over which spans are summed up, each a multiple of the one before;
// 0: over all.
var sumTimes = []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 0}

// bound sums up the older spans of a wait that has many. They still follow each other without
// a gap, so that all of them together are the wait, each cause has its sum, and the time since
// which the job wants room alone is the same; only which came when within such a time is lost.
func bound(w *plan.Wait) {
	if len(w.Spans) <= mostSpans {
		return
	}
	var summed []plan.WaitSpan
	for _, over := range sumTimes {
		if summed = sumUp(w, over); len(summed) <= mostSpans/2 {
			break
		}
	}
	w.Spans = summed
}

// sumUp are the spans of a wait with the older ones summed up over times of such a length.
func sumUp(w *plan.Wait, over time.Duration) (all []plan.WaitSpan) {
	room, until := w.RoomSince(), len(w.Spans)-lastSpans
	for i := 0; i < until; {
		first, n := w.Spans[i].From, i+1
		for ; n < until; n++ {
			from := w.Spans[n].From
			if from.Before(room) != first.Before(room) || over > 0 && !from.Truncate(over).Equal(first.Truncate(over)) {
				break
			}
		}
		all = append(all, sumOf(w, i, n)...)
		i = n
	}
	return append(all, w.Spans[until:]...)
}

// sumOf are the spans from i to n, one for each cause and What: those for room first, so that
// the last one before the job wanted room alone still stands there.
func sumOf(w *plan.Wait, i, n int) []plan.WaitSpan {
	var all []plan.WaitSpan
	var lengths []time.Duration
	for _, forRoom := range []bool{true, false} {
		for k := i; k < n; k++ {
			s := &w.Spans[k]
			if s.Cause.ForRoom() != forRoom {
				continue
			}
			at := slices.IndexFunc(all, func(x plan.WaitSpan) bool { return x.Cause == s.Cause && x.What == s.What })
			if at < 0 {
				at, lengths = len(all), append(lengths, 0)
				all = append(all, plan.WaitSpan{Cause: s.Cause, What: s.What, Words: plan.SummedUp})
			}
			lengths[at] += w.Length(k)
		}
	}
	if len(all) == n-i {
		return w.Spans[i:n]
	}
	from := w.Spans[i].From
	for k := range all {
		all[k].From = from
		from = from.Add(lengths[k])
	}
	return all
}
