package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

const (
	runningRows = 14 // of a schedule
	waitingRows = 26
	longest     = 24 * time.Hour // that a schedule looks ahead
)

// Scheduled is a job in the schedule: times are zero where they are not known.
type Scheduled struct {
	Job       cluster.JobID `json:"job"`
	User      string        `json:"user"`
	Class     string        `json:"class"`
	GPUs      int           `json:"gpus"`
	GPUType   string        `json:"gpu_type,omitempty"`
	Nodes     int           `json:"nodes"`
	Start     time.Time     `json:"start"` // of one that waits, as half of such jobs start
	StartP90  time.Time     `json:"start_p90,omitzero"`
	End       time.Time     `json:"end"` // as half of such jobs end; by its time limit where nothing is known of them
	EndP90    time.Time     `json:"end_p90,omitzero"`
	Running   bool          `json:"running"`
	LeavesFor string        `json:"leaves_for,omitempty"` // the job for which it was signalled
	Room      time.Time     `json:"room_is_made_since,omitzero"`
}

// Schedule is what is expected of the next hours: the running jobs that end first, the waiting ones that start first.
type Schedule struct {
	Now          time.Time                   `json:"now"`
	Jobs         []Scheduled                 `json:"jobs"`
	Reservations []slurmplug.NodeReservation `json:"reservations"` // of Slurm, that have not ended
}

func scheduleOf(ctx context.Context, r *store.Reader, now time.Time, f *Filter, waiting []Job, open []store.Eviction) (s Schedule, err error) {
	s = Schedule{Now: now, Jobs: []Scheduled{}, Reservations: []slurmplug.NodeReservation{}}
	holders, err := r.Holders(ctx)
	if err != nil {
		return s, err
	}
	last, err := r.LastSample(ctx)
	if err != nil {
		return s, err
	}
	for _, x := range last.Reservations {
		if x.End.After(now) {
			s.Reservations = append(s.Reservations, x)
		}
	}
	leaves, room := leaving(open), map[cluster.JobID][2]time.Time{}
	for i := range open {
		if x := &open[i]; x.ClaimEnded.IsZero() {
			room[x.For] = [2]time.Time{x.Recorded, x.Recorded.Add(time.Duration(x.WaitS * float64(time.Second)))}
		}
	}
	for i := range holders {
		h := &holders[i]
		k := store.WaitingKey{User: h.User, Account: h.Account, Partition: h.Partition, GPUType: h.GPUType, Class: cmp.Or(h.Class, "-"), Cause: ""}
		here := *f
		here.Cause = "" // of those that wait
		if h.GPUs == 0 || !here.fits(&k) {
			continue
		}
		x := Scheduled{Job: h.Job, User: h.User, Class: h.Class, GPUs: h.GPUs, GPUType: h.GPUType, Nodes: len(hosts(h.Nodes)), Start: h.Start, End: h.End.Median, EndP90: h.End.P90, Running: true, LeavesFor: leaves[h.Job]}
		if x.End.IsZero() && h.Limit > 0 {
			x.End = h.Start.Add(h.Limit)
		}
		s.Jobs = append(s.Jobs, x)
	}
	slices.SortStableFunc(s.Jobs, func(a, b Scheduled) int {
		return cmp.Or(cmp.Compare(b.LeavesFor, a.LeavesFor), compareKnown(a.End, b.End))
	})
	s.Jobs = s.Jobs[:min(len(s.Jobs), runningRows)]
	running := len(s.Jobs)
	for i := range waiting {
		v := &waiting[i]
		if made, is := room[v.Job]; is {
			s.Jobs = append(s.Jobs, Scheduled{Job: v.Job, User: v.User, Class: v.Class, GPUs: v.GPUs, GPUType: v.GPUType, Nodes: v.Nodes, Start: cluster.Later(made[1], now), End: made[1], Room: made[0]})
			continue
		}
		if v.Start == nil {
			continue
		}
		x := Scheduled{Job: v.Job, User: v.User, Class: v.Class, GPUs: v.GPUs, GPUType: v.GPUType, Nodes: v.Nodes, Start: v.Start.Median, StartP90: v.Start.P90}
		if x.Start.IsZero() {
			x.Start, x.StartP90 = v.Start.At, v.Start.At
		}
		x.Start, x.StartP90 = cluster.Later(x.Start, now), cluster.Later(x.StartP90, now)
		x.End = x.Start.Add(time.Duration(v.Start.RunS * float64(time.Second)))
		s.Jobs = append(s.Jobs, x)
	}
	slices.SortStableFunc(s.Jobs[running:], func(a, b Scheduled) int { return a.Start.Compare(b.Start) })
	s.Jobs = s.Jobs[:min(len(s.Jobs), running+waitingRows)]
	return s, nil
}

