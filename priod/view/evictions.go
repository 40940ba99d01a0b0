package view

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// mostOpen evictions are looked at.
const mostOpen = 500

// openEvictions are those under way.
func openEvictions(ctx context.Context, r *store.Reader) ([]store.Eviction, error) {
	all, err := r.Evictions(ctx, mostOpen) // those under way come first
	return slices.DeleteFunc(all, func(e store.Eviction) bool { return !e.Ended.IsZero() }), err
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

// EvictionPage is the page of evictions.
type EvictionPage struct {
	Since     time.Time   `json:"since"` // of the sums
	Count     int         `json:"evictions_of_the_week"`
	PaidGPUH  float64     `json:"paid_gpu_h"`     // work that was lost
	Promised  float64     `json:"promised_gpu_h"` // what the choices took it to cost
	Evictions []Eviction  `json:"evictions"`      // under way, and the latest others
	Times     []time.Time `json:"times"`          // of the plot: its bins begin
	Week      Plot        `json:"week"`
}

// Eviction is one eviction and how much of its grace is left.
type Eviction struct {
	store.Eviction
	LeftS float64 `json:"grace_left_s"` // 0 when it has left, or was not told yet
}

func (a *Asked) evictions(ctx context.Context) (shown, error) {
	all, err := a.Store.Evictions(ctx, a.most(rowsOfPage))
	if err != nil {
		return nil, err
	}
	v := &EvictionPage{Evictions: make([]Eviction, len(all)), Since: a.Last.Until.Add(-week)}
	for i, x := range all {
		v.Evictions[i].Eviction = x
		if x.Ended.IsZero() && x.Left.IsZero() && !x.Signalled.IsZero() {
			v.Evictions[i].LeftS = max(0, x.GraceS-time.Since(x.Signalled).Seconds())
		}
	}
	past, err := a.Store.EvictionsSince(ctx, v.Since)
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
	b := bins{from: v.Since, until: a.Last.Until, bin: 6 * time.Hour}
	v.Times, v.Week = b.times(), Plot{Title: "Evictions of the last week, each six hours", Unit: "evictions", Series: b.evictions(past)[:1]}
	return v, nil
}

// Figure draws them; nil: there were none.
func (v *EvictionPage) Figure() *report.Figure {
	if v.Count == 0 {
		return nil
	}
	return v.Week.figure(v.Times)
}

func (v *EvictionPage) only(user string) {
	v.Evictions = slices.DeleteFunc(v.Evictions, func(e Eviction) bool { return e.ForUser != user && e.VictimUser != user })
	v.Evictions = v.Evictions[:min(len(v.Evictions), rowsOfPage)]
	for i := range v.Evictions {
		v.Evictions[i].Eviction = ownEvictions([]store.Eviction{v.Evictions[i].Eviction}, user)[0]
	}
}
