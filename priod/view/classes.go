package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Classes are the GPU jobs of a span of time by what made them TE or BE.
type Classes struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	By    []Classed `json:"by"`
}

// Classed are the jobs of one reason: a class rule, a QOS, the tag, the site's consent, or none.
type Classed struct {
	Why      string   `json:"why"`              // as plan.Reason; "": they started before a cycle saw them wait
	Detail   string   `json:"detail,omitempty"` // the class rule, the QOS, the table of consent, the budget
	Class    string   `json:"class"`            // in which most of them ran; "": none has run
	Jobs     int      `json:"jobs"`
	Users    int      `json:"users"`
	GPUHours float64  `json:"gpu_h"`
	P50      *float64 `json:"wait_p50_s"`
	P95      *float64 `json:"wait_p95_s"`
	Ran      *float64 `json:"run_p50_s"` // of those that have left the queue
	Waiting  int      `json:"waiting"`   // that have not run yet
}

// short are reasons in the words of a table.
var short = map[plan.Reason]string{
	"": "started before a cycle saw it", plan.TETag: "tag type=te", plan.BETag: "tag type=be", plan.OptedOut: "tag type=none", plan.Untagged: "untagged", plan.BadTag: "tag not valid",
	plan.OverBudget: "TE over budget", plan.Overrun: "TE that ran too long", plan.Held: "held", plan.Dependency: "waits for another job", plan.Reserved: "in a reservation",
	plan.Foreign: "partition not ranked", plan.Fragile: "left alone on this Slurm", plan.NotYet: "last seen before its begin time", plan.Component: "part of a heterogeneous job", plan.Evicted: "evicted before", plan.InShare: "within a guaranteed share", plan.Withheld: "beyond its account's share", plan.Round: "owed its GPU type",
}

// Words name what made the jobs TE or BE.
func (c *Classed) Words() string { return cmp.Or(c.Detail, short[plan.Reason(c.Why)], c.Why) }

// OfClasses sums jobs up, most GPU-hours first.
func OfClasses(since, until time.Time, jobs []store.JobTimes) *Classes {
	type key struct{ why, detail string }
	type sum struct {
		Classed
		users       map[string]bool
		waits, runs []float64
		classes     map[string]int
	}
	by := map[key]*sum{}
	for i := range jobs {
		j := &jobs[i]
		rule, _, _ := strings.Cut(j.Detail, "; ") // features add their words
		k := key{j.Why, rule}
		switch plan.Reason(j.Why) {
		case plan.TERule, plan.BERule, plan.TEQOS, plan.BEQOS, plan.BESite:
		default:
			k.detail = "" // of the one job
		}
		s := groupOf(by, k, sum{Classed: Classed{Why: k.why, Detail: k.detail}, users: map[string]bool{}, classes: map[string]int{}})
		s.Jobs += max(j.Tasks, 1)
		s.users[j.User] = true
		s.GPUHours += float64(j.GPUs) * j.Ran.Hours()
		if j.Start.IsZero() {
			if j.Left.IsZero() {
				s.Waiting += max(j.Tasks, 1)
			}
			continue // it came and went between two polls
		}
		s.classes[j.Class]++
		s.waits = append(s.waits, max(j.Start.Sub(j.Ready).Seconds(), 0))
		if !j.Left.IsZero() {
			s.runs = append(s.runs, j.Ran.Seconds())
		}
	}
	c := &Classes{Since: since, Until: until, By: []Classed{}}
	for _, s := range by {
		s.Users = len(s.users)
		s.P50, s.P95, s.Ran = percentile(s.waits, 50), percentile(s.waits, 95), percentile(s.runs, 50)
		for _, class := range slices.Sorted(maps.Keys(s.classes)) {
			if s.Class == "" || s.classes[class] > s.classes[s.Class] {
				s.Class = class
			}
		}
		c.By = append(c.By, s.Classed)
	}
	slices.SortFunc(c.By, func(a, b Classed) int {
		return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Why, b.Why), cmp.Compare(a.Detail, b.Detail))
	})
	return c
}

// Page shows them.
func (c *Classes) Page() *report.Page {
	p := &report.Page{Title: "What made jobs TE or BE", Words: []string{report.Between(c.Since, c.Until) + "."}}
	if len(c.By) == 0 {
		p.Words = append(p.Words, "No cycle has seen a GPU job.")
	}
	header := []string{"BECAUSE OF", "CLASS", "JOBS", "USERS", "GPU-HOURS", "WAIT P50", "P95", "RUN P50", "WAITING"}
	p.Tables = []report.PageTable{report.TableOf("", header, c.By, func(x *Classed) []any {
		return []any{x.Words(), cmp.Or(x.Class, "-"), x.Jobs, x.Users, tenths(x.GPUHours), report.Known(x.P50, report.Seconds), report.Known(x.P95, report.Seconds),
			report.Known(x.Ran, report.Seconds), x.Waiting}
	})}
	return p
}
