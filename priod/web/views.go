package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

const (
	rowsOfPage  = 100
	mostHolders = 8  // named beside a node
	mostEvents  = 60 // in a job's history
)

// Part is one page of a longer list.
type Part struct {
	Page int `json:"page"` // 1 is the first
	Of   int `json:"of"`
	All  int `json:"all"` // rows
}

func partOf(asked url.Values, all int) (p Part, skip int, err error) {
	p = Part{Page: 1, Of: max(1, (all+rowsOfPage-1)/rowsOfPage), All: all}
	if text := asked.Get("page"); text != "" {
		if p.Page, err = strconv.Atoi(text); err != nil || p.Page < 1 {
			return p, 0, usagef("page=%.20q: want a number, 1 or more", text)
		}
	}
	p.Page = min(p.Page, p.Of)
	return p, (p.Page - 1) * rowsOfPage, nil
}

// Next and Before are the pages beside this one, 0 where there is none.
func (p Part) Next() int {
	if p.Page < p.Of {
		return p.Page + 1
	}
	return 0
}

// Before is the page before this one, 0 on the first.
func (p Part) Before() int { return p.Page - 1 }

// NodeView is one node.
type NodeView struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	GPUType string `json:"gpu_type,omitempty"`
	GPUs    int    `json:"gpus"`
	InUse   int    `json:"gpus_in_use"`
	CPUs    int    `json:"cpus"`
	CPUsUse int    `json:"cpus_in_use"`
	MemMB   int64  `json:"mem_mb"`
	MemUse  int64  `json:"mem_in_use_mb"`
	Useless string `json:"useless,omitempty"` // why its free GPUs start nothing
	Holders []Held `json:"jobs"`
	More    int    `json:"more_jobs"` // that are not listed
}

// MemGB and MemUseGB are the memory as people read it.
func (v *NodeView) MemGB() int64 { return v.MemMB >> 10 }

// MemUseGB is the part of it in use.
func (v *NodeView) MemUseGB() int64 { return v.MemUse >> 10 }

// Held is a job that holds GPUs of a node, perhaps also of others.
type Held struct {
	Job  cluster.JobID `json:"job"`
	User string        `json:"user"`
	GPUs int           `json:"gpus"` // on all its nodes
}

// Overview is the first page.
type Overview struct {
	Types     []*report.TypeUse `json:"gpu_types"`
	Evictions []store.Eviction  `json:"evictions_under_way"`
	First     []JobView         `json:"first_of_the_queue"`
	Writes    []store.Write     `json:"last_writes"`
	Health    *daemon.State     `json:"health,omitempty"` // nil: served without the daemon
	Failed    []string          `json:"checks_failed"`    // names of what the daemon's last check found wrong
	Value     *store.Value      `json:"value,omitempty"`  // what priod brought; nil: priod-value.timer is off
}

// ValueWords sum up what priod brought; "": not known.
func (v *Overview) ValueWords() string {
	if v.Value == nil {
		return ""
	}
	return report.ValueWords(v.Value)
}

func (p *Pages) overview(ctx context.Context, r *store.Reader, _ url.Values) (any, error) {
	v := &Overview{Evictions: []store.Eviction{}, Failed: []string{}}
	all, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	v.Types = report.ByType(all)
	past, err := r.Evictions(ctx, 20) // those under way come first
	if err != nil {
		return nil, err
	}
	for i := range past {
		if past[i].Ended.IsZero() {
			v.Evictions = append(v.Evictions, past[i])
		}
	}
	first, _, err := r.Pending(ctx, "", 0, 10)
	if err != nil {
		return nil, err
	}
	v.First = jobViews(first, 0)
	if v.Writes, err = r.Writes(ctx, 10); err != nil {
		return nil, err
	}
	if p.Health != nil {
		state := p.Health()
		v.Health = &state
	}
	v.Value, _ = r.Value() // one that is spoiled is made anew by the next replay, and priod report value names it
	found, err := r.Findings(ctx)
	for i := range found.Findings {
		if f := &found.Findings[i]; f.Level == string(live.Fail) && !slices.Contains(v.Failed, f.Name) {
			v.Failed = append(v.Failed, f.Name)
		}
	}
	return v, err
}

