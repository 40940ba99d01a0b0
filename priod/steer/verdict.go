package steer

import (
	"math"
	"time"

	"slurmprio/priod/plan"
)

// Open is the type of a job that is bound to none.
const Open = int32(-1)

// Why says in one word what becomes of a job.
type Why string

// What becomes of a job.
const (
	Starts    Why = "starts"      // bound to an allocated type that is free
	Waits     Why = "waits"       // bound to a type that is not free yet: it ends there sooner than on any that is
	Takes     Why = "takes-other" // bound to a free type instead of the allocated one, for which it would wait longer than it gains
	Barred    Why = "cannot-run"  // bound to a type on which it can run, because it cannot on all that its request allows
	Far       Why = "not-near"    // open: further from the head than Rule.Depth
	NoConsent Why = "no-consent"  // not steered: Job.Consent is false
	OneType   Why = "one-type"    // not steered: its own constraint leaves one type
	NoRoom    Why = "no-room"     // open: no type has room for it, now or when all jobs have ended
	NoTime    Why = "no-time"     // open: no type is allocated to it
	Unbound   Why = "not-bound"   // open: Job.NoWait, and fewer than two types are free for it now
	Stuck     Why = "not-started" // open: it could have started on its type and did not for long, see stuck
)

// Why a type that was written earlier is taken back.
const (
	Changed Why = "allocation-changed"
	Down    Why = "nodes-down"
	Better  Why = "better-type" // another type is better by Rule.Change
	Full    Why = "not-free"    // Job.NoWait, and it does not start there at present
)

// Verdict is what is decided for one job. Times are in seconds from now.
type Verdict struct {
	Type  int32 // to bind the job to, or Open
	Why   Why
	Back  Why     // why the type written earlier is taken back; "" when it is not
	Start float64 // expected, on any type when Type is Open; infinite: never
	End   float64
	// Other is the best of the types not chosen, Open when there is none, and OtherEnd when the job would end there.
	Other    int32
	OtherEnd float64
	NotGiven bool // the allocation gives it no time on Other
	Idle     bool // a type that it could use now is left free while it waits
}

// boundless is the time, s, from which on no time limit is behind a figure. Slurm and the allocation count a job without one as a year
// long, of which a part may have passed.
const boundless = 180 * 24 * 3600

// Choice is the verdict of a time as data; names are those of the types.
func (v *Verdict) Choice(names []string, now time.Time) *plan.GPUTypeChoice {
	known := func(s float64) *float64 {
		if s >= boundless {
			return nil
		}
		s = math.Round(s)
		return &s
	}
	c := &plan.GPUTypeChoice{Why: string(v.Why), Back: string(v.Back), NotGiven: v.NotGiven}
	if v.Type != Open {
		c.At, c.GPUType, c.StartS, c.EndS = now, names[v.Type], known(v.Start), known(v.End)
		if v.Other != Open {
			c.Other, c.OtherS = names[v.Other], known(v.OtherEnd)
		}
	}
	return c
}

// movedFrom reports whether the expected start of an earlier verdict is no longer that of this one, made so
// many seconds later: by more than ten minutes and half of what is left.
func (v *Verdict) movedFrom(told *Verdict, later float64) bool {
	was, is := told.Start-later, v.Start
	if is >= boundless || was >= boundless-later {
		return v.Type != Open && (is < boundless || was < boundless-later)
	}
	return v.Type != Open && math.Abs(is-was) > 600+max(is, 0)/2
}
