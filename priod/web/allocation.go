package web

import (
	"context"
	"html/template"
	"math"
	"net/url"
	"slices"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

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

func allocation(ctx context.Context, r *store.Reader, _ *store.Cycle, asked url.Values) (shown, error) {
	_, skip, err := partOf(url.Values{"page": asked["page"]}, 1<<40)
	if err != nil {
		return nil, err
	}
	v := &AllocationView{}
	jobs, all, err := sharesOf(ctx, r, skip)
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

// sharesOf are those of one page, and how many there are that the viewer may see.
func sharesOf(ctx context.Context, r *store.Reader, skip int) (page []store.JobShare, all int, err error) {
	user := viewer(ctx)
	if user == "" {
		return r.Shares(ctx, skip, rowsOfPage)
	}
	page, _, err = r.Shares(ctx, 0, math.MaxInt32)
	page = slices.DeleteFunc(page, func(j store.JobShare) bool { return j.User != user })
	all = len(page)
	return page[min(skip, all):min(skip+rowsOfPage, all)], all, err
}
