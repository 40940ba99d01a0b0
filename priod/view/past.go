package view

import (
	"cmp"
	"context"
	"fmt"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Past is what happened in the last cycles, the latest first.
type Past struct {
	Cycles []store.Cycle `json:"cycles"`
	Writes []store.Write `json:"writes"`
}

// ReadPast is at most so many cycles and writes.
func ReadPast(ctx context.Context, r *store.Reader, most int) (p *Past, err error) {
	p = &Past{}
	if p.Cycles, err = r.Cycles(ctx, most); err != nil {
		return nil, err
	}
	p.Writes, err = r.Writes(ctx, most)
	return p, err
}

// Page shows it.
func (p *Past) Page() *report.Page {
	cycles := report.TableOf("", []string{"CYCLE", "AT", "POLLS", "JOBS", "RANKED", "TE", "WRITES", "RENUMBERED", "HELD BACK"}, p.Cycles, func(x *store.Cycle) []any {
		return []any{x.Number, report.Clock(x.At), x.Polls, x.Jobs, x.Ranked, x.TE, x.Actions, x.Renumbered, x.Hold}
	})
	return &report.Page{Title: "Past cycles and writes", Tables: []report.PageTable{cycles, writesTable(p.Writes, true)}}
}

// Story is all that is stored of a job.
type Story struct{ *store.Story }

// Page shows what was decided, written, and when it ran.
func (s Story) Page() *report.Page {
	return &report.Page{
		Title: "Job " + s.Job.ID.String(), Words: []string{fmt.Sprintf("Job %s of %s: first seen %s, %s now.", s.Job.ID, s.Job.User, report.Clock(s.Job.Seen), s.Job.State)},
		Tables: []report.PageTable{
			report.TableOf("", []string{"CYCLE", "DECIDED", "CLASS", "VALUE", "WHY", "DETAIL"}, s.Decisions, func(d *store.Decision) []any {
				return []any{d.Cycle, report.Clock(d.At), d.Class.String(), d.Value, d.Why, cmp.Or(d.Unmoved, d.Detail)}
			}),
			writesTable(s.Writes, false),
			report.TableOf("", []string{"STARTED", "ENDED", "GPUS", "TYPE", "GPU-SECONDS", "CLASS"}, s.Stays, func(x *store.Stay) []any {
				end := report.Clock(x.End)
				if !x.Closed {
					end = "running"
				}
				return []any{report.Clock(x.Start), end, x.GPUs, x.GPUType, fmt.Sprintf("%.0f", x.GPUSeconds), x.Class.String()}
			}),
		},
	}
}

// writesTable has a row for each write, with its job or without.
func writesTable(writes []store.Write, withJob bool) report.PageTable {
	header := []string{"CYCLE", "AT", "LEVER", "BEFORE", "AFTER", "WHY", "RESULT"}
	if withJob {
		header = append([]string{"JOB", "USER"}, header...)
	}
	return report.TableOf("", header, writes, func(x *store.Write) []any {
		row := []any{x.Cycle, report.Clock(x.At), x.Field(), x.Before.Words(), x.After.Words(), x.Reason, Result(x.Outcome)}
		if withJob { // which names the tasks
			row[2] = string(x.Lever)
			row = append([]any{Target(x.Action), x.User}, row...)
		}
		return row
	})
}
