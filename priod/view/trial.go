package view

import (
	"fmt"
	"math"
	"time"

	"slurmprio/priod/report"
	"slurmprio/priod/trial"
)

// TrialStatus is how far a trial is.
type TrialStatus struct {
	*trial.Trial
	Until  time.Time     `json:"until"`
	Now    string        `json:"now,omitempty"` // which block; "": the trial is over
	Blocks []trial.Block `json:"blocks"`
	Notes  []string      `json:"notes"`
}

// OfTrialStatus is how far a trial is at a time.
func OfTrialStatus(t *trial.Trial, now time.Time) *TrialStatus {
	v := &TrialStatus{Trial: t, Until: t.End(), Now: t.Words(now), Blocks: t.Blocks(), Notes: []string{}}
	if _, on := t.At(now); on {
		v.Notes = append(v.Notes, "priod report trial says what is known by now; priod trial stop ends the trial.")
	}
	return v
}

// Page is for people.
func (v *TrialStatus) Page() *report.Page {
	head := v.Now
	switch {
	case head == "" && !v.Ended.IsZero():
		head = "the trial ended at " + report.Clock(v.Until) + ", before its time: " + report.Safe(v.Why)
	case head == "":
		head = "the trial ended at " + report.Clock(v.Until)
	}
	p := &report.Page{Title: "Trial", Words: []string{head + ".", designOf(v.Trial)}, Notes: v.Notes}
	left := map[int]string{}
	for _, x := range v.Touched {
		if left[x.Block] != "" {
			left[x.Block] += "; "
		}
		left[x.Block] += x.Why
	}
	shown := v.Blocks
	p.Tables = []report.PageTable{report.TableOf("", []string{"BLOCK", "PAIR", "PRIOD", "FROM", "UNTIL", "LEFT OUT"}, shown, func(b *trial.Block) []any {
		state := "on"
		if b.Off {
			state = "off"
		}
		return []any{b.Number, b.Pair + 1, state, report.Clock(b.From), report.Clock(b.Until), report.Safe(left[b.Number])}
	})}
	return p
}

// designOf says in words how a trial goes.
func designOf(t *trial.Trial) string {
	words := fmt.Sprintf("Started by %s at %s: blocks of %s for %s, wash-out %v, order by seed %d; %s.", report.Safe(t.Who), report.Clock(t.Start), trial.Days(t.Block), trial.Days(t.Length), t.WashOut, t.Seed, t.Balance())
	if b := t.Bounds; b.TEWaitP95 > 0 || b.Completion > 0 {
		words += " It ends early"
		if b.TEWaitP95 > 0 {
			words += fmt.Sprintf(" when one TE job in twenty waits longer than %v", b.TEWaitP95)
		}
		if b.TEWaitP95 > 0 && b.Completion > 0 {
			words += ", or"
		}
		if b.Completion > 0 {
			words += fmt.Sprintf(" when jobs of an account take %.2f times as long", b.Completion)
		}
		words += "."
	}
	return words
}

// Trial is what a trial says.
type Trial struct {
	Sentence string        `json:"sentence"` // for the head of the centre
	Trial    *trial.Trial  `json:"trial"`
	Touched  []trial.Touch `json:"left_out_blocks"`
	*trial.Analysis
}

// OfTrial is what a trial says by a time.
func OfTrial(t *trial.Trial, jobs []trial.Job, now time.Time) *Trial {
	v := &Trial{Trial: t, Touched: append([]trial.Touch{}, t.Touched...), Analysis: trial.Analyse(t, jobs, now)}
	v.Sentence = sentence(t, v.Analysis)
	return v
}

