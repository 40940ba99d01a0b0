package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/plan"
	"slurmprio/priod/report"
)

// waitView is a wait as explain shows it.
type waitView struct {
	Submit time.Time  `json:"submit"`
	Until  time.Time  `json:"until"`
	Ended  string     `json:"ended"` // "" while it waits
	Spans  []spanView `json:"spans"`
}

type spanView struct {
	From  time.Time  `json:"from"`
	Wait  float64    `json:"wait_s"`
	Cause plan.Cause `json:"cause"`
	What  string     `json:"what,omitempty"`
	Words string     `json:"words,omitempty"` // what is short, and with what it would start sooner

	Fits *plan.FitsNow `json:"would_fit,omitempty"` // the latter as data: with any one of these; nil: not known
}

// mostSpans are those of a wait that explain shows, the last ones.
const mostSpans = 12

func waitViews(all []*plan.Wait) []waitView {
	views := []waitView{}
	for _, w := range all {
		v := waitView{Submit: w.Submit, Until: w.Until, Ended: string(w.Ended), Spans: []spanView{}}
		for i, s := range w.Spans {
			v.Spans = append(v.Spans, spanView{From: s.From, Wait: w.Length(i).Seconds(), Cause: s.Cause, What: s.What, Words: s.Words, Fits: s.Fits})
		}
		views = append(views, v)
	}
	return views
}

// showWaits tells why the job waits, or waited, the last wait first.
func (v *Explanation) showWaits(line liner) {
	for _, w := range v.Waits {
		if w.Ended != "" && w.Until.Sub(w.Submit) < time.Second {
			continue // it did not wait
		}
		by := map[plan.Cause]float64{}
		for _, s := range w.Spans {
			by[s.Cause] += s.Wait
		}
		var parts []string
		for _, c := range plan.Causes {
			if by[c] >= 0.5 {
				parts = append(parts, fmt.Sprintf("%s %s", c, report.Ago(time.Duration(by[c]*float64(time.Second)))))
			}
		}
		verb := map[string]string{"": "waits", string(plan.Started): "waited"}[w.Ended]
		switch {
		case verb == "":
			verb = "waited until it left the queue"
		case w.Ended == "" && !v.waits(): // a cycle is to see when it ended
			verb = "waited at least"
		}
		if len(w.Spans) == 1 {
			line("Wait", "%s %s since %s: %s", verb, report.Ago(w.Until.Sub(w.Submit)), report.Clock(w.Submit), w.Spans[0].text())
			continue
		}
		line("Wait", "%s %s since %s: %s", verb, report.Ago(w.Until.Sub(w.Submit)), report.Clock(w.Submit), strings.Join(parts, ", "))
		for _, s := range slices.Backward(w.Spans[max(0, len(w.Spans)-mostSpans):]) {
			if s.Wait < 0.5 {
				continue
			}
			line("", "from %s, %s: %s", report.Clock(s.From), report.Ago(time.Duration(s.Wait*float64(time.Second))), s.text())
		}
	}
}

// text says what the job waited for.
func (s *spanView) text() string {
	text := string(s.Cause)
	if s.What != "" {
		text += " (" + s.What + ")"
	}
	if s.Words != "" {
		text += ": " + s.Words
	}
	return text
}
