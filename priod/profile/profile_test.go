package profile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/profile/curve"
)

// fake is a cluster with one program in the time of synctest.
type fake struct {
	waits    time.Duration // before a job begins
	ends     time.Duration // after which a running job ends, 0: never
	submit   error
	state    error // from the moment down on
	down     time.Duration
	deaf     int // how often Cancel fails
	program  func(ctx context.Context, cpus int, line func(string)) error
	begun    time.Time
	queue    map[string]time.Time
	cancels  int
	measured []int
}

func (f *fake) Submit(_ context.Context, r Request) (string, error) {
	if f.submit != nil {
		return "", f.submit
	}
	if f.queue == nil {
		f.queue, f.begun = map[string]time.Time{}, time.Now()
	}
	id := fmt.Sprint(len(f.queue) + 1)
	f.queue[id] = time.Now()
	return id, nil
}

func (f *fake) State(_ context.Context, job string) (State, error) {
	since := time.Since(f.queue[job])
	switch {
	case f.state != nil && time.Since(f.begun) >= f.down:
		return State{}, f.state
	case since < f.waits:
		return State{Name: "PENDING", Reason: "Resources"}, nil
	case f.ends > 0 && since >= f.ends:
		return State{Ended: true, Name: "NODE_FAIL"}, nil
	}
	return State{Running: true, Name: "RUNNING", MemMB: 16000}, nil
}

func (f *fake) Run(ctx context.Context, job string, cpus int, line func(string)) error {
	f.measured = append(f.measured, cpus)
	if f.ends > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, f.queue[job].Add(f.ends))
		defer stop()
	}
	err := f.program(ctx, cpus, line)
	if f.ends > 0 && time.Since(f.queue[job]) >= f.ends {
		return &ExitError{137}
	}
	return err
}

func (f *fake) Cancel(_ context.Context, job string) error {
	if f.cancels++; f.cancels <= f.deaf {
		return errors.New("no answer")
	}
	delete(f.queue, job)
	return nil
}

// training reports a step as often as speed says; in the first seconds of a run
// at half the speed.
func training(speed func(cpus int) float64) func(context.Context, int, func(string)) error {
	return func(ctx context.Context, cpus int, line func(string)) error {
		for step := 0; ; step++ {
			line(fmt.Sprintf("step %d", step))
			pause := time.Duration(float64(time.Second) / speed(cpus))
			if float64(step) < 5*speed(cpus) {
				pause *= 2
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
	}
}

func settings() Settings {
	return Settings{GPUs: 1, Pattern: regexp.MustCompile(`step (\d+)`), Window: curve.Window{Warmup: 10 * time.Second, Measure: 20 * time.Second},
		Patience: 2 * time.Minute, Budget: 30 * time.Minute, Wait: 10 * time.Minute}
}

func alexnet(cpus int) float64 {
	return 2 * curve.Rate([]curve.Point{{CPUs: 1, Rate: .3}, {CPUs: 2, Rate: .66}, {CPUs: 3, Rate: 1}, {CPUs: 6, Rate: 1.75}, {CPUs: 12, Rate: 2.94}}, float64(cpus))
}

var a100 = Type{Name: "a100", Share: 3, ShareMB: 64000, Candidates: []int{1, 2, 3, 6, 12, 24}}

func TestProfileOfATraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{waits: time.Minute, program: training(alexnet)}
		heard := 0
		set := settings()
		set.Seen = func(Progress) { heard++ }
		results, errs := Run(t.Context(), f, []Type{a100}, set)
		if errs[0] != nil || len(f.queue) > 0 {
			t.Fatalf("error %v, queue %v", errs[0], f.queue)
		}
		r := results[0]
		if got := f.measured; !slices.Equal(got[:4], []int{24, 24, 3, 1}) || r.MemMB != 16000 || r.Stopped || len(r.Unsteady) > 0 || heard == 0 {
			t.Errorf("measured %v: %+v", got, r)
		}
		for _, p := range r.Measured {
			if want := alexnet(p.CPUs); math.Abs(p.Rate-want) > 0.01*want {
				t.Errorf("%d CPUs: %v steps a second, want %v", p.CPUs, p.Rate, want)
			}
		}
	})
}

func TestBudgetEndsAProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := settings()
		set.Budget = 3 * time.Minute
		f := &fake{program: training(alexnet)}
		results, errs := Run(t.Context(), f, []Type{a100}, set)
		if r := results[0]; errs[0] != nil || !r.Stopped || len(r.Measured) < 2 || len(r.Measured) > 4 {
			t.Errorf("%+v, %v", r, errs[0])
		}
		set.Budget = time.Minute
		if _, errs = Run(t.Context(), f, []Type{a100}, set); errs[0] == nil || !strings.Contains(errs[0].Error(), "raise --budget") {
			t.Errorf("error %v", errs[0])
		}
		if len(f.queue) > 0 {
			t.Errorf("queue %v", f.queue)
		}
	})
}

