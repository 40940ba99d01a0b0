package view

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// Job is a waiting job in a list.
type Job struct {
	Place     int           `json:"place"` // among all that wait
	Job       cluster.JobID `json:"job"`
	Tasks     string        `json:"tasks,omitempty"`
	User      string        `json:"user"`
	Account   string        `json:"account"`
	Partition string        `json:"partition"`
	Class     string        `json:"class"` // te, be, or - when it is left alone
	Nodes     int           `json:"nodes"`
	GPUs      int           `json:"gpus"`
	GPUType   string        `json:"gpu_type,omitempty"`
	Features  string        `json:"features,omitempty"` // its constraint, as priod may have written it
	WaitS     int64         `json:"wait_s"`
	Priority  int64         `json:"priority"` // when it last changed in another way than by age
	Value     int64         `json:"value"`    // that priod adds
	Why       string        `json:"why"`
	Words     string        `json:"words"`            // the reason as a sentence
	Detail    string        `json:"detail,omitempty"` // of its place in the queue
	Steer     string        `json:"steer,omitempty"`  // which GPU type it gets, or none, and why
	Unmoved   string        `json:"unmoved,omitempty"`
	Reason    string        `json:"slurm_reason"`
	Cause     string        `json:"cause,omitempty"`      // why it waits now: a cause of priod report waits
	CauseText string        `json:"cause_text,omitempty"` // what is short, and with what it would start sooner
	RoomFor   bool          `json:"room_is_made,omitempty"`

	Start *store.ExpectedStart `json:"expected_start,omitempty"` // nil: not known
	room  time.Time            // others leave for it, the last one by then; zero: none leaves
	Bar   *Bar                 `json:"-"`
}

// jobOf is a waiting job; now is the last part of its wait, nil: none is stored.
func jobOf(q *store.Queued, now *plan.WaitSpan) Job {
	j := &q.Job
	v := Job{
		Job: j.ID, Tasks: j.Tasks, User: j.User, Account: j.Account, Partition: j.Partition, Class: "-", Nodes: j.Nodes, GPUs: j.GPUs,
		GPUType: j.GPUType, Features: j.Features, Priority: j.Priority, Reason: j.Reason, Start: q.Start,
	}
	if now != nil {
		v.Cause, v.CauseText = string(now.Cause), now.Words
	}
	since := j.Eligible
	if d := q.Decision; d != nil {
		v.Value, v.Why, v.Words, v.Detail, v.Steer, v.Unmoved = d.Value, d.Why, Reason(d.Why), d.Detail, d.Steer, d.Unmoved
		if d.Ranked {
			v.Class = d.Class.String()
		}
		if !d.Since.IsZero() {
			since = d.Since
		}
	}
	if since.IsZero() || since.After(time.Now()) { // held, dependent, a begin time
		since = j.Submit
	}
	if !since.IsZero() {
		v.WaitS = max(int64(store.AsOf(q.Moment).Sub(since).Seconds()), 0)
	}
	return v
}

// jobsOf are waiting jobs; places are theirs among all that wait, room is that of roomFor.
func jobsOf(page []store.Waiting, places []int, room map[cluster.JobID]time.Time) []Job {
	all := make([]Job, len(page))
	for i := range page {
		all[i] = jobOf(&page[i].Queued, page[i].Now)
		all[i].Place, all[i].room = places[i], room[page[i].Job.ID]
		all[i].RoomFor = !all[i].room.IsZero()
	}
	drawBars(all)
	return all
}

// Bar is an expected start from the median to nine of ten, on a line of barWidth from now to the last one of the list.
type Bar struct{ X, Width int }

const barWidth = 100

// drawBars gives each job whose start is known its bar.
func drawBars(jobs []Job) {
	last := time.Minute
	for i := range jobs {
		if s := jobs[i].Start; s != nil && !s.P90.IsZero() {
			last = max(last, s.P90.Sub(s.Now()))
		}
	}
	for i := range jobs {
		if s := jobs[i].Start; s != nil && !s.P90.IsZero() {
			at := func(t time.Time) int { return int(barWidth * max(t.Sub(s.Now()), 0) / last) }
			x := min(at(s.Median), barWidth-2)
			jobs[i].Bar = &Bar{x, max(at(s.P90)-x, 2)}
		}
	}
}

// when is when it is expected to start.
func (v *Job) when() When { return whenOf(v.Start, plan.Cause(v.Cause), v.room) }

// Starts says when it is expected to start; "" when that is not known.
func (v *Job) Starts() string {
	when := v.when()
	if text := when.Words(); text != "" {
		return "starts " + text
	}
	return ""
}

// Short says why it waits in a few words.
func (v *Job) Short() string {
	if v.RoomFor {
		return "others leave for it"
	}
	return CauseWords(v.Cause)
}

// StartsShort is when it is expected to start, in half and in nine of ten cases; "-": not known.
func (v *Job) StartsShort() string {
	when := v.when()
	return when.Short()
}

// WaitSeconds is the wait as templates take it.
func (v *Job) WaitSeconds() float64 { return float64(v.WaitS) }

// Target is the job of an action with the tasks that it reaches.
func Target(a plan.Action) string { return slurmplug.Update{Job: a.Job, Tasks: a.Tasks}.Target() }

// Result is what became of an action.
func Result(o plan.Outcome) string {
	if o.Message == "" {
		return string(o.Status)
	}
	return string(o.Status) + ": " + o.Message
}
