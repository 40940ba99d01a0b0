package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/idle"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// WithoutWork is the time that jobs held GPUs and did no work, as far as priod found it.
type WithoutWork struct {
	GPUHours    float64      `json:"gpu_h"`
	Found       int          `json:"found"`
	FalseAlarms int          `json:"false_alarms"` // that ended by themselves
	Spells      []idle.Spell `json:"spells"`       // the largest first
	until       time.Time
}

// ReadWithoutWork reads what was found in a span of time.
func ReadWithoutWork(ctx context.Context, r *store.Reader, since, until time.Time) (*WithoutWork, error) {
	all, err := r.SpellsSince(ctx, since)
	if err != nil {
		return nil, err
	}
	v := &WithoutWork{until: until, Spells: []idle.Spell{}}
	for i := range all {
		x := all[i]
		if x.Found.IsZero() {
			continue
		}
		v.Found++
		v.GPUHours += v.hours(&x, since)
		if x.FalseAlarm() {
			v.FalseAlarms++
		}
		v.Spells = append(v.Spells, x)
	}
	slices.SortStableFunc(v.Spells, func(a, b idle.Spell) int { return cmp.Compare(v.hours(&b, since), v.hours(&a, since)) })
	return v, nil
}

// hours are the GPU-hours of a spell within a span of time.
func (v *WithoutWork) hours(x *idle.Spell, since time.Time) float64 {
	end := v.until
	if !x.End.IsZero() {
		end = cluster.Earlier(x.End, end)
	}
	return max(end.Sub(cluster.Later(x.Since, since)).Hours(), 0) * float64(x.GPUs)
}

func (v *WithoutWork) table() report.PageTable {
	header := []string{"JOB", "USER", "NAME", "GPUS", "SINCE", "WHAT", "ENDED", "GPU-HOURS"}
	return report.TableOf("Held without work", header, v.Spells, func(x *idle.Spell) []any {
		ended := string(x.How)
		switch {
		case x.How == "":
			ended = "it lasts"
		case x.FalseAlarm():
			ended = "by itself: a false alarm"
		}
		return []any{x.Job.String(), x.User, x.Name, x.GPUs, report.Clock(x.Since), string(x.Kind) + " (" + x.Source + ")", ended, tenths(x.GPUHours(v.until))}
	})
}

// words sum it up.
func (v *WithoutWork) words() []string {
	if v == nil {
		return []string{"What jobs did with their GPUs is in the state folder, which cannot be read."}
	}
	return []string{report.Plural(v.Found, "time", "times") + " without work found, " + tenths(v.GPUHours) + " GPU-hours; " + report.Plural(v.FalseAlarms, "false alarm", "false alarms") + "."}
}
