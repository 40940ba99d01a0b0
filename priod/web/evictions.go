package web

import (
	"context"
	"html/template"
	"net/url"
	"time"

	"slurmprio/priod/cluster"
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

// roomFor are the jobs for which others leave.
func roomFor(open []store.Eviction) map[cluster.JobID]bool {
	room := map[cluster.JobID]bool{}
	for i := range open {
		if open[i].ClaimEnded.IsZero() {
			room[open[i].For] = true
		}
	}
	return room
}

// leaving are the jobs that were signalled and are still there, with the job for which each leaves.
func leaving(open []store.Eviction) map[cluster.JobID]string {
	leaves := map[cluster.JobID]string{}
	for i := range open {
		if open[i].Left.IsZero() {
			leaves[open[i].Victim] = open[i].For.String()
		}
	}
	return leaves
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

func evictions(ctx context.Context, r *store.Reader, last *store.Cycle, _ url.Values) (shown, error) {
	all, err := r.Evictions(ctx, most(ctx, rowsOfPage))
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
