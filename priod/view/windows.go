package view

import (
	"cmp"
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
	Reboots []Reboot     `json:"reboots"`
}

// Reboot is a node that waits until its jobs have ended to reboot (scontrol reboot), and what they lose if they leave now.
type Reboot struct {
	Node string  `json:"node"`
	Jobs int     `json:"jobs"`
	Free int     `json:"free_gpus"` // that idle until then, where it drains
	Lost float64 `json:"lost_gpu_h"`
}

// OfReboots are they, those whose jobs lose least first: what came after a job's last checkpoint, or all that it ran; nothing
// where it saves its state on a signal.
func OfReboots(nodes []cluster.Node, holders []store.Holder, now time.Time) []Reboot {
	all := []Reboot{}
	for i := range nodes {
		n := &nodes[i]
		if !strings.Contains(n.State, "REBOOT_REQUESTED") {
			continue
		}
		x := Reboot{Node: n.Name, Free: n.GPUs - n.GPUsUsed}
		for k := range holders {
			h := &holders[k]
			if !slices.Contains(hosts(h.Nodes), n.Name) {
				continue
			}
			x.Jobs++
			unsaved := max(now.Sub(h.Start), 0)
			switch {
			case h.Tag.Signal != "":
				unsaved = 0
			case h.Tag.Ckpt > 0:
				unsaved %= h.Tag.Ckpt
			}
			x.Lost += unsaved.Hours() * float64(h.GPUs)
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b Reboot) int { return cmp.Or(cmp.Compare(a.Lost, b.Lost), cmp.Compare(a.Node, b.Node)) })
	return all
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

// ComingWindow is a window that has not ended, and the jobs on its nodes: those that leave before it, and how many others may
// run into it by their limits.
type ComingWindow struct {
	Name  string    `json:"name"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Nodes int       `json:"nodes"`
	Here  int       `json:"jobs_on_its_nodes"`
	Into  int       `json:"may_run_into_it"`
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
	coming, leaves := make([]ComingWindow, len(all)), map[cluster.JobID]bool{}
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
			v.Here++
			switch {
			case leaves[h.Job] || h.Limit != 0 && !h.Start.Add(h.Limit).After(w.Start):
			case h.UntilWindow:
				leaves[h.Job], v.Until = true, append(v.Until, Held{h.Job, h.User, h.GPUs})
			default:
				v.Into++
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
	if len(v.Reboots) > 0 {
		page.Tables = append(page.Tables, report.TableOf("Nodes that wait for a reboot, those first whose jobs lose least if they leave now", []string{"NODE", "JOBS", "FREE GPUS", "LOST"}, v.Reboots, func(x *Reboot) []any {
			return []any{report.Safe(x.Node), x.Jobs, x.Free, fmt.Sprintf("%.2f", x.Lost)}
		}))
	}
	if len(v.Windows) == 0 {
		page.Words = append(page.Words, "No job left before a window.")
		return page
	}
	page.Words = append(page.Words, "RAN: GPU-hours of jobs that else had waited for the end of the window. LOST: of these, with the time to leave and to start again.")
	page.Tables = append(page.Tables, report.TableOf("", []string{"WINDOW", "FIRST LEFT", "JOBS", "BACK", "RAN", "LOST", "END OF GRACE"}, v.Windows, func(w *WindowCost) []any {
		return []any{report.Safe(w.Name), report.Clock(w.First), w.Jobs, w.Back, fmt.Sprintf("%.1f", w.Ran), fmt.Sprintf("%.2f", w.Lost), w.Ended}
	}))
	return page
}
