package view

import (
	"fmt"
	"math"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// ETA scores the expected starts that jobs were first told.
type ETA struct {
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"`
	All         ETAOf     `json:"all"`
	BySize      []ETAOf   `json:"by_size"`
	ByPartition []ETAOf   `json:"by_partition"`
}

// ETAOf is the part of one size or partition.
type ETAOf struct {
	Name     string   `json:"name"`
	Promised int      `json:"promised"` // jobs with an expected start
	Scored   int      `json:"scored"`   // of those that started, or still wait beyond what nine of ten were said not to exceed
	Held     *float64 `json:"p90_held"` // part of these that started by then; null: none
	Started  int      `json:"started"`
	ErrorS   *float64 `json:"median_error_s"`        // median distance of the start from the median that was said; null: none started
	LimitsS  *float64 `json:"median_error_limits_s"` // the same of what time limits said
	Minute   *float64 `json:"within_1m"`             // part of those that started within a minute of the median that was said
	TenMin   *float64 `json:"within_10m"`
}

// OfETA scores promises.
func OfETA(since, until time.Time, promises []store.Promise) *ETA {
	e := &ETA{Since: since, Until: until, All: score("all", promises, until)}
	group := func(of func(*store.Promise) string) []ETAOf {
		groups := map[string]*[]store.Promise{}
		for i := range promises {
			of := groupOf(groups, of(&promises[i]), nil)
			*of = append(*of, promises[i])
		}
		all := map[string]*ETAOf{}
		for name, of := range groups {
			groupOf(all, name, score(name, *of, until))
		}
		return ranked(all, func(x *ETAOf) float64 { return float64(x.Promised) })
	}
	e.BySize = group(func(p *store.Promise) string { return SizeClass(p.GPUs) })
	e.ByPartition = group(func(p *store.Promise) string { return cluster.PartitionSet(p.Partition) })
	return e
}

func score(name string, promises []store.Promise, until time.Time) ETAOf {
	of := ETAOf{Name: name, Promised: len(promises)}
	held, near, ten := 0, 0, 0
	var errors, limits []float64
	for i := range promises {
		p := &promises[i]
		kept, scored := p.Held(until)
		if scored {
			of.Scored++
		}
		if kept {
			held++
		}
		if !p.Start.IsZero() {
			off := math.Abs(p.Start.Sub(p.Median).Seconds())
			errors, limits = append(errors, off), append(limits, math.Abs(p.Start.Sub(p.Limits).Seconds()))
			if off <= 60 {
				near++
			}
			if off <= 600 {
				ten++
			}
		}
	}
	part := func(n, all int) *float64 {
		if all == 0 {
			return nil
		}
		x := float64(n) / float64(all)
		return &x
	}
	of.Started = len(errors)
	of.Held, of.Minute, of.TenMin = part(held, of.Scored), part(near, of.Started), part(ten, of.Started)
	of.ErrorS, of.LimitsS = percentile(errors, 50), percentile(limits, 50)
	return of
}

// Words sum it up in a sentence.
func (e *ETA) Words() string {
	a := &e.All
	switch {
	case a.Promised == 0:
		return "no start was expected from past runs: accounting knows too few, or no job waited"
	case a.Held == nil:
		return fmt.Sprintf("%d expected starts, none of which can be scored yet", a.Promised)
	}
	return fmt.Sprintf("%d expected starts, %d scored: %.0f %% started by their time for nine of ten", a.Promised, a.Scored, 100**a.Held)
}

// Page shows them.
func (e *ETA) Page() *report.Page {
	p := &report.Page{Title: "Whether jobs started when they were expected to", Words: []string{report.Between(e.Since, e.Until) + ": " + e.Words() + "."}}
	if e.All.Promised == 0 {
		return p
	}
	for _, t := range []struct {
		title string
		rows  []ETAOf
	}{{"SIZE", append([]ETAOf{e.All}, e.BySize...)}, {"PARTITION", e.ByPartition}} {
		header := []string{t.title, "EXPECTED", "SCORED", "HELD", "STARTED", "ERROR", "BY LIMITS", "WITHIN 1m", "WITHIN 10m"}
		p.Tables = append(p.Tables, report.TableOf("", header, t.rows, func(o *ETAOf) []any {
			return []any{o.Name, o.Promised, o.Scored, report.Known(o.Held, report.Percent), o.Started, report.Known(o.ErrorS, report.Seconds), report.Known(o.LimitsS, report.Seconds),
				report.Known(o.Minute, report.Percent), report.Known(o.TenMin, report.Percent)}
		}))
	}
	return p
}
