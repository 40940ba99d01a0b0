package view

import (
	"context"
	"math"
	"slices"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Allocation is the page of the allocation.
type Allocation struct {
	Part
	Jobs []store.JobShare `json:"jobs"`
	Owed []Owed           `json:"owed"` // those that are owed most, of the page
}

// Owed is what a job is owed on all types together.
type Owed struct {
	Job   string  `json:"job"`
	Hours float64 `json:"owed_h"`
}

// Figure draws what the jobs of the page are owed.
func (v *Allocation) Figure() *report.Figure {
	f := &report.Figure{Title: "Time owed to the jobs that are owed most", YLabel: "hours", XLabel: "job"}
	for _, x := range v.Owed {
		f.Bars = append(f.Bars, report.Bar{Name: x.Job, Value: x.Hours})
	}
	return f
}

func (a *Asked) allocation(ctx context.Context) (shown, error) {
	_, skip, err := a.part("allocation", 1<<40)
	if err != nil {
		return nil, err
	}
	jobs, all, err := a.shares(ctx, skip)
	if err != nil {
		return nil, err
	}
	v := &Allocation{Jobs: jobs, Owed: []Owed{}}
	for i := range jobs[:min(len(jobs), 20)] {
		x := Owed{Job: jobs[i].Job.String()}
		for _, t := range jobs[i].Types {
			x.Hours += t.OwedS / 3600
		}
		v.Owed = append(v.Owed, x)
	}
	v.Part, _, err = a.part("allocation", all)
	return v, err
}

// shares are those of one page, and how many there are that the viewer may see.
func (a *Asked) shares(ctx context.Context, skip int) (page []store.JobShare, all int, err error) {
	if a.User == "" {
		return a.Store.Shares(ctx, skip, rowsOfPage)
	}
	page, _, err = a.Store.Shares(ctx, 0, math.MaxInt32)
	page = slices.DeleteFunc(page, func(j store.JobShare) bool { return j.User != a.User })
	all = len(page)
	return page[min(skip, all):min(skip+rowsOfPage, all)], all, err
}

func (v *Allocation) only(user string) {
	v.Jobs = slices.DeleteFunc(v.Jobs, func(j store.JobShare) bool { return j.User != user })
	v.Owed = slices.DeleteFunc(v.Owed, func(o Owed) bool {
		return !slices.ContainsFunc(v.Jobs, func(j store.JobShare) bool { return j.Job.String() == o.Job })
	})
}
