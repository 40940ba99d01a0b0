// Package trial is an experiment on a cluster: priod on and off in blocks of time, in random order, and what came of it.
//
// Blocks come in pairs that cover the same part of the week, or of the day, so that each hour stands once on and once off; which
// of the two is on is drawn from a seed that is kept. A job counts to the block in which it was submitted; one that was submitted
// within the wash-out at the beginning of a block counts to none, in whatever order the blocks come.
//
//   - trial.go: the design: blocks, pairs, the record of a trial
//   - analyse.go: what a trial says: effects and their intervals
//   - randomise.go: the randomisation test and its inversion
//   - bounds.go: whether a trial harms, by the operator's bounds
package trial

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings say how a trial goes.
type Settings struct {
	Block   time.Duration `json:"block"`
	Length  time.Duration `json:"length"`
	WashOut time.Duration `json:"wash_out"`
	Seed    uint64        `json:"seed"`
	Bounds  Bounds        `json:"bounds"`
}

// Bounds end a trial that harms; zero: none.
type Bounds struct {
	TEWaitP95  time.Duration `json:"te_wait_p95,omitempty"` // of trial-and-error jobs in the blocks in which priod is on
	Completion float64       `json:"completion,omitempty"`  // mean completion of an account's jobs in on blocks, as many times that in off blocks
}

// Trial is the record of one: what a priod needs to go on with it.
type Trial struct {
	Settings
	Start   time.Time `json:"start"`
	Who     string    `json:"who"`
	Ended   time.Time `json:"ended,omitzero"`  // before its time; zero: it was not
	Why     string    `json:"why,omitempty"`   // it ended
	Harms   bool      `json:"harms,omitempty"` // it ended by a bound: priod stays off until the operator stops the trial
	Touched []Touch   `json:"touched,omitempty"`
}

// Touch is what happened in a block that is left out because of it.
type Touch struct {
	Block int       `json:"block"`
	At    time.Time `json:"at"`
	Why   string    `json:"why"`
}

// Block is a part of a trial.
type Block struct {
	Number int // from 1
	Pair   int // from 0: the two blocks of a pair cover the same part of the week, or of the day
	Off    bool
	From   time.Time
	Until  time.Time
	Counts time.Time // jobs submitted from here on count
}

// String names a block for people.
func (b Block) String() string {
	word := "on"
	if b.Off {
		word = "off"
	}
	return fmt.Sprintf("block %d, priod %s", b.Number, word)
}

const (
	day      = 24 * time.Hour
	week     = 7 * day
	mostSize = 2000 // blocks
)

// Check fills in what is left open, and refuses what makes no trial.
func (s *Settings) Check() error {
	if s.WashOut < 0 {
		s.WashOut = s.Block / 6
	}
	n := s.Length / max(s.Block, 1)
	switch {
	case s.Block < 10*time.Second:
		return fmt.Errorf("blocks of %v: want ten seconds or more", s.Block)
	case s.Length%s.Block != 0:
		return fmt.Errorf("blocks of %v do not divide %s: want a block that goes into it without a rest, such as 12h into 14 days", s.Block, Days(s.Length))
	case n < 10 || n%2 != 0:
		return fmt.Errorf("%d blocks: want an even number, 10 at least: an interval of 90 %% needs as many; make blocks shorter or the trial longer", n)
	case n > mostSize:
		return fmt.Errorf("%d blocks: want %d at most", n, mostSize)
	case s.WashOut > s.Block/2:
		return fmt.Errorf("a wash-out of %v leaves less than half of a block of %v", s.WashOut, s.Block)
	case s.Bounds.TEWaitP95 < 0 || s.Bounds.Completion < 0 || s.Bounds.Completion > 0 && s.Bounds.Completion <= 1:
		return fmt.Errorf("bounds: want a time for the wait, and a factor above 1 for the completion of an account")
	}
	return nil
}

// Balance says what the two blocks of each pair share.
func (s *Settings) Balance() string {
	switch s.distance() {
	case week:
		return "each hour of the week stands once on and once off in two weeks"
	case day:
		return "each hour of the day stands once on and once off in two days"
	}
	return "on and off in neighbouring blocks: hours and days are not balanced (that takes blocks that divide a day, and an even number of days or weeks)"
}

// distance is how far apart the two blocks of a pair begin.
func (s *Settings) distance() time.Duration {
	switch {
	case s.Length%(2*week) == 0 && week%s.Block == 0:
		return week
	case s.Length%(2*day) == 0 && day%s.Block == 0:
		return day
	}
	return s.Block
}