func compareKnown(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return cmp.Compare(len(report.Clock(b)), len(report.Clock(a)))
	}
	return a.Compare(b)
}

// Figure draws the schedule; nil: there is nothing to draw.
func (s *Schedule) Figure() *report.Timeline {
	if len(s.Jobs)+len(s.Reservations) == 0 {
		return nil
	}
	line := &report.Timeline{Title: "The next hours", Now: s.Now.Unix()}
	from, until := s.Now.Add(-10*time.Minute), s.Now.Add(time.Hour)
	for i := range s.Jobs {
		x := &s.Jobs[i]
		for _, t := range []time.Time{x.End, x.EndP90, x.StartP90} {
			until = cluster.Later(until, t.Add(5*time.Minute))
		}
	}
	for _, x := range s.Reservations {
		until = cluster.Later(until, x.Start.Add(30*time.Minute))
	}
	until = cluster.Earlier(until, s.Now.Add(longest))
	line.From, line.Until = from.Unix(), until.Unix()
	for i := range s.Jobs {
		line.Rows = append(line.Rows, s.Jobs[i].row(from, until))
	}
	for _, x := range s.Reservations {
		a, b := cluster.Later(x.Start, from), cluster.Earlier(x.End, until)
		row := report.TimelineRow{Label: report.Name(x.Name), Bars: []report.TimelineBar{}}
		if !b.Before(a) {
			row.Bars = append(row.Bars, report.TimelineBar{From: a.Unix(), Until: b.Unix(), Kind: "reserved", Words: "reservation of " + cmp.Or(x.Nodes, "no node")})
		}
		line.Rows = append(line.Rows, row)
	}
	return line
}

func (x *Scheduled) row(from, until time.Time) report.TimelineRow {
	row := report.TimelineRow{Label: fmt.Sprintf("%s %s", x.Job, report.Name(x.User)), Job: x.Job.String()}
	what := report.Count(x.GPUs, "GPU")
	if x.GPUType != "" {
		what += " " + x.GPUType
	}
	if x.Nodes > 1 {
		what += fmt.Sprintf(", gang of %d nodes", x.Nodes)
	}
	kind := "be"
	if x.Class == cluster.TE.String() {
		kind = "te"
	}
	add := func(a, b time.Time, kind, words string) {
		a, b = cluster.Later(a, from), cluster.Earlier(b, until)
		if !b.Before(a) {
			row.Bars = append(row.Bars, report.TimelineBar{From: a.Unix(), Until: b.Unix(), Kind: kind, Words: words + ", " + what})
		}
	}
	end := x.End
	if end.IsZero() {
		end = until
	}
	switch {
	case !x.Room.IsZero():
		add(x.Room, x.Start, "room", "others leave for it")
	case x.LeavesFor != "":
		add(x.Start, end, "left", "evicted for job "+x.LeavesFor)
	case x.Running:
		add(x.Start, end, kind, "runs")
		if x.EndP90.After(end) {
			add(end, x.EndP90, "tail", "one of ten such jobs still runs")
		}
	default:
		add(x.Start, x.StartP90, "start", "expected to start")
		if x.End.After(x.Start) {
			add(x.StartP90, x.StartP90.Add(x.End.Sub(x.Start)), "next-"+kind, "expected run")
		}
	}
	return row
}
