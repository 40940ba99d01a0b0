package curve

import (
	"cmp"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Report is what a program said about its progress.
type Report struct {
	At   time.Duration // since any fixed moment
	Done float64       // steps since its first report
}

// Window says how long a program is watched.
type Window struct {
	Warmup  time.Duration // from the first report on: not counted
	Measure time.Duration // what is counted, at least
}

const (
	fewest    = 5    // reports that a rate is made from
	tolerance = 0.10 // between the halves of a window that counts as steady
)

// Rate returns the steps a second of the last Window.Measure, and whether it is
// steady: the two halves agree within a tenth. A program that is not steady yet
// is still warming up, and the window moves on with it. The rate is 0 while
// there are too few reports.
func (w Window) Rate(reports []Report) (perSecond float64, steady bool) {
	last := len(reports) - 1
	first := last + 1 - fewest
	if first < 0 {
		return 0, false
	}
	for first > 0 && reports[last].At-reports[first].At < w.Measure {
		first--
	}
	span := reports[last].At - reports[first].At
	if span < w.Measure || span <= 0 || reports[first].At < reports[0].At+w.Warmup {
		return 0, false
	}
	counted := reports[first:]
	mid := 1
	for mid < len(counted)-2 && 2*(counted[mid].At-counted[0].At) < span {
		mid++
	}
	a, b := slope(counted[:mid+1]), slope(counted[mid:])
	perSecond = slope(counted)
	return perSecond, perSecond > 0 && math.Abs(a-b) <= tolerance*max(a, b)
}

// slope is that of the straight line nearest to the reports (least squares): a
// report that comes late matters less to it than to first and last alone.
func slope(reports []Report) float64 {
	var at, done, product, square float64
	n := float64(len(reports))
	for _, r := range reports {
		at, done = at+r.At.Seconds()/n, done+r.Done/n
	}
	for _, r := range reports {
		x := r.At.Seconds() - at
		product, square = product+x*(r.Done-done), square+x*x
	}
	if square == 0 {
		return 0
	}
	return product / square
}

// Counter reads progress out of what a program prints.
type Counter struct {
	pattern *regexp.Regexp
	seen    bool
	last    float64
	done    float64
}

// NewCounter reads the first bracketed part of the pattern that matches as the
// number of steps so far; without one, each matching line is a step.
func NewCounter(pattern *regexp.Regexp) *Counter { return &Counter{pattern: pattern} }

// maxSteps keeps a step away from what float64 no longer tells apart.
const maxSteps = 1e15

// Read returns the steps done since the first report. A number that falls has
// begun again, as that of a new epoch does. ok is false for a line that is no
// report.
func (c *Counter) Read(line string) (done float64, ok bool) {
	m := c.pattern.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	if len(m) == 1 {
		if c.seen {
			c.done++
		}
		c.seen = true
		return c.done, true
	}
	text := cmp.Or(m[1:]...)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= maxSteps) || c.done+n > maxSteps {
		return 0, false
	}
	switch {
	case !c.seen:
	case n >= c.last:
		c.done += n - c.last
	default:
		c.done += n
	}
	c.seen, c.last = true, n
	return c.done, true
}