// Blocks are those of the trial, in the order of time.
func (t *Trial) Blocks() []Block {
	n, apart := int(t.Length/t.Block), int(t.distance()/t.Block)
	all := make([]Block, n)
	draw := rand.New(rand.NewPCG(t.Seed, 56))
	pair := 0
	for first := 0; first < n; first += 2 * apart {
		for k := first; k < first+apart; k++ {
			off := draw.IntN(2) == 0
			for i, at := range []int{k, k + apart} {
				all[at] = Block{Number: at + 1, Pair: pair, Off: off == (i == 0)}
			}
			pair++
		}
	}
	for i := range all {
		b := &all[i]
		b.From = t.Start.Add(time.Duration(i) * t.Block)
		b.Until, b.Counts = b.From.Add(t.Block), b.From.Add(t.WashOut)
	}
	return all
}

// End is when the trial ends, or ended.
func (t *Trial) End() time.Time {
	end := t.Start.Add(t.Length)
	if !t.Ended.IsZero() && t.Ended.Before(end) {
		return t.Ended
	}
	return end
}

// At is the block of a moment; false: the trial is not on then.
func (t *Trial) At(at time.Time) (Block, bool) {
	if t == nil || at.Before(t.Start) || !at.Before(t.End()) {
		return Block{}, false
	}
	return t.Blocks()[at.Sub(t.Start)/t.Block], true
}

// Off reports whether priod is off at a moment.
func (t *Trial) Off(at time.Time) bool {
	b, on := t.At(at)
	return on && b.Off || t != nil && t.Harms
}

// How Words begin.
const (
	WordsBegin  = "a trial is on:"
	EndedBegins = "the trial has ended early"
)

// Words says in a line which block is on; "": the trial is over, or to come.
func (t *Trial) Words(at time.Time) string {
	b, on := t.At(at)
	switch {
	case t != nil && t.Harms:
		return EndedBegins + ", and priod is off until priod trial stop: " + t.Why
	case !on:
		return ""
	}
	state := "on"
	if b.Off {
		state = "off"
	}
	return fmt.Sprintf(WordsBegin+" priod is %s until %s, in block %d of %d", state, b.Until.Local().Format(time.DateTime), b.Number, t.Length/t.Block)
}

// Touch leaves out the blocks of a span of time; false: they are already, or there is none.
func (t *Trial) Touch(from, until time.Time, why string) (touched bool) {
	for _, b := range t.Blocks() {
		if !b.Until.After(from) || b.From.After(until) || !b.From.Before(t.End()) || !from.Before(t.End()) ||
			slices.ContainsFunc(t.Touched, func(x Touch) bool { return x.Block == b.Number && x.Why == why }) {
			continue
		}
		at := from
		if at.Before(b.From) {
			at = b.From
		}
		t.Touched, touched = append(t.Touched, Touch{b.Number, at, why}), true
	}
	return touched
}

// Parse reads the words of a trial, as in blocks=12h,days=14,wash-out=2h,seed=7,from=3d; from is when it starts, after a moment.
func Parse(text string) (s Settings, from time.Duration, err error) {
	s = Settings{Block: 12 * time.Hour, Length: 2 * week, WashOut: -1, Seed: 1}
	for word := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "blocks":
			s.Block, err = ParseTime(value)
		case "days":
			s.Length, err = ParseTime(value)
		case "wash-out":
			s.WashOut, err = ParseTime(value)
		case "from":
			from, err = ParseTime(value)
		case "seed":
			s.Seed, err = strconv.ParseUint(value, 10, 64)
		default:
			err = fmt.Errorf("want blocks, days, wash-out, seed or from")
		}
		if err != nil {
			return s, 0, fmt.Errorf("%q: %w", word, err)
		}
	}
	return s, from, s.Check()
}

// ParseTime reads a time such as 12h, 14d, or 14: so many days.
func ParseTime(text string) (time.Duration, error) {
	number, isDays := strings.CutSuffix(text, "d")
	if n, err := strconv.ParseFloat(number, 64); err == nil && !math.IsNaN(n) && math.Abs(n) <= 3650 {
		return time.Duration(n * float64(day)).Round(time.Second), nil
	} else if isDays {
		return 0, fmt.Errorf("want a number of days, such as 14d")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("want a time such as 90m, 12h or 14d")
	}
	return d, nil
}

// Days is a time in days where it is a whole number of them.
func Days(d time.Duration) string {
	if n := d / day; d%day == 0 && n > 0 {
		return cmp.Or(map[time.Duration]string{1: "1 day"}[n], fmt.Sprintf("%d days", n))
	}
	return d.String()
}