// NodesView is the page of nodes.
type NodesView struct {
	Types []*report.TypeUse `json:"gpu_types"`
	Part
	Nodes []NodeView `json:"nodes"`
}

func nodes(ctx context.Context, r *store.Reader, asked url.Values) (any, error) {
	all, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	v := &NodesView{Types: report.ByType(all), Nodes: []NodeView{}}
	if only := asked.Get("type"); asked.Has("type") {
		all = slices.DeleteFunc(all, func(n cluster.Node) bool { return n.GPUType != only })
	}
	part, skip, err := partOf(asked, len(all))
	if err != nil {
		return nil, err
	}
	v.Part = part
	shown := all[skip:min(skip+rowsOfPage, len(all))]
	at := make(map[string]int, len(shown))
	for i := range shown {
		n := &shown[i]
		at[n.Name] = i
		v.Nodes = append(v.Nodes, NodeView{
			Name: n.Name, State: n.State, GPUType: n.GPUType, GPUs: n.GPUs, InUse: n.GPUsUsed, CPUs: n.CPUs, CPUsUse: n.CPUsUsed,
			MemMB: n.MemMB, MemUse: n.MemUsedMB, Useless: report.Useless(n), Holders: []Held{},
		})
	}
	holders, err := r.Holders(ctx)
	if err != nil {
		return nil, err
	}
	for i := range holders {
		h := &holders[i]
		names, err := slurmplug.ExpandHosts(h.Nodes)
		if err != nil {
			continue // Slurm wrote a list that cannot be read: the job is on no page of nodes
		}
		for _, name := range names {
			k, ok := at[name]
			if !ok {
				continue
			}
			if n := &v.Nodes[k]; len(n.Holders) < mostHolders {
				n.Holders = append(n.Holders, Held{h.Job, h.User, h.GPUs})
			} else {
				n.More++
			}
		}
	}
	return v, nil
}

// JobView is a waiting job in a list.
type JobView struct {
	Place     int           `json:"place"`
	Job       cluster.JobID `json:"job"`
	Tasks     string        `json:"tasks,omitempty"`
	User      string        `json:"user"`
	Account   string        `json:"account"`
	Partition string        `json:"partition"`
	Class     string        `json:"class"` // te, be, or - when it is left alone
	GPUs      int           `json:"gpus"`
	GPUType   string        `json:"gpu_type,omitempty"`
	Features  string        `json:"features,omitempty"`
	WaitS     int64         `json:"wait_s"`
	Priority  int64         `json:"priority"` // when it last changed in another way than by age
	Value     int64         `json:"value"`    // that priod adds
	Why       string        `json:"why"`
	Words     string        `json:"words"` // the reason as a sentence
	Steer     string        `json:"steer,omitempty"`
	Unmoved   string        `json:"unmoved,omitempty"`
	Reason    string        `json:"slurm_reason"`
	Cause     string        `json:"cause,omitempty"`      // why it waits now: a cause of priod report waits
	CauseText string        `json:"cause_text,omitempty"` // what is short, and with what it would start sooner

	Start *store.ExpectedStart `json:"expected_start,omitempty"` // nil: not known
}

// Starts says when it is expected to start; "" when that is not known.
func (v *JobView) Starts() string {
	if v.Start == nil {
		return ""
	}
	text := report.Starts(v.Start.At, v.Start.Median, v.Start.P90)
	if moved := report.Moved(v.Start); moved != "" {
		text += "; " + moved
	}
	return text
}

// WaitSeconds is the wait as templates take it.
func (v *JobView) WaitSeconds() float64 { return float64(v.WaitS) }

func jobViews(page []store.Waiting, skip int) []JobView {
	views := make([]JobView, len(page))
	for i := range page {
		j, d := &page[i].Job, page[i].Decision
		v := JobView{
			Place: skip + i + 1, Job: j.ID, Tasks: j.Tasks, User: j.User, Account: j.Account, Partition: j.Partition, Class: "-", GPUs: j.GPUs,
			GPUType: j.GPUType, Features: j.Features, Priority: j.Priority, Reason: j.Reason, Start: page[i].Start,
		}
		if now := page[i].Now; now != nil {
			v.Cause, v.CauseText = string(now.Cause), now.Words
		}
		since := j.Eligible
		if d != nil {
			v.Value, v.Why, v.Words, v.Steer, v.Unmoved = d.Value, d.Why, report.Reason(d.Why), d.Steer, d.Unmoved
			if d.Ranked {
				v.Class = d.Class.String()
			}
			if !d.Since.IsZero() {
				since = d.Since
			}
		}
		if !since.IsZero() {
			v.WaitS = max(int64(time.Since(since).Seconds()), 0)
		}
		views[i] = v
	}
	return views
}

