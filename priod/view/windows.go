package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Windows are what windows of maintenance cost the jobs that ran until them.
type Windows struct {
	Since   time.Time    `json:"since"`
	Until   time.Time    `json:"until"`
	Windows []WindowCost `json:"windows"`
}

// WindowCost is what one window cost, and what it would have: without priod these jobs wait for its end.
type WindowCost struct {
	Name  string    `json:"name"`
	First time.Time `json:"first"`       // a job left before it
	Jobs  int       `json:"jobs"`        // that left before it
	Back  int       `json:"back"`        // of these, that run again, or have ended
	Ran   float64   `json:"ran_gpu_h"`   // by these runs; else idle
	Lost  float64   `json:"lost_gpu_h"`  // work of them, with the time to leave and to start again
	Ended int       `json:"ended_early"` // jobs that had to be requeued at the end of their grace
}

// ComingWindow is a window that has not ended, and the jobs that run until it, or into it: those on its nodes whose limits reach
// into it.
type ComingWindow struct {
	Name  string    `json:"name"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Nodes int       `json:"nodes"`
	Here  int       `json:"jobs_on_its_nodes"`
	Until []Held    `json:"run_until_it"`
}

// GPUs are those of the jobs that run until it.
func (w *ComingWindow) GPUs() (n int) {
	for i := range w.Until {
		n += w.Until[i].GPUs
	}
	return n
}

// windowJobs are shown of a window.
const windowJobs = 20

// Shown are the first of the jobs that run until it, and More how many others there are.
func (w *ComingWindow) Shown() []Held { return w.Until[:min(len(w.Until), windowJobs)] }

// More is that of Shown.
func (w *ComingWindow) More() int { return len(w.Until) - len(w.Shown()) }

func comingWindows(all []cluster.Window, holders []store.Holder) []ComingWindow {
	coming := make([]ComingWindow, len(all))
	for i := range all {
		w := &all[i]
		v := ComingWindow{Name: w.Name, Start: w.Start, End: w.End, Nodes: len(w.Nodes), Until: []Held{}}
		in := map[string]bool{}
		for _, name := range w.Nodes {
			in[name] = true
		}
		for k := range holders {
			h := &holders[k]
			if !slices.ContainsFunc(hosts(h.Nodes), func(name string) bool { return in[name] }) {
				continue
			}
			if v.Here++; h.Limit == 0 || h.Start.Add(h.Limit).After(w.Start) {
				v.Until = append(v.Until, Held{h.Job, h.User, h.GPUs})
			}
		}
		coming[i] = v
	}
	return coming
}

// OfWindows sums up the evictions before windows.
func OfWindows(since, until time.Time, evictions []store.Eviction) *Windows {
	v, at := &Windows{Since: since, Until: until, Windows: []WindowCost{}}, map[string]int{}
	for i := range evictions {
		x := &evictions[i]
		if x.Purpose != string(evict.ForWindow) || x.Signalled.IsZero() {
			continue
		}
		k, known := at[x.ClaimReason]
		if !known {
			k = len(v.Windows)
			at[x.ClaimReason] = k
			v.Windows = append(v.Windows, WindowCost{Name: strings.TrimPrefix(x.ClaimReason, "the window "), First: x.Signalled})
		}
		w := &v.Windows[k]
		w.Jobs++
		w.Ran += float64(x.GPUs) * max(x.Signalled.Sub(x.Start).Hours(), 0)
		if x.Paid != nil {
			w.Lost += *x.Paid / 3600
		}
		if x.State == string(evict.Done) {
			w.Back++
		}
		if x.How == string(evict.Forced) {
			w.Ended++
		}
	}
	return v
}

// Page is the report for people.
func (v *Windows) Page() *report.Page {
	page := &report.Page{Title: "What windows of maintenance cost", Words: []string{report.Between(v.Since, v.Until) + "."}}
	if len(v.Windows) == 0 {
		page.Words = append(page.Words, "No job left before a window.")
		return page
	}
	page.Words = append(page.Words, "RAN: GPU-hours of jobs that else had waited for the end of the window. LOST: of these, with the time to leave and to start again.")
	page.Tables = []report.PageTable{report.TableOf("", []string{"WINDOW", "FIRST LEFT", "JOBS", "BACK", "RAN", "LOST", "END OF GRACE"}, v.Windows, func(w *WindowCost) []any {
		return []any{report.Safe(w.Name), report.Clock(w.First), w.Jobs, w.Back, fmt.Sprintf("%.1f", w.Ran), fmt.Sprintf("%.2f", w.Lost), w.Ended}
	})}
	return page
}
