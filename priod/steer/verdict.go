package steer

import (
	"fmt"
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
	Stuck     Why = "not-started" // open: it could have started on its type for Rule.Cycles cycles and did not
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
	// Other is the best of the types not chosen, Open when there is none, and
	// OtherEnd when the job would end there.
	Other    int32
	OtherEnd float64
	NotGiven bool // the allocation gives it no time on Other
	Idle     bool // a type that it could use now is left free while it waits
}

// boundless is the time, s, from which on no time limit is behind a figure. Slurm and
// the allocation count a job without one as a year long, of which a part may have
// passed.
const boundless = 180 * 24 * 3600

// Explain puts a verdict of a time into words; name gives those of a type. Times are those of the clock:
// they stay true while the job waits.
func (v *Verdict) Explain(name func(int32) string, now time.Time) string {
	text, at := "", func(s float64) string { return clockTime(now, s) }
	switch v.Why {
	case Starts:
		text = fmt.Sprintf("%s is allocated to it and free", name(v.Type))
	case Waits:
		text = fmt.Sprintf("waits for %s until %s, where it ends %s", name(v.Type), at(v.Start), at(v.End))
		if v.Start >= boundless {
			text = fmt.Sprintf("waits for %s, where jobs without a time limit run", name(v.Type))
		}
		if v.Other != Open {
			given := ""
			if v.NotGiven {
				given = ", where nothing is allocated to it,"
			}
			text += fmt.Sprintf("; on %s%s it would end %s", name(v.Other), given, at(v.OtherEnd))
		}
	case Barred:
		text = fmt.Sprintf("bound to %s: it cannot run on all types that it may have", name(v.Type))
	case Takes:
		text = fmt.Sprintf("takes %s, which is free and where it ends %s", name(v.Type), at(v.End))
		if v.Other != Open {
			text += fmt.Sprintf("; waiting for %s it would end %s", name(v.Other), at(v.OtherEnd))
		}
	default:
		text = whyOpen[v.Why]
	}
	if back := whyBack[v.Back]; back != "" {
		text += "; the previous type is withdrawn: " + back
	}
	return text
}

// choice is the verdict as data; names are those of the types.
func (v *Verdict) choice(names []string) *plan.GPUTypeChoice {
	known := func(s float64) *float64 {
		if s >= boundless {
			return nil
		}
		s = math.Round(s)
		return &s
	}
	c := &plan.GPUTypeChoice{Why: string(v.Why), Back: string(v.Back), NotGiven: v.NotGiven}
	if v.Type != Open {
		c.GPUType, c.StartS, c.EndS = names[v.Type], known(v.Start), known(v.End)
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

var whyOpen = map[Why]string{
	Far:       "too far from the head of the queue",
	NoConsent: noConsent,
	OneType:   "its request leaves one GPU type",
	NoRoom:    "no GPU type has room for it, now or later",
	NoTime:    "the allocation gives it no time at present: left open",
	Unbound:   "TE jobs do not wait: left open, to start on the first type that is free",
	Stuck:     "it could have started on its type, and Slurm did not start it: left open",
}

var whyBack = map[Why]string{
	Changed: "the allocation has changed",
	Full:    "it does not start there at present",
	Down:    "its nodes are down",
	Better:  "another type is better",
}

// clockTime is a time of the clock so many seconds from now; with its day where that is another one.
func clockTime(now time.Time, s float64) string {
	if s >= boundless {
		return "at no known time"
	}
	now = now.Local()
	at := now.Add(time.Duration(s * float64(time.Second))).Round(time.Minute)
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("about 15:04")
	}
	return at.Format("about Jan 2 15:04")
}
