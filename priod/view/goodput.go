package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Goodput is where the GPU-hours of a span of time went: those that jobs held, and those of the cluster.
type Goodput struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`

	Sampled float64     `json:"sampled_h"` // hours of the span of which the daemon has samples
	Cluster []HoursOf   `json:"cluster"`   // of all GPUs, by what became of them, while samples were taken
	Total   GoodputOf   `json:"total"`
	Account []GoodputOf `json:"by_account"`
	User    []GoodputOf `json:"by_user"`
	Lost    []LostRun   `json:"lost"`   // the largest first
	Unread  []string    `json:"unread"` // rows of accounting that are left out, and why
	Notes   []string    `json:"-"`
}

// HoursOf is one part of the cluster's GPU-hours.
type HoursOf struct {
	Part     string  `json:"part"`
	GPUHours float64 `json:"gpu_h"`
	See      string  `json:"see"` // what names the jobs or nodes
}

// GoodputOf is what the GPU-hours of one account or user came to. What runs hold now counts as Good.
type GoodputOf struct {
	Name      string  `json:"name"`
	Runs      int     `json:"runs"`
	GPUHours  float64 `json:"gpu_h"` // that its runs held
	Good      float64 `json:"good_gpu_h"`
	Evicted   float64 `json:"evicted_gpu_h"` // lost to priod's evictions
	Requeued  float64 `json:"requeued_gpu_h"`
	Failed    float64 `json:"failed_gpu_h"`
	TimeLimit float64 `json:"time_limit_gpu_h"`
	Cancelled float64 `json:"cancelled_gpu_h"` // by users; what it was worth is not known
}

// LostRun is one run, or the end of it, on which no later one builds.
type LostRun struct {
	Job      cluster.JobID `json:"job"`
	User     string        `json:"user"`
	Account  string        `json:"account"`
	Cause    Loss          `json:"cause"`
	End      time.Time     `json:"end"`
	GPUHours float64       `json:"gpu_h"`

	from time.Time
	gpus int
}

// Loss is why GPU time was lost.
type Loss string

// The causes of a loss.
const (
	ByEviction  Loss = "eviction"
	ByRequeue   Loss = "requeue"    // Slurm's preemption, or scontrol requeue
	ByFailure   Loss = "failure"    // of the job or a node
	ByTimeLimit Loss = "time limit" // of a job that does not save its state
	ByCancel    Loss = "cancelled"
)

// lossOf is which part of the end of a run that ended no later run builds on, and why: all of it where the job does not save its
// state, what came after its last checkpoint where it does (Tag.Ckpt), nothing where a signal has it save (Tag.Signal) and one came. paid is what
// an eviction of the run cost, GPU-seconds; nil: none did.
func lossOf(r *cluster.PastStay, paid *float64) (lost time.Duration, why Loss) {
	ran := r.Length()
	after := ran
	if r.Tag.Ckpt > 0 {
		after = ran % r.Tag.Ckpt
	}
	switch {
	case paid != nil: // a run that saves and exits with 0 has COMPLETED
		return min(ran, time.Duration(*paid/float64(max(r.GPUs, 1))*float64(time.Second))), ByEviction
	case r.State == "PREEMPTED" || r.State == "REQUEUED":
		return after, ByRequeue
	}
	switch r.State {
	case "COMPLETED":
		return 0, ""
	case "CANCELLED":
		return ran, ByCancel
	case "TIMEOUT", "DEADLINE":
		if r.Tag.Signal != "" {
			return 0, ""
		}
		return after, ByTimeLimit
	}
	return after, ByFailure
}

// evictionCosts are those of evictions, GPU-seconds, by victim; a requeued run ends within leaves of when it left.
type evictionCosts map[cluster.JobID][]*store.Eviction

const leaves = 2 * time.Minute

func evictionsOf(all []store.Eviction) evictionCosts {
	by := evictionCosts{}
	for i := range all {
		if e := &all[i]; !e.Left.IsZero() && e.Paid != nil {
			by[e.Victim] = append(by[e.Victim], e)
		}
	}
	return by
}

// paid is what the eviction that ended a run cost; nil: none did.
func (x evictionCosts) paid(r *cluster.PastStay) *float64 {
	for _, e := range x[r.Job] {
		if e.Left.After(r.Start) && e.Left.Sub(r.End).Abs() <= leaves {
			return e.Paid
		}
	}
	return nil
}

// OfGoodput sums up the runs of a span of time, those that ended and those that run, with the evictions and the samples of the same
// span.
func OfGoodput(since, until time.Time, runs []cluster.PastStay, evictions []store.Eviction, samples []store.Sample) *Goodput {
	g := &Goodput{Since: since, Until: until, Cluster: []HoursOf{}, Lost: []LostRun{}, Total: GoodputOf{Name: "all"}}
	account, user, by := map[string]*GoodputOf{}, map[string]*GoodputOf{}, evictionsOf(evictions)
	for i := range runs {
		r := &runs[i]
		start, end := cluster.Later(r.Start, since), cluster.Earlier(r.End, until)
		if r.GPUs == 0 || r.Start.IsZero() || !end.After(start) {
			continue
		}
		held, lost := end.Sub(start).Hours()*float64(r.GPUs), LostRun{}
		if r.Closed {
			lost = lostOf(r, by.paid(r), since, until)
		}
		for _, of := range []*GoodputOf{&g.Total, groupOf(account, r.Account, GoodputOf{Name: r.Account}), groupOf(user, r.User, GoodputOf{Name: r.User})} {
			of.add(held, &lost)
		}
		if lost.GPUHours > 0 {
			g.Lost = append(g.Lost, lost)
		}
	}
	hours := func(x *GoodputOf) float64 { return x.GPUHours }
	g.Account, g.User = ranked(account, hours), ranked(user, hours)
	g.sampled(samples)
	slices.SortStableFunc(g.Lost, func(a, b LostRun) int { return cmp.Compare(b.GPUHours, a.GPUHours) })
	return g
}

// lostOf is what of a span of time a run lost.
func lostOf(r *cluster.PastStay, paid *float64, since, until time.Time) LostRun {
	lost, why := lossOf(r, paid)
	x := LostRun{Job: r.Job, User: r.User, Account: r.Account, Cause: why, End: cluster.Earlier(r.End, until), from: cluster.Later(r.End.Add(-lost), since), gpus: r.GPUs}
	x.GPUHours = max(0, x.End.Sub(x.from).Hours()) * float64(r.GPUs)
	return x
}

// add counts a run that held so many GPU-hours, and what of these was lost.
func (g *GoodputOf) add(held float64, lost *LostRun) {
	g.Runs, g.GPUHours, g.Good = g.Runs+1, g.GPUHours+held, g.Good+held-lost.GPUHours
	switch lost.Cause {
	case ByEviction:
		g.Evicted += lost.GPUHours
	case ByRequeue:
		g.Requeued += lost.GPUHours
	case ByFailure:
		g.Failed += lost.GPUHours
	case ByTimeLimit:
		g.TimeLimit += lost.GPUHours
	case ByCancel:
		g.Cancelled += lost.GPUHours
	}
}

// The parts of a cluster's GPU-hours, as a picture has them from below.
const (
	worked    = "worked"
	lostPart  = "lost"
	idlePart  = "idle in jobs"
	stranded  = "stranded"
	reserved  = "reserved"
	outOfUse  = "down or drained"
	freeWaits = "free while jobs waited"
	freePart  = "free"
)

var hourParts = []string{worked, lostPart, idlePart, stranded, reserved, outOfUse, freeWaits, freePart}

// seeOf names what tells more of a part.
var seeOf = map[string]string{
	worked: "priod report usage", lostPart: "the runs below", idlePart: "priod report usage", stranded: "priod report sizing", reserved: "scontrol show reservation",
	outOfUse: "sinfo -R", freeWaits: "priod report waits", freePart: "",
}

// sampleParts are the GPUs of one sample by part, without what was lost: that is known once a run has ended.
func sampleParts(x *store.Sample) map[string]float64 {
	free := max(0, x.GPUs-x.InUse-x.Stranded-x.Reserved-x.Down)
	parts := map[string]float64{
		worked: float64(max(0, x.InUse-x.Idle)), idlePart: float64(min(x.Idle, x.InUse)), stranded: float64(x.Stranded), reserved: float64(x.Reserved), outOfUse: float64(x.Down), freePart: float64(free),
	}
	waiting := 0
	for _, gpus := range x.Causes {
		waiting += gpus
	}
	if w := float64(min(free, waiting)); w > 0 {
		parts[freeWaits], parts[freePart] = w, float64(free)-w
	}
	return parts
}

// longestSample is for how long one sample stands: they are taken each minute, and not while the daemon is away.
const longestSample = 2 * time.Minute

// sampled sums up the samples; what the runs lost meanwhile is taken from what worked.
func (g *Goodput) sampled(samples []store.Sample) {
	parts := map[string]float64{}
	var covered [][2]time.Time // from when to when there are samples
	for i := range samples {
		from, until := cluster.Later(samples[i].At, g.Since), cluster.Earlier(samples[i].At.Add(longestSample), g.Until)
		if i+1 < len(samples) {
			until = cluster.Earlier(until, samples[i+1].At)
		}
		hours := max(0, until.Sub(from).Hours())
		for part, gpus := range sampleParts(&samples[i]) {
			parts[part] += gpus * hours
		}
		if n := len(covered); n > 0 && covered[n-1][1].Equal(from) {
			covered[n-1][1] = until
		} else if hours > 0 {
			covered = append(covered, [2]time.Time{from, until})
		}
	}
	for _, c := range covered {
		g.Sampled += c[1].Sub(c[0]).Hours()
		for k := range g.Lost {
			if l := &g.Lost[k]; l.Cause != ByCancel {
				parts[lostPart] += max(0, cluster.Earlier(c[1], l.End).Sub(cluster.Later(c[0], l.from)).Hours()) * float64(l.gpus)
			}
		}
	}
	parts[lostPart] = min(parts[lostPart], parts[worked])
	parts[worked] -= parts[lostPart]
	for _, part := range hourParts {
		if parts[part] > 0 {
			g.Cluster = append(g.Cluster, HoursOf{part, parts[part], seeOf[part]})
		}
	}
}

// Page shows it.
func (g *Goodput) Page() *report.Page {
	p := &report.Page{Title: "Where the GPU-hours went", Notes: append(g.Notes, UnreadWords(g.Unread)...),
		Words: []string{fmt.Sprintf("%s: runs held %.1f GPU-hours, %.1f of them good (%s).", report.Between(g.Since, g.Until), g.Total.GPUHours, g.Total.Good, partOf(g.Total.Good, g.Total.GPUHours))}}
	all := 0.0
	for _, h := range g.Cluster {
		all += h.GPUHours
	}
	p.Tables = append(p.Tables, report.TableOf("Cluster", []string{"GPU-HOURS", "", "%", "SEE"}, g.Cluster, func(h *HoursOf) []any {
		return []any{tenths(h.GPUHours), h.Part, partOf(h.GPUHours, all), h.See}
	}))
	for _, t := range []struct {
		title string
		of    []GoodputOf
	}{{"ACCOUNT", g.Account}, {"USER", g.User}} {
		p.Tables = append(p.Tables, report.TableOf("", []string{t.title, "RUNS", "GPU-HOURS", "GOOD", "EVICTED", "REQUEUED", "FAILED", "TIME LIMIT", "CANCELLED"}, t.of, func(x *GoodputOf) []any {
			return []any{cmp.Or(x.Name, "(none)"), x.Runs, tenths(x.GPUHours), partOf(x.Good, x.GPUHours), tenths(x.Evicted), tenths(x.Requeued), tenths(x.Failed), tenths(x.TimeLimit), tenths(x.Cancelled)}
		}))
	}
	p.Tables = append(p.Tables, report.TableOf("Most lost", []string{"JOB", "USER", "ACCOUNT", "BY", "ENDED", "GPU-HOURS"}, g.Lost, func(x *LostRun) []any {
		return []any{x.Job.String(), x.User, x.Account, x.Cause, report.Clock(x.End), tenths(x.GPUHours)}
	}))
	if len(g.Cluster) > 0 {
		f := report.Figure{Title: "Where the cluster's GPU-hours went", YLabel: "GPU-hours"}
		for _, h := range g.Cluster {
			f.Bars = append(f.Bars, report.Bar{Name: h.Part, Value: h.GPUHours})
		}
		p.Plot(f)
	}
	return p
}

func partOf(part, all float64) string {
	if all <= 0 {
		return "-"
	}
	return tenths(100*part/all) + " %"
}

// ReadGoodput reads accounting, and what the daemon has stored; r is nil where no daemon has run here.
func ReadGoodput(ctx context.Context, slurm *live.Cluster, r *store.Reader, since, until time.Time) (*Goodput, error) {
	var evictions []store.Eviction
	var samples []store.Sample
	if r != nil {
		var err error
		if evictions, err = r.EvictionsSince(ctx, since.Add(-24*time.Hour)); err != nil {
			return nil, err
		}
		if samples, err = r.Samples(ctx, since); err != nil {
			return nil, err
		}
	}
	var runs []cluster.PastStay
	seen := map[cluster.Run]bool{}
	err := eachDay(ctx, slurm, since, until, func(_, _ time.Time, day []cluster.PastStay) {
		for _, run := range day {
			if !run.Closed {
				run.End = until
			}
			if key := run.Run(); run.GPUs > 0 && !seen[key] {
				seen[key] = true
				runs = append(runs, run)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	g := OfGoodput(since, until, runs, evictions, samples)
	if len(samples) == 0 {
		g.Notes = append(g.Notes, "The cluster's own hours need samples, which the daemon takes each minute.")
	}
	g.Unread = UnreadRows(slurm)
	return g, nil
}

// hours are the parts of the cluster's GPUs over time, from below, as means of the samples of each bin.
func (b *bins) hours(samples []store.Sample, gone []store.Eviction) []Series {
	by := map[string]Series{}
	for _, s := range b.means(samples, func(x *store.Sample, add func(name string, v float64)) {
		for part, gpus := range sampleParts(x) {
			add(part, gpus)
		}
	}) {
		by[s.Name] = s
	}
	all := []Series{}
	if len(by) == 0 {
		return all
	}
	b.takeLost(by, gone)
	for _, part := range hourParts { // each has its place and colour
		s, there := by[part]
		if !there {
			s = seriesOf(part, make([]float64, b.count()))
			for i, v := range by[worked].Values {
				if v == nil {
					s.Values[i] = nil
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// takeLost moves what evictions cost from what worked, at the end of each victim's run.
func (b *bins) takeLost(by map[string]Series, gone []store.Eviction) {
	var stays []cluster.Stay
	for i := range gone {
		if e := &gone[i]; e.Paid != nil && !e.Left.IsZero() && e.GPUs > 0 {
			stays = append(stays, cluster.Stay{Start: e.Left.Add(-time.Duration(*e.Paid / float64(e.GPUs) * float64(time.Second))), End: e.Left, GPUs: e.GPUs})
		}
	}
	for _, s := range b.inUse(stays, func(*cluster.Stay) string { return lostPart }) {
		for i, v := range s.Values {
			if w := by[worked].Values; len(w) == 0 || w[i] == nil {
				s.Values[i] = nil
			} else {
				lost := min(*v, *w[i])
				rest := *w[i] - lost
				s.Values[i], w[i] = &lost, &rest
			}
		}
		by[lostPart] = s
	}
}
