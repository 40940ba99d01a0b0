package window

import (
	"cmp"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Question is what is decided on.
type Question struct {
	Snapshot *cluster.Snapshot
	History  *cluster.History
	Queue    []int // waiting jobs of the snapshot in order
	Nodes    *nodemap.Map
	Free     *placement.Nodes        // is changed
	Placed   map[cluster.JobID]bool  // jobs for which room is held beside Free
	Requeues func(*cluster.Job) bool // a closer look shows that the job can be requeued; nil: it can
}

// Limit is what the limit of a job is to be.
type Limit struct {
	Job   *cluster.Job
	Field cluster.Field
	To    slurmplug.Value
	Tasks int             // of a waiting record; 0: all
	Until *cluster.Window // nil: its own
}

// Result is a decision.
type Result struct {
	Limits  []Limit // those that jobs have by priod, or are to have, and that are taken back
	Leaving []plan.Vacating
	Next    time.Time // when a job has to leave next; zero: none has to
}

// Decide says which jobs run until a window with which limits, which get their own limit again, and which have to leave now.
//
// Waiting jobs that start now with their own limits have their places first, in the order of the queue. What is free beside
// them is for jobs whose limits reach into a window, those first that work longest for what leaving costs them. A job that has
// a limit by priod and finds no room any more gets its own again.
func Decide(q *Question, set *Settings) Result {
	d := decider{Question: q, set: set, now: q.Snapshot.At, failed: map[placement.Request]bool{}}
	for i := range q.Snapshot.Jobs {
		if j := &q.Snapshot.Jobs[i]; j.State == cluster.Running && len(q.History.Requests[j.ID]) > 0 {
			d.running(j)
		}
	}
	d.waiting()
	return d.result
}

type decider struct {
	*Question
	set    *Settings
	now    time.Time
	off    []int32 // by the number of windows, requests that keep clear of the nodes of the first ones
	failed map[placement.Request]bool
	result Result
}

// running looks after a job that runs with a limit by priod. It gets a limit beyond its own at once, so that it does not end by
// a limit of priod's should no priod run then; where no window is ahead any more, its own. Before the window it has to leave.
func (d *decider) running(j *cluster.Job) {
	f := d.History.Field(j, slurmplug.TimeLimit)
	own, known := f.Own.Limit()
	if !f.Ours || !known || j.TimeLimit <= 0 {
		return
	}
	l, ends := Limit{Job: j, Field: f, To: beyond(own), Until: cluster.WindowAhead(d.Snapshot.Windows, j.NodeList, j.Start, own, d.now)}, time.Duration(math.MaxInt64)
	if f.Now != l.To {
		ends = j.TimeLimit
	}
	v := plan.Vacating{Job: j}
	if w := l.Until; w == nil {
		l.To = f.Own
	} else {
		v.Window, v.Start, ends = w.Name, w.Start, min(ends, until(j.Start, w.Start))
	}
	d.result.Limits = append(d.result.Limits, l)
	if ends == math.MaxInt64 {
		return
	}
	after, _ := d.set.leavesAfter(j, ends)
	switch at := j.Start.Add(after); {
	case !at.After(d.now):
		d.result.Leaving = append(d.result.Leaving, v)
	case d.result.Next.IsZero() || at.Before(d.result.Next):
		d.result.Next = at
	}
}

// waiting chooses among the waiting jobs.
func (d *decider) waiting() {
	announced := slices.ContainsFunc(d.Snapshot.Windows, func(w cluster.Window) bool { return w.Start.After(d.now) })
	if announced && d.set.Enabled && d.set.Leaves != nil && d.anyFree() {
		d.choose()
	}
	chosen := map[*cluster.Job]bool{}
	for i := range d.result.Limits {
		chosen[d.result.Limits[i].Job] = true
	}
	if len(d.History.Requests) == 0 {
		return
	}
	for i := range d.Snapshot.Jobs {
		j := &d.Snapshot.Jobs[i]
		if j.State != cluster.Pending || chosen[j] {
			continue
		}
		if f := d.History.Field(j, slurmplug.TimeLimit); f.Ours {
			d.result.Limits = append(d.result.Limits, Limit{Job: j, Field: f, To: f.Own})
		}
	}
}

// anyFree reports whether GPUs are free on nodes that start jobs.
func (d *decider) anyFree() bool {
	for n := range int32(d.Free.Len()) {
		if !d.Free.Down(n) && d.Free.FreeOn(n).GPUs > 0 {
			return true
		}
	}
	return false
}

// candidate is a job that may run until a window.
type candidate struct {
	j       *cluster.Job
	field   cluster.Field
	request placement.Request
	own     time.Duration
	reaches int // so many windows
	pays    float64
}

// choose gives the jobs that start by themselves their places, and then chooses among the others.
func (d *decider) choose() {
	var all []candidate
	queue := d.Queue[:min(len(d.Queue), d.set.Depth)]
	for _, i := range queue {
		j := &d.Snapshot.Jobs[i]
		if j.GPUs == 0 || j.Held() || j.Dependency || j.Reserved() || j.Right == cluster.Withheld || d.Placed[j.FirstTask()] || !j.WantsRoom() && slurmplug.WaitsFor(j.Reason) != slurmplug.ForNodes {
			continue
		}
		types, understood := d.Nodes.Types(j)
		if !understood {
			continue
		}
		x := candidate{j: j, field: d.History.Field(j, slurmplug.TimeLimit), request: d.Nodes.Request(j, types)}
		x.own, _ = x.field.Own.Limit()
		x.reaches = d.reaches(x.own)
		for n := 0; n < j.TasksNow(); n++ {
			if d.take(&x, x.reaches) == nil {
				if n == 0 {
					all = append(all, x)
				}
				break
			}
		}
	}
	all = slices.DeleteFunc(all, func(x candidate) bool { return x.reaches == 0 || !d.mayBeShort(&x) })
	for i := range all {
		x := &all[i]
		if w := d.windowAt(x.reaches - 1); w != nil {
			x.pays = d.set.pays(x.j, until(d.now, w.Start.Add(-d.set.Margin)))
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		if a.field.Ours != b.field.Ours { // which Slurm may be about to start
			if a.field.Ours {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.pays, a.pays)
	})
	for i := range all {
		d.shorten(&all[i])
	}
}

// reaches is how many windows a job reaches that starts now with a limit: those that have begun, too.
func (d *decider) reaches(limit time.Duration) (n int) {
	for n < len(d.Snapshot.Windows) && (limit < 0 || d.Snapshot.Windows[n].Start.Before(d.now.Add(limit))) {
		n++
	}
	return n
}

// windowAt is a window, by its place, that has not begun; nil: it has.
func (d *decider) windowAt(n int) *cluster.Window {
	if w := &d.Snapshot.Windows[n]; w.Start.After(d.now) {
		return w
	}
	return nil
}

// mayBeShort reports whether a job agrees to leave and saves its state, and may be written to.
func (d *decider) mayBeShort(x *candidate) bool {
	j := x.j
	_, leaves := d.set.Leaves(j)
	return leaves && saves(j) && j.Fragile == "" && j.HetLeader == 0 && !j.Interactive && x.field.Shown && !x.field.Theirs && x.field.Refused.At.IsZero() && (x.field.Ours || !d.unsaid(j))
}

// unsaid reports whether Slurm shows the longest limit of a partition for a job that names none and gets another one there.
func (d *decider) unsaid(j *cluster.Job) bool {
	names := cluster.PartitionNames(j.Partition)
	return slices.ContainsFunc(d.Snapshot.Partitions, func(p cluster.Partition) bool {
		most := cmp.Or(p.MaxTime, slurmplug.Unlimited)
		return p.DefaultTime != 0 && p.DefaultTime != most && j.TimeLimit == most && slices.Contains(names, p.Name)
	})
}

// take gives a job a place on nodes that are in none of the first windows; nil: there is none.
func (d *decider) take(x *candidate, windows int) []placement.Share {
	r := x.request
	r.Off = d.keepsOff(windows)
	if d.failed[r] {
		return nil
	}
	shares, fits := d.Free.Fit(r, nil)
	if !fits {
		d.failed[r] = true
		return nil
	}
	d.Free.Take(shares)
	return shares
}

// keepsOff is a request's Off for none of the nodes of the first windows.
func (d *decider) keepsOff(windows int) int32 {
	for n := len(d.off); n <= windows; n++ {
		in := map[string]bool{}
		for i := range d.Snapshot.Windows[:n] {
			for _, name := range d.Snapshot.Windows[i].Nodes {
				in[name] = true
			}
		}
		var nodes []int32
		for at, name := range d.Nodes.Names {
			if in[name] {
				nodes = append(nodes, int32(at))
			}
		}
		if d.off = append(d.off, 0); len(nodes) > 0 {
			d.off[n] = d.Free.Refused(nodes)
		}
	}
	return d.off[windows]
}

// shorten gives a job the limit that fits before the latest window before which it finds room.
func (d *decider) shorten(x *candidate) {
	for n := x.reaches - 1; n >= 0; n-- {
		w := d.windowAt(n)
		if w == nil {
			return
		}
		to := until(d.now, w.Start.Add(-d.set.Margin))
		if now, is := x.field.Now.Limit(); x.field.Ours && is && now > 0 && now <= to+2*d.set.Margin && !d.now.Add(now).After(w.Start) {
			to = now // it still fits
		}
		if to < time.Minute || x.own > 0 && to >= x.own || d.set.pays(x.j, to) < d.set.Pay {
			continue
		}
		place := d.take(x, n)
		if place == nil {
			continue
		}
		if d.Requeues != nil && !x.field.Ours && !d.Requeues(x.j) { // a look costs a command: only jobs that have a place get one
			d.Free.Release(place)
			return
		}
		tasks := 1
		for tasks < x.j.TasksNow() && d.take(x, n) != nil {
			tasks++
		}
		l := Limit{Job: x.j, Field: x.field, To: slurmplug.LimitOf(to), Until: w}
		if tasks < x.j.TaskCount {
			l.Tasks = tasks
		}
		d.result.Limits = append(d.result.Limits, l)
		return
	}
}