// sentence says it all.
func sentence(t *trial.Trial, a *trial.Analysis) string {
	e := &a.Completion
	over := fmt.Sprintf("in %s of random blocks of %s, %s", trial.Days(t.End().Sub(t.Start)), trial.Days(t.Block), report.Count(a.Jobs, "GPU job"))
	percent := func(x float64) float64 { return math.Abs(math.Round(100 * x)) }
	switch {
	case !e.Told:
		return fmt.Sprintf("It cannot be told yet what priod does to completion times: %d of %d pairs of blocks are complete and count, %s.", a.Pairs, a.AllPairs, report.Count(a.Jobs, "GPU job"))
	case e.Helps():
		return fmt.Sprintf("priod shortened the typical completion time of jobs by %.0f %% (90 %% interval %.0f to %.0f %%; %s).", percent(e.Change), percent(e.High), percent(e.Low), over)
	case e.Harms():
		return fmt.Sprintf("priod lengthened the typical completion time of jobs by %.0f %% (90 %% interval %.0f to %.0f %%; %s).", percent(e.Change), percent(e.Low), percent(e.High), over)
	}
	return fmt.Sprintf("No effect of priod on the typical completion time of jobs was found: it lies between %+.0f and %+.0f %% (90 %% interval; %s).", 100*e.Low, 100*e.High, over)
}

// Page says first what came out, then for which jobs, then what it rests on.
func (v *Trial) Page() *report.Page {
	p := &report.Page{Title: "What the trial says", Words: []string{v.Sentence, designOf(v.Trial)}}
	if v.Trial.Why != "" {
		p.Words = append(p.Words, "It ended early: "+report.Safe(v.Trial.Why)+".")
	}
	row := func(first string, e *trial.Effect) []any {
		words := func(x float64) string {
			switch e.Unit {
			case trial.Seconds:
				return report.Seconds(x)
			case trial.GPUHours:
				return fmt.Sprintf("%.1f", x)
			}
			return fmt.Sprintf("%.2f", x)
		}
		on, off, change, interval := words(e.On), words(e.Off), "not told", ""
		if e.Pairs == 0 {
			on, off = "", ""
		}
		switch {
		case e.Told && e.Unit == trial.GPUHours:
			change, interval = fmt.Sprintf("%+.1f", e.Change), fmt.Sprintf("%+.1f to %+.1f", e.Low, e.High)
		case e.Told:
			change, interval = fmt.Sprintf("%+.0f %%", 100*e.Change), fmt.Sprintf("%+.0f to %+.0f %%", 100*e.Low, 100*e.High)
		}
		return []any{first, e.Jobs, off, on, change, interval, fmt.Sprintf("%.2f", e.Exposure)}
	}
	columns := []string{"JOBS", "PRIOD OFF", "PRIOD ON", "EFFECT", "90 % INTERVAL", "EXPOSURE"}
	p.Tables = []report.PageTable{
		report.TableOf("", append([]string{"FIGURE"}, columns...), v.Effects, func(e *trial.Effect) []any {
			name := e.Name
			if e.Class != "" {
				name = map[string]string{"te": "TE: ", "be": "BE: "}[e.Class] + name
			}
			return row(name, e)
		}),
		report.TableOf("", append([]string{"ACCOUNT, typical completion"}, columns...), v.Accounts, func(e *trial.Effect) []any { return row(report.Safe(e.Account), e) }),
	}
	p.Notes = []string{
		fmt.Sprintf("%s count, in %d of %d pairs; %d were submitted in a wash-out, %d in blocks that are left out or whose pair is not complete.", report.Count(v.Jobs, "job"), v.Pairs, v.AllPairs, v.WashedOut, v.LeftOut),
		fmt.Sprintf("Carried over: in off blocks priod's work is felt for %s, the age below which four fifths of the GPU time in use is. EXPOSURE is how much more of priod jobs of on blocks saw than those of off blocks; EFFECT is for jobs that see priod alone against jobs that never do, its interval for memories from 70 to 95 %%. The two columns before are as it was seen.", report.Seconds(v.MemoryS)),
		"Intervals hold those effects that a randomisation test over orders of the blocks does not refuse. Of the accounts, one in ten leaves its interval by chance.",
	}
	if v.Open > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s that count have not ended yet, and count with what they have come to: the effect is not final.", report.Count(v.Open, "job")))
	}
	for _, x := range v.Touched {
		p.Notes = append(p.Notes, fmt.Sprintf("Block %d is left out with its pair: %s at %s.", x.Block, report.Safe(x.Why), report.Clock(x.At)))
	}
	return p
}
