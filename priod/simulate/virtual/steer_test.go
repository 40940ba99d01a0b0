package virtual

import (
	"context"
	"errors"
	"slices"
	"testing"

	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// steeredStarts runs jobs of 100 s on one fast and one slow GPU; steer is asked
// as the options say.
func steeredStarts(t *testing.T, every float64, steer func(*System) error) (starts []float64, types []int32) {
	t.Helper()
	c, err := trace.ParseNodes([]string{"1:fast:1", "1:slow:1"})
	if err != nil {
		t.Fatal(err)
	}
	var jobs []trace.Job
	for _, id := range []string{"a", "b", "c"} {
		jobs = append(jobs, trace.Job{ID: id, Submit: 1, GPUs: 1, Duration: 100})
	}
	r, err := Run(context.Background(), c, func(yield func(trace.Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
	}, Options{Placement: placement.Packed, Backfill: EASY, Steer: steer, SteerEvery: every})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Outcomes {
		starts, types = append(starts, o.Start), append(types, o.Type)
	}
	return starts, types
}

// A bound job waits for its type though another is free, keeps others from
// nothing, and ranks go before turns.
func TestBind(t *testing.T) {
	starts, types := steeredStarts(t, 0, func(s *System) error {
		for w := range s.Waiting() {
			rank := map[string]float64{"a": 2, "b": 1, "c": 3}[w.Job.ID]
			if w.Job.ID == "c" {
				s.Bind(&w, Open, rank)
			} else {
				s.Bind(&w, 0, rank)
			}
			s.Bind(&w, 7, 0) // no such type: refused
		}
		return nil
	})
	if want := []float64{101, 1, 1}; !slices.Equal(starts, want) || !slices.Equal(types, []int32{0, 0, 1}) {
		t.Errorf("starts %v on %v, want %v: b, then a on the first type, c on the other", starts, types, want)
	}
}

// A binding is taken back.
func TestUnbind(t *testing.T) {
	asked := 0
	starts, _ := steeredStarts(t, 10, func(s *System) error {
		asked++
		for w := range s.Waiting() {
			s.Bind(&w, 0, 0)
			if s.Now() >= 110 {
				s.Bind(&w, Open, 0)
			}
		}
		return nil
	})
	// Nobody is steered at 1 s: the first two start at once. The last is bound at
	// 10 s, and the fast GPU takes it at 101 s.
	if want := []float64{1, 1, 101}; !slices.Equal(starts, want) || asked != 1 {
		t.Errorf("starts %v, want %v; asked %d times", starts, want, asked)
	}
}

func TestSteeringFails(t *testing.T) {
	c, _ := trace.ParseNodes([]string{"1:fast:1"})
	broken := errors.New("no prices")
	for _, every := range []float64{0, 10} {
		_, err := Run(context.Background(), c, func(yield func(trace.Job, error) bool) {
			_ = yield(trace.Job{ID: "a", GPUs: 1, Duration: 100}, nil) && yield(trace.Job{ID: "b", GPUs: 1, Duration: 100}, nil)
		}, Options{Steer: func(*System) error { return broken }, SteerEvery: every})
		if !errors.Is(err, broken) {
			t.Errorf("every %v s: %v", every, err)
		}
	}
}
