package daemon

import "time"

const (
	// stepLimit is how far the system's clock may be moved without a word: NTP
	// slews it by less.
	stepLimit = time.Minute
	// steadyFor is how long the clock must not step before anything is deleted
	// by its age: a clock that is a year ahead for a minute makes all of it old.
	steadyFor = time.Hour
)

// clock compares the system's clock, which records are dated by, with the
// monotonic one, which intervals are measured by.
type clock struct {
	now    func() time.Time // the system's
	wall   time.Time        // at the last read; zero before the first
	at     time.Time        // the same moment, monotonic
	steady time.Time        // since when it did not step, monotonic
}

// read returns the time, and by how much the clock was set since the last read.
func (c *clock) read() (now time.Time, step time.Duration) {
	at := time.Now()
	now = c.now().Round(0)
	if !c.wall.IsZero() {
		step = now.Sub(c.wall) - at.Sub(c.at)
	}
	if step.Abs() < stepLimit {
		step = 0
	}
	if step != 0 || c.wall.IsZero() {
		c.steady = at
	}
	c.wall, c.at = now, at
	return now, step
}

// isSteady reports whether records may be deleted by their age.
func (c *clock) isSteady() bool { return time.Since(c.steady) >= steadyFor }
