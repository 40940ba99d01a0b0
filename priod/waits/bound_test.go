package waits

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// part is a span as it came, with nothing summed up.
type part struct {
	from  time.Time
	cause plan.Cause
	what  string
}

// However often the cause of a wait changes, it keeps few spans; they follow each other from
// its beginning to its end, the sums by cause and What are those of all that came, so is the
// time since which it wants room alone, and the last ones stand as they came.
func TestManySpansAreSummedUp(t *testing.T) {
	room := []plan.Cause{plan.Capacity, plan.Fragmentation, plan.Locality, plan.Precedence}
	all := append(slices.Clone(room), plan.HeldBack, plan.AtLimit, plan.ByOther)
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		e := newEntry(&cluster.Job{ID: slurmplug.Plain(1), GPUs: 1}, noon)
		e.turn(noon, plan.NotObserved, "", "", nil)
		came, at := []part{{noon, plan.NotObserved, ""}}, noon
		for range number("phases", 1, 8) {
			causes := rapid.SampledFrom([][]plan.Cause{all, room, all[2:6]}).Draw(t, "causes")
			whats := rapid.SampledFrom([]int{1, 2, 20}).Draw(t, "whats")
			longest := rapid.SampledFrom([]int{30, 600, 7200, 200_000}).Draw(t, "longest")
			for range number("turns", 1, 100) {
				at = at.Add(time.Duration(number("length", 1, longest)) * time.Second)
				p := part{at, rapid.SampledFrom(causes).Draw(t, "cause"), fmt.Sprint(number("what", 1, whats))}
				if e.turn(at, p.cause, p.what, "words", nil) {
					came = append(came, p)
				}
				e.wait.Until = at
			}
			e.wait.Until = at.Add(time.Duration(number("length", 0, longest)) * time.Second)
			checkSums(t, e.wait, came)
			at = e.wait.Until
		}
	})
}

func checkSums(t *rapid.T, w *plan.Wait, came []part) {
	check(t, w)
	type pair struct {
		cause plan.Cause
		what  string
	}
	want, got, room, alone := map[pair]time.Duration{}, map[pair]time.Duration{}, w.Until, true
	for i, p := range slices.Backward(came) {
		until := w.Until
		if i+1 < len(came) {
			until = came[i+1].from
		}
		want[pair{p.cause, p.what}] += until.Sub(p.from)
		if alone = alone && p.cause.ForRoom(); alone {
			room = p.from
		}
	}
	for i, s := range w.Spans {
		got[pair{s.Cause, s.What}] += w.Length(i)
	}
	for p, d := range want {
		if got[p] != d {
			t.Errorf("%s %s: %v in all, want %v", p.cause, p.what, got[p], d)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d pairs, want %d", len(got), len(want))
	}
	if !w.RoomSince().Equal(room) {
		t.Errorf("it wants room alone since %v, want %v", w.RoomSince(), room)
	}
	if most := max(mostSpans, 2*len(want)+lastSpans+1); len(w.Spans) > most {
		t.Errorf("%d spans, want %d at most", len(w.Spans), most)
	}
	for k := 1; k <= min(lastSpans, len(came)); k++ {
		s, p := w.Spans[len(w.Spans)-k], came[len(came)-k]
		if !s.From.Equal(p.from) || s.Cause != p.cause || s.What != p.what || p.what != "" && s.Words != "words" {
			t.Errorf("the last but %d is %+v, want %+v", k-1, s, p)
		}
	}
}

// A wait of half an hour for each of two causes in turns has its older parts by the day, so
// that a report of the last days is right.
func TestSumsGoByTheDay(t *testing.T) {
	from := noon.Truncate(24 * time.Hour)
	e := newEntry(&cluster.Job{ID: slurmplug.Plain(1), GPUs: 1}, from)
	for i := range 48 * 4 {
		e.turn(from.Add(time.Duration(i)*30*time.Minute), []plan.Cause{plan.Capacity, plan.AtLimit}[i%2], "", "words", nil)
	}
	e.wait.Until = from.Add(4 * 24 * time.Hour)
	check(t, e.wait)
	for day := range 4 {
		until, before := from.Add(time.Duration(day+1)*24*time.Hour), map[plan.Cause]time.Duration{}
		for i, s := range e.wait.Spans {
			if s.From.Before(until) {
				before[s.Cause] += e.wait.Length(i)
			}
		}
		if want := until.Sub(from) / 2; before[plan.Capacity] != want || before[plan.AtLimit] != want {
			t.Errorf("until the end of day %d: %v, want %v of each", day, before, want)
		}
	}
}