// QueueView is the page of the queue.
type QueueView struct {
	User string `json:"user,omitempty"`
	Part
	Jobs []JobView `json:"jobs"`
}

func queue(ctx context.Context, r *store.Reader, asked url.Values) (any, error) {
	v := &QueueView{User: asked.Get("user")}
	_, skip, err := partOf(url.Values{"page": asked["page"]}, 1<<40)
	if err != nil {
		return nil, err
	}
	page, all, err := r.Pending(ctx, v.User, skip, rowsOfPage)
	if err != nil {
		return nil, err
	}
	if v.Part, _, err = partOf(asked, all); err != nil {
		return nil, err
	}
	if last := (v.Part.Page - 1) * rowsOfPage; last < skip { // fewer than there were
		if page, _, err = r.Pending(ctx, v.User, last, rowsOfPage); err != nil {
			return nil, err
		}
		skip = last
	}
	v.Jobs = jobViews(page, skip)
	return v, nil
}

// Event is one thing in a job's history.
type Event struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"` // zero: it took no time
	Kind  string    `json:"kind"`           // waited, ran, left, room (others left for it), wrote
	Words string    `json:"words"`
}

// Explained is the page of one job.
type Explained struct {
	Name    string
	Lines   []Line
	History []Event // the latest first
	Data    any     // as priod explain --json has it, without what Slurm says now
}

// MarshalJSON gives Data, and the history beside it.
func (v *Explained) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(v.Data)
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	if all["history"], err = json.Marshal(v.History); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// TimeLine is a job's history as bars, 1,000 units from its first event to its last.
type TimeLine struct {
	From, Until time.Time
	Bars        []Bar
}

// Bar is an event on a line of time.
type Bar struct {
	Event
	X, Width float64 // at least 2 units wide, to be seen
}

// TimeLine draws the history; it is empty where that is.
func (v *Explained) TimeLine() (line TimeLine) {
	for i, e := range v.History {
		if i == 0 || e.From.Before(line.From) {
			line.From = e.From
		}
		line.Until = latest(line.Until, e.From, e.Until)
	}
	units := 1000 / max(line.Until.Sub(line.From).Seconds(), 1)
	for _, e := range slices.Backward(v.History) {
		x := min(units*e.From.Sub(line.From).Seconds(), 998)
		width := max(units*latest(e.From, e.Until).Sub(e.From).Seconds(), 2)
		line.Bars = append(line.Bars, Bar{e, x, min(width, 1000-x)})
	}
	return line
}

func latest(all ...time.Time) time.Time { return slices.MaxFunc(all, time.Time.Compare) }

func (p *Pages) job(ctx context.Context, r *store.Reader, asked url.Values) (any, error) {
	name, err := slurmplug.ParseJobName(asked.Get("id"))
	if err != nil {
		return nil, usage{err}
	}
	v := &Explained{Name: name.String()}
	if v.Data, v.Lines, err = p.Explain(ctx, r, v.Name); err != nil {
		return nil, err
	}
	id := name.Job
	if name.Offset >= 0 {
		if id, err = r.Component(ctx, id.ID, name.Offset); err != nil {
			return nil, err
		}
	}
	v.History, err = historyOf(ctx, r, id)
	return v, err
}