// Whatever goes wrong: one error that says what, and nothing in the queue.
func TestEveryTrouble(t *testing.T) {
	says := func(text string, every time.Duration) func(context.Context, int, func(string)) error {
		return func(ctx context.Context, _ int, line func(string)) error {
			for {
				line(text)
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(every):
				}
			}
		}
	}
	ends := func(after time.Duration, err error) func(context.Context, int, func(string)) error {
		return func(ctx context.Context, _ int, line func(string)) error {
			line("step 1")
			line("Traceback: no such\x1b[31m module")
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(after):
				return err
			}
		}
	}
	silent := func(ctx context.Context, _ int, _ func(string)) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		fake fake
		want string
	}{
		"prints nothing":         {fake{program: silent}, "printed nothing in 2m0s with 24 CPUs"},
		"wrong pattern":          {fake{program: says("epoch 3", time.Second)}, `matches "step (\\d+)": give a --progress pattern that does; it printed last: epoch 3`},
		"stuck":                  {fake{program: says("step 7", time.Second)}, "made no progress in"},
		"reports seldom":         {fake{program: training(func(int) float64 { return 0.02 })}, "made only"},
		"crashes":                {fake{program: ends(3*time.Second, &ExitError{1})}, "the program failed with 24 CPUs for each GPU: exit status 1 after 3s; it printed last: step 1 | Traceback"},
		"ends at once":           {fake{program: ends(time.Second, nil)}, "ended by itself with 24 CPUs for each GPU after 1s and 1 report"},
		"no room":                {fake{waits: time.Hour}, "no room: job 1 did not begin within 10m0s (Resources)"},
		"refused":                {fake{submit: errors.New("sbatch: Invalid account")}, "Invalid account"},
		"node fails":             {fake{program: training(alexnet), ends: 90 * time.Second}, "job 1 ended in the middle of it: NODE_FAIL"},
		"Slurm down":             {fake{program: training(alexnet), state: errors.New("squeue: no answer"), down: time.Minute, deaf: 5}, "squeue: no answer"},
		"step does not start":    {fake{program: func(context.Context, int, func(string)) error { return errors.New("srun: no") }}, "srun: no"},
		"never to be heard from": {fake{program: silent, deaf: 1000}, "could not be cancelled (no answer): run scancel 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, errs := Run(t.Context(), &c.fake, []Type{a100}, settings())
				if errs[0] == nil || !strings.Contains(errs[0].Error(), c.want) || !strings.HasPrefix(errs[0].Error(), "a100: ") || strings.Contains(errs[0].Error(), "\n") {
					t.Errorf("error %v, want %q in it", errs[0], c.want)
				}
				if len(c.fake.queue) > 0 && c.fake.deaf < 1000 {
					t.Errorf("queue %v", c.fake.queue)
				}
			})
		})
	}
}

// A signal at any moment leaves nothing in the queue.
func TestInterruptedAtAnyMoment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		after := time.Duration(rapid.IntRange(0, 600_000).Draw(rt, "ms")) * time.Millisecond
		deaf := rapid.IntRange(0, 3).Draw(rt, "deaf")
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			time.AfterFunc(after, func() { stop(errors.New("interrupted")) })
			f := &fake{waits: time.Minute, program: training(alexnet), deaf: deaf}
			_, errs := Run(ctx, f, []Type{a100}, settings())
			if len(f.queue) > 0 {
				rt.Errorf("after %v: queue %v", after, f.queue)
			}
			if ctx.Err() != nil && errs[0] != nil && !strings.Contains(errs[0].Error(), "interrupted") {
				rt.Errorf("after %v: error %v", after, errs[0])
			}
		})
	})
}

// A program that never settles is measured all the same, and it is said.
func TestUnsteadyIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := settings()
		set.Patience = 40 * time.Second
		var began time.Time
		program := training(func(int) float64 { return 1 + time.Since(began).Seconds() }) // ever faster
		f := &fake{program: func(ctx context.Context, cpus int, line func(string)) error {
			began = time.Now()
			return program(ctx, cpus, line)
		}}
		results, errs := Run(t.Context(), f, []Type{{Name: "a100", Share: 1, Candidates: []int{1, 2}}}, set)
		if errs[0] != nil || !slices.Equal(results[0].Unsteady, []int{2, 1}) {
			t.Errorf("%+v, %v", results[0], errs[0])
		}
	})
}
