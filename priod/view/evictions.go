package view

import (
	"cmp"
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

// roomFor are the jobs for which others leave, and when the last of these is to have left.
func roomFor(open []store.Eviction) map[cluster.JobID]time.Time {
	room := map[cluster.JobID]time.Time{}
	for i := range open {
		if x := &open[i]; x.ClaimEnded.IsZero() {
			room[x.For] = cluster.Later(room[x.For], leftBy(x))
		}
	}
	return room
}

// leftBy is when a victim is to have left.
func leftBy(x *store.Eviction) time.Time {
	return x.Recorded.Add(time.Duration(x.WaitS * float64(time.Second)))
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
	EvictionList
	Since    time.Time   `json:"since"` // of the sums
	Count    int         `json:"evictions_of_the_week"`
	PaidGPUH float64     `json:"paid_gpu_h"`     // work that was lost
	Promised float64     `json:"promised_gpu_h"` // what the choices took it to cost
	Times    []time.Time `json:"times"`          // of the plot: its bins begin
	Week     Plot        `json:"week"`

	Coming []ComingWindow `json:"coming_windows"`
	Past   []WindowCost   `json:"past_windows"` // of the week
}

// EvictionList is the evictions under way, and the latest others.
type EvictionList struct {
	Evictions []Eviction `json:"evictions"`
}

// ReadEvictions are at most so many, of one job's own runs and on its behalf, or of all jobs.
func ReadEvictions(ctx context.Context, r *store.Reader, of *cluster.JobID, most int) (v *EvictionList, err error) {
	var all []store.Eviction
	if of != nil {
		all, err = r.EvictionsOf(ctx, *of, most)
	} else {
		all, err = r.Evictions(ctx, most)
	}
	v = &EvictionList{make([]Eviction, len(all))}
	for i, x := range all {
		v.Evictions[i].Eviction = x
		if x.Ended.IsZero() && x.Left.IsZero() && !x.Signalled.IsZero() {
			v.Evictions[i].LeftS = max(0, x.GraceS-r.Now().Sub(x.Signalled).Seconds())
		}
	}
	return v, err
}

// Page shows them.
func (v *EvictionList) Page() *report.Page {
	p := &report.Page{Title: "Evictions"}
	if len(v.Evictions) == 0 {
		p.Words = []string{"No job was evicted."}
	}
	header := []string{"#", "VICTIM", "USER", "GPUS", "FOR", "USER", "NODES", "RECORDED", "STATE", "GRACE", "TOOK", "PROMISED", "PAID", "PLACE", "WHY"}
	p.Tables = []report.PageTable{report.TableOf("", header, v.Evictions, func(x *Eviction) []any {
		took, paid := "", ""
		if x.TookS != nil {
			took, paid = wholeSeconds(*x.TookS), report.Fixed(0)(*x.Paid)
		}
		state := x.State
		if x.How != "" {
			state += " (" + x.How + ")"
		}
		return []any{x.Number, x.Victim.String(), x.VictimUser, x.GPUs, x.Purpose + " " + x.For.String(), x.ForUser, x.Nodes, report.Clock(x.Recorded), state,
			wholeSeconds(x.GraceS), took, report.Fixed(0)(x.Promised), paid, x.ClaimState, cmp.Or(x.Reason, x.ClaimReason)}
	})}
	return p
}

// Eviction is one eviction and how much of its grace is left.
type Eviction struct {
	store.Eviction
	LeftS float64 `json:"grace_left_s"` // 0 when it has left, or was not told yet
}

func (a *Asked) evictions(ctx context.Context) (shown, error) {
	listed, err := ReadEvictions(ctx, a.Store, nil, a.most(rowsOfPage))
	if err != nil {
		return nil, err
	}
	v := &EvictionPage{EvictionList: *listed, Since: a.Last.Until.Add(-week)}
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
	v.Past = OfWindows(v.Since, a.Last.Until, past).Windows
	sample, err := a.Store.LastSample(ctx)
	if err != nil {
		return nil, err
	}
	holders, err := a.Store.Holders(ctx)
	v.Coming = comingWindows(cluster.WindowsOf(sample.Reservations, a.Store.Now()), holders)
	return v, err
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
	for i := range v.Coming {
		w := &v.Coming[i]
		w.Until = slices.DeleteFunc(w.Until, func(j Held) bool { return j.User != user })
	}
}
