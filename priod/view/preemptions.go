package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/report"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/store"
	"slurmprio/slurmplug/jobtag"
)

// Preemptions is what preemption gave to TE jobs and took from BE jobs.
type Preemptions struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`

	TE         Waits      `json:"te"`
	BE         Slowdowns  `json:"be"`
	Evicted    Slowdowns  `json:"be_evicted"` // those of BE that were evicted
	Evictions  Evictions  `json:"evictions"`
	Rounds     Evictions  `json:"rounds"`      // those at the end of rounds; in none of the others
	Gangs      Evictions  `json:"gangs"`       // those that freed nodes for gangs; in none of the others
	Windows    Evictions  `json:"windows"`     // those before maintenance; in none of the others
	ByUser     []Victims  `json:"by_user"`     // of the jobs that left
	ByWorkload []Victims  `json:"by_workload"` // the same, by the workload of their tag
	ForUser    []Benefits `json:"for_user"`    // of the TE jobs
}

// Waits are those from when a job could have run (store.JobTimes.Ready) to its first start.
type Waits struct {
	Jobs    int      `json:"jobs"`    // that started
	Waiting int      `json:"waiting"` // that have not
	P50     *float64 `json:"wait_p50_s"`
	P95     *float64 `json:"wait_p95_s"`
	P99     *float64 `json:"wait_p99_s"`
}

// Slowdowns are those of jobs that have left the queue: 1 + wait / run time,
// where work that an eviction lost is no run time.
type Slowdowns struct {
	Jobs int      `json:"jobs"`
	P50  *float64 `json:"slowdown_p50"`
	P95  *float64 `json:"slowdown_p95"`
	P99  *float64 `json:"slowdown_p99"`
}

// Evictions are those of which the victim had its signal. A promise is kept by
// that left within the grace period, whatever its exit status, and broken by one that
// had to be ended; one that was cancelled or hit its limit meanwhile did neither.
type Evictions struct {
	Count     int            `json:"count"`
	Underway  int            `json:"underway"`
	CalledOff int            `json:"called_off"` // before the signal; not in count
	Promised  float64        `json:"lost_promised_gpu_h"`
	Lost      float64        `json:"lost_gpu_h"`
	Kept      int            `json:"promises_kept"`
	Broken    int            `json:"promises_broken"`
	How       map[string]int `json:"how"` // they left
}

// Any reports whether there were any.
func (e *Evictions) Any() bool { return e.Count+e.Underway+e.CalledOff > 0 }

// Victims are the evictions of one user's or one workload's jobs.
type Victims struct {
	Name   string   `json:"name"` // "" for jobs that name no workload
	Count  int      `json:"evictions"`
	Jobs   int      `json:"jobs"`
	Lost   float64  `json:"lost_gpu_h"`
	Kept   int      `json:"promises_kept"`
	Broken int      `json:"promises_broken"`
	P50    *float64 `json:"took_p50_s"` // from the signal until it had left
	P95    *float64 `json:"took_p95_s"`
}

// Benefits are the evictions on behalf of one user's TE jobs.
type Benefits struct {
	User  string  `json:"user"`
	Count int     `json:"evictions"`
	Jobs  int     `json:"te_jobs"`
	Lost  float64 `json:"lost_gpu_h"`
}

// OfPreemptions sums up what the store holds of a span of time.
func OfPreemptions(since, until time.Time, stays []store.JobTimes, evictions []store.Eviction) *Preemptions {
	p := &Preemptions{Since: since, Until: until}
	lost, forTE := p.evictions(evictions)
	stays = joined(stays, lost)
	var waits, slowdowns, evicted []float64
	for i := range stays {
		x := &stays[i]
		switch {
		case x.Start.IsZero():
			if x.Left.IsZero() && x.Tag.Type == "te" {
				p.TE.Waiting += max(x.Tasks, 1)
			}
		case x.Class == cluster.TE.String():
			waits = append(waits, max(x.Start.Sub(x.Ready).Seconds(), 0))
		case !x.Left.IsZero():
			useful := x.Ran.Seconds()
			seconds, was := lost[x.Job]
			if was {
				useful -= seconds
			}
			if useful <= 0 {
				continue
			}
			s := max(1, x.End.Sub(x.Ready).Seconds()/useful)
			slowdowns = append(slowdowns, s)
			if forTE[x.Job] {
				evicted = append(evicted, s)
			}
		}
	}
	p.TE.Jobs = len(waits)
	p.TE.P50, p.TE.P95, p.TE.P99 = percentile(waits, 50), percentile(waits, 95), percentile(waits, 99)
	p.BE.Jobs, p.Evicted.Jobs = len(slowdowns), len(evicted)
	p.BE.P50, p.BE.P95, p.BE.P99 = percentile(slowdowns, 50), percentile(slowdowns, 95), percentile(slowdowns, 99)
	p.Evicted.P50, p.Evicted.P95, p.Evicted.P99 = percentile(evicted, 50), percentile(evicted, 95), percentile(evicted, 99)
	return p
}

// joined makes one of the rows of a victim that left the queue because of its
// signal and came back.
func joined(stays []store.JobTimes, victims map[cluster.JobID]float64) []store.JobTimes {
	var out []store.JobTimes
	at := map[cluster.JobID]int{}
	for _, x := range stays {
		i, again := at[x.Job]
		if _, victim := victims[x.Job]; !victim || !again {
			at[x.Job] = len(out)
			out = append(out, x)
			continue
		}
		was := &out[i]
		was.Ran += x.Ran
		was.Left = x.Left
		if was.Start.IsZero() {
			was.Start, was.Class = x.Start, x.Class
		}
		if x.End.After(was.End) {
			was.End = x.End
		}
	}
	return out
}

// evictions fills in all that is about them, and returns the seconds that each
// victim lost, and which jobs were evicted for a TE job.
func (p *Preemptions) evictions(all []store.Eviction) (lost map[cluster.JobID]float64, forTE map[cluster.JobID]bool) {
	lost, forTE = map[cluster.JobID]float64{}, map[cluster.JobID]bool{}
	p.Evictions.How, p.Rounds.How, p.Gangs.How, p.Windows.How = map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	users, workloads, benefits := groups{}, groups{}, groups{}
	for i := range all {
		x := &all[i]
		sum := &p.Evictions
		switch evict.Purpose(x.Purpose) {
		case evict.ForRound:
			sum = &p.Rounds
		case evict.ForGang:
			sum = &p.Gangs
		case evict.ForWindow:
			sum = &p.Windows
		}
		paid, kept, broken := sum.add(x)
		if x.Signalled.IsZero() {
			continue
		}
		lost[x.Victim] += paid / float64(max(x.GPUs, 1))
		if sum != &p.Evictions {
			continue
		}
		forTE[x.Victim] = true
		users.add(x.VictimUser, x.Victim, x, paid, kept, broken)
		workloads.add(jobtag.Read(x.VictimTag).Workload, x.Victim, x, paid, kept, broken)
		benefits.add(x.ForUser, x.For, x, paid, kept, broken)
	}
	p.ByUser, p.ByWorkload = users.list(), workloads.list()
	p.ForUser = []Benefits{}
	for _, b := range benefits.list() {
		p.ForUser = append(p.ForUser, Benefits{User: b.Name, Count: b.Count, Jobs: b.Jobs, Lost: b.Lost})
	}
	return lost, forTE
}

// add counts one eviction, and returns what it cost and what became of the promise.
func (e *Evictions) add(x *store.Eviction) (paid float64, kept, broken int) {
	switch {
	case x.Signalled.IsZero() && x.State == string(evict.CalledOff):
		e.CalledOff++
		return 0, 0, 0
	case x.Signalled.IsZero():
		e.Underway++
		return 0, 0, 0
	case x.Ended.IsZero():
		e.Underway++
	}
	if x.Paid != nil {
		paid = *x.Paid
	}
	kept, broken = promise(x)
	e.Count++
	e.Promised += x.Promised / 3600
	e.Lost += paid / 3600
	e.Kept += kept
	e.Broken += broken
	if x.How != "" {
		e.How[x.How]++
	}
	return paid, kept, broken
}

// promise reports whether a victim's promise, its grace period, was kept or broken.
func promise(x *store.Eviction) (kept, broken int) {
	switch evict.How(x.How) {
	case evict.Exited, evict.Finished, evict.Returned:
		if x.TookS != nil && *x.TookS <= x.GraceS {
			return 1, 0
		}
		return 0, 1
	case evict.Forced:
		return 0, 1
	}
	return 0, 0
}

// groups are evictions by one of their properties, with the jobs that left or that they
// were for.
type groups map[string]*group

type group struct {
	Victims
	jobs map[cluster.JobID]bool
	took []float64
}

func (g groups) add(name string, job cluster.JobID, x *store.Eviction, paid float64, kept, broken int) {
	v := groupOf(g, name, group{Victims: Victims{Name: name}, jobs: map[cluster.JobID]bool{}})
	v.Count++
	v.Lost += paid / 3600
	v.Kept += kept
	v.Broken += broken
	v.jobs[job] = true
	if x.TookS != nil && kept+broken > 0 {
		v.took = append(v.took, *x.TookS)
	}
}

// list has those that lost most first.
func (g groups) list() []Victims {
	all := []Victims{}
	for _, v := range ranked(g, func(x *group) float64 { return x.Lost }) {
		v.Jobs, v.P50, v.P95 = len(v.jobs), percentile(v.took, 50), percentile(v.took, 95)
		all = append(all, v.Victims)
	}
	return all
}

// percentile is one of values, which it sorts; nil of nothing.
func percentile(values []float64, p float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	v := metrics.Percentile(values, p)
	return &v
}

// Page shows it with a plot.
func (p *Preemptions) Page() *report.Page {
	page := &report.Page{Title: "What preemption brought and cost", Words: []string{report.Between(p.Since, p.Until) + "."}, Tables: append([]report.PageTable{delays(p)}, victims(p)...)}
	if !p.Evictions.Any() {
		page.Words = append(page.Words, "No job was evicted for a TE job.")
	}
	for _, of := range []struct {
		title string
		sum   *Evictions
	}{
		{"For TE jobs", &p.Evictions}, {"At the end of rounds, for BE jobs that were owed their GPUs", &p.Rounds},
		{"To free nodes for gangs", &p.Gangs}, {"Before windows of maintenance", &p.Windows},
	} {
		if of.sum.Any() {
			words := of.sum.words()
			words[0] = of.title + ": " + words[0]
			page.Words = append(page.Words, words...)
		}
	}
	bars := report.Figure{Title: "GPU-hours lost for TE jobs, by user", YLabel: "GPU-hours"}
	for _, v := range p.ByUser[:min(len(p.ByUser), mostBars)] {
		bars.Bars = append(bars.Bars, report.Bar{Name: v.Name, Value: v.Lost})
	}
	page.Plot(bars)
	return page
}

func wholeSeconds(s float64) string { return report.Fixed(0)(s) + "s" }

// delays are how long TE jobs waited, and how much longer BE jobs took.
func delays(p *Preemptions) report.PageTable {
	waiting := ""
	if p.TE.Waiting > 0 {
		waiting = fmt.Sprintf("%d more wait", p.TE.Waiting)
	}
	slowdown := func(s *Slowdowns, name string) []any {
		return []any{name, s.Jobs, report.Known(s.P50, report.Fixed(2)), report.Known(s.P95, report.Fixed(2)), report.Known(s.P99, report.Fixed(2)), ""}
	}
	return report.PageTable{Title: "Waits of TE jobs, slowdowns of BE jobs", Header: []string{"", "JOBS", "P50", "P95", "P99", ""}, Rows: [][]any{
		{"TE: wait", p.TE.Jobs, report.Known(p.TE.P50, wholeSeconds), report.Known(p.TE.P95, wholeSeconds), report.Known(p.TE.P99, wholeSeconds), waiting},
		slowdown(&p.BE, "BE: slowdown"), slowdown(&p.Evicted, "  of the evicted"),
	}}
}

// victims are the jobs that left for TE jobs, and for which.
func victims(p *Preemptions) []report.PageTable {
	left := func(title string, all []Victims) report.PageTable {
		return report.TableOf("", []string{title, "EVICTIONS", "JOBS", "GPU-HOURS LOST", "KEPT", "BROKEN", "TOOK P50", "P95"}, all, func(v *Victims) []any {
			return []any{cmp.Or(v.Name, "(none)"), v.Count, v.Jobs, fmt.Sprintf("%.2f", v.Lost), v.Kept, v.Broken, report.Known(v.P50, wholeSeconds), report.Known(v.P95, wholeSeconds)}
		})
	}
	return []report.PageTable{
		left("LEFT: USER", p.ByUser), left("LEFT: WORKLOAD", p.ByWorkload),
		report.TableOf("", []string{"FOR: USER", "EVICTIONS", "TE JOBS", "GPU-HOURS LOST"}, p.ForUser, func(b *Benefits) []any {
			return []any{b.User, b.Count, b.Jobs, fmt.Sprintf("%.2f", b.Lost)}
		}),
	}
}

// words sum them up.
func (e *Evictions) words() []string {
	var how []string
	for _, word := range slices.Sorted(maps.Keys(e.How)) {
		how = append(how, fmt.Sprintf("%s %d", word, e.How[word]))
	}
	words := []string{
		fmt.Sprintf("%s (%s), %d under way, %d called off before the signal.", report.Count(e.Count, "eviction"), strings.Join(how, ", "), e.Underway, e.CalledOff),
		fmt.Sprintf("Lost: %.2f GPU-hours; %.2f were expected.", e.Lost, e.Promised),
	}
	if told := e.Kept + e.Broken; told > 0 {
		words = append(words, fmt.Sprintf("Left within the grace period: %d of %d (%s).", e.Kept, told, report.Percent(float64(e.Kept)/float64(told))))
	}
	return words
}