// historyOf puts what is stored of a job in the order of time, the latest first.
func historyOf(ctx context.Context, r *store.Reader, id cluster.JobID) ([]Event, error) {
	last, err := r.LastCycle(ctx)
	if err != nil {
		return nil, err
	}
	story, err := r.Job(ctx, id, mostEvents)
	if err != nil {
		return nil, err
	}
	waits, err := r.WaitsOf(ctx, id, story.Job.FirstSubmit, last.Until, mostEvents)
	if err != nil {
		return nil, err
	}
	left, err := r.EvictionsOf(ctx, id, mostEvents)
	if err != nil {
		return nil, err
	}
	events := []Event{}
	for _, w := range waits {
		for i := range w.Spans {
			s := &w.Spans[i]
			words := cmp.Or(s.Words, string(s.Cause))
			if s.Words == plan.SummedUp {
				words = string(s.Cause) + ", " + words
			}
			events = append(events, Event{s.From, s.From.Add(w.Length(i)), "waited", words})
		}
	}
	for i := range story.Stays {
		s := &story.Stays[i]
		events = append(events, Event{s.Start, s.End, "ran", fmt.Sprintf("on %d GPUs of type %s, as %s", s.GPUs, cmp.Or(s.GPUType, "none"), s.Class)})
	}
	for i := range story.Writes {
		x := &story.Writes[i]
		events = append(events, Event{x.At, time.Time{}, "wrote", fmt.Sprintf("%s %s -> %s (%s), %s", x.Field(), x.Before.Words(), x.After.Words(), x.Reason, x.Status)})
	}
	for i := range left {
		x := &left[i]
		kind, words := "left", fmt.Sprintf("told to leave for %s, %s", x.For, x.State)
		if x.Victim != id {
			kind, words = "room", fmt.Sprintf("%s leaves for it, %s", x.Victim, x.State)
		}
		events = append(events, Event{x.Recorded, x.Left, kind, words})
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.From.Compare(a.From) })
	return events[:min(len(events), mostEvents)], nil
}

// EvictionsView is the page of evictions.
type EvictionsView struct {
	Evictions []EvictionView `json:"evictions"`
}

// EvictionView is one eviction and how much of its grace is left.
type EvictionView struct {
	store.Eviction
	LeftS float64 `json:"grace_left_s"` // 0 when it has left, or was not told yet
}

func evictions(ctx context.Context, r *store.Reader, _ url.Values) (any, error) {
	all, err := r.Evictions(ctx, rowsOfPage)
	if err != nil {
		return nil, err
	}
	v := &EvictionsView{Evictions: make([]EvictionView, len(all))}
	for i, x := range all {
		v.Evictions[i].Eviction = x
		if x.Ended.IsZero() && x.Left.IsZero() && !x.Signalled.IsZero() {
			v.Evictions[i].LeftS = max(0, x.GraceS-time.Since(x.Signalled).Seconds())
		}
	}
	return v, nil
}

// AllocationView is the page of the allocation.
type AllocationView struct {
	Part
	Jobs []store.JobShare `json:"jobs"`
}

func allocation(ctx context.Context, r *store.Reader, asked url.Values) (any, error) {
	_, skip, err := partOf(url.Values{"page": asked["page"]}, 1<<40)
	if err != nil {
		return nil, err
	}
	v := &AllocationView{}
	jobs, all, err := r.Shares(ctx, skip, rowsOfPage)
	if err != nil {
		return nil, err
	}
	v.Jobs = jobs
	v.Part, _, err = partOf(asked, all)
	return v, err
}

// HealthView is the page of health.
type HealthView struct {
	Daemon *daemon.State  `json:"daemon"` // nil: served without the daemon
	Check  store.Findings `json:"check"`  // what fails first
	Cycles []store.Cycle  `json:"cycles"` // the latest first
}

// Counts says how many findings there are of each level.
func (v *HealthView) Counts() string {
	return fmt.Sprintf("%d passed, %d warned, %d failed", v.Check.Count(string(live.Pass)), v.Check.Count(string(live.Warn)), v.Check.Count(string(live.Fail)))
}

func (p *Pages) health(ctx context.Context, r *store.Reader, _ url.Values) (any, error) {
	v := &HealthView{}
	if p.Health != nil {
		state := p.Health()
		v.Daemon = &state
	}
	var err error
	if v.Check, err = r.Findings(ctx); err != nil {
		return nil, err
	}
	worst := []string{string(live.Fail), string(live.Warn), string(live.Pass)}
	slices.SortStableFunc(v.Check.Findings, func(a, b store.Finding) int {
		return cmp.Compare(slices.Index(worst, a.Level), slices.Index(worst, b.Level))
	})
	v.Cycles, err = r.Cycles(ctx, 20)
	return v, err
}
