package web

import (
	"context"
	"html/template"
	"net/url"
	"time"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// mostOpen evictions are looked at.
const mostOpen = 500

// openEvictions are those under way.
func openEvictions(ctx context.Context, r *store.Reader) (open []store.Eviction, err error) {
	all, err := r.Evictions(ctx, mostOpen) // those under way come first
	for i := range all {
		if all[i].Ended.IsZero() {
			open = append(open, all[i])
		}
	}
	return open, err
}

// EvictionsView is the page of evictions.
type EvictionsView struct {
	Since     time.Time      `json:"since"` // of the sums
	Count     int            `json:"evictions_of_the_week"`
	PaidGPUH  float64        `json:"paid_gpu_h"`     // work that was lost
	Promised  float64        `json:"promised_gpu_h"` // what the choices took it to cost
	Evictions []EvictionView `json:"evictions"`      // under way, and the latest others
	Times     []time.Time    `json:"times"`          // of the plot: its bins begin
	Week      Plot           `json:"week"`
}

// EvictionView is one eviction and how much of its grace is left.
type EvictionView struct {
	store.Eviction
	LeftS float64 `json:"grace_left_s"` // 0 when it has left, or was not told yet
}

func evictions(ctx context.Context, r *store.Reader, last *store.Cycle, _ url.Values) (any, error) {
	all, err := r.Evictions(ctx, rowsOfPage)
	if err != nil {
		return nil, err
	}
	v := &EvictionsView{Evictions: make([]EvictionView, len(all)), Since: last.Until.Add(-week)}
	for i, x := range all {
		v.Evictions[i].Eviction = x
		if x.Ended.IsZero() && x.Left.IsZero() && !x.Signalled.IsZero() {
			v.Evictions[i].LeftS = max(0, x.GraceS-time.Since(x.Signalled).Seconds())
		}
	}
	past, err := r.EvictionsSince(ctx, v.Since)
	if err != nil {
		return nil, err
	}
	v.Count = len(past)
	for i := range past {
		v.Promised += past[i].Promised / 3600
		if past[i].Paid != nil {
			v.PaidGPUH += *past[i].Paid / 3600
		}
	}
	b := bins{from: v.Since, until: last.Until, bin: 6 * time.Hour}
	v.Times, v.Week = b.times(), Plot{Title: "Evictions of the last week, each six hours", Unit: "evictions", Series: b.evictions(past)[:1]}
	return v, nil
}

// Figure draws them; "": there were none.
func (v *EvictionsView) Figure() (template.HTML, error) {
	if v.Count == 0 {
		return "", nil
	}
	return v.Week.figure(v.Times)
}

// AllocationView is the page of the allocation.
type AllocationView struct {
	Turn
	Jobs []store.JobShare `json:"jobs"`
	Owed []Owed           `json:"owed"` // those that are owed most, of the page
}

// Owed is what a job is owed on all types together.
type Owed struct {
	Job   string  `json:"job"`
	Hours float64 `json:"owed_h"`
}

// Figure draws what the jobs of the page are owed; "": nothing.
func (v *AllocationView) Figure() (template.HTML, error) {
	f := report.Figure{Title: "Time owed to the jobs that are owed most", YLabel: "hours", XLabel: "job"}
	for _, x := range v.Owed {
		f.Bars = append(f.Bars, report.Bar{Name: x.Job, Value: x.Hours})
	}
	if len(f.Bars) == 0 {
		return "", nil
	}
	return f.HTML()
}

func allocation(ctx context.Context, r *store.Reader, _ *store.Cycle, asked url.Values) (any, error) {
	_, skip, err := partOf(url.Values{"page": asked["page"]}, 1<<40)
	if err != nil {
		return nil, err
	}
	v := &AllocationView{}
	jobs, all, err := r.Shares(ctx, skip, rowsOfPage)
	if err != nil {
		return nil, err
	}
	v.Jobs, v.Owed = jobs, []Owed{}
	for i := range jobs[:min(len(jobs), 20)] {
		x := Owed{Job: jobs[i].Job.String()}
		for _, t := range jobs[i].Types {
			x.Hours += t.OwedS / 3600
		}
		v.Owed = append(v.Owed, x)
	}
	part, _, err := partOf(asked, all)
	v.Turn = Turn{part, "allocation", asked}
	return v, err
}
