package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"slurmprio/slurmplug"
)

// RevertPeriod is how soon a value must be written again for that to count as
// a fight with another writer over it.
const RevertPeriod = 10 * time.Minute

// Written is the last value that priod wrote into a job and how Slurm took it.
type Written struct {
	Lever   slurmplug.Lever `json:"lever"` // SiteFactor; in the journal, for priods that wrote others, too
	Value   int64           `json:"value"` // as written
	Tried   int64           `json:"tried"` // sent later, and not known whether Slurm took it; else Value
	At      time.Time       `json:"at"`
	Reverts int             `json:"reverts,omitempty"` // times that a value had to be written again within RevertPeriod each
	Older   []Sent          `json:"older,omitempty"`   // values before Value and Tried, the oldest first
}

// Sent is a value of priod's that a later one replaced.
type Sent struct {
	Value int64     `json:"value"`
	Until time.Time `json:"until"` // when the later one was sent
}

// slurmctld may show an older value of priod's again: one that dies loses what came after
// its last save, one that hung may carry out a command late. For so long after it was
// replaced such a value counts as priod's own.
const olderPeriod, maxOlder = 10 * time.Minute, 16

// Sent reports whether priod wrote a value itself: the last one, or one that may
// have come back since.
func (w Written) Sent(value int64) bool {
	return value == w.Value || value == w.Tried || slices.ContainsFunc(w.Older, func(o Sent) bool { return o.Value == value })
}

// Holding takes in that Slurm still showed a value at a time: an older one of
// priod's did not only come back.
func (w Written) Holding(value int64, at time.Time) Written {
	if i := slices.IndexFunc(w.Older, func(o Sent) bool { return o.Value == value }); i >= 0 {
		w.Older = append(slices.Delete(slices.Clone(w.Older), i, i+1), Sent{value, at})
	}
	return w
}

// Replaced gives what is Older once next is sent.
func (w Written) Replaced(next Written) []Sent {
	if w.Lever == "" {
		return nil // nothing was written
	}
	var older []Sent
	for _, o := range append(slices.Clone(w.Older), Sent{w.Value, next.At}, Sent{w.Tried, next.At}) {
		past := next.At.Sub(o.Until) >= olderPeriod
		if !past && o.Value != next.Value && !slices.ContainsFunc(older, func(e Sent) bool { return e.Value == o.Value }) {
			older = append(older, o)
		}
	}
	return older[max(0, len(older)-maxOlder):]
}

// Requested is what priod made of one field of a job's request. The values are as
// Slurm shows the field.
type Requested struct {
	Was   slurmplug.Value   `json:"was"`            // the user's own, from before priod first wrote: all else is made from it
	Value slurmplug.Value   `json:"value"`          // sent last
	Sure  bool              `json:"sure,omitempty"` // Slurm took Value
	Older []slurmplug.Value `json:"older,omitempty"`
	At    time.Time         `json:"at"`              // Value was sent
	Saved bool              `json:"saved,omitempty"` // Slurm has shown Value since, for so long that no older one can come back
}

// savedAfter is how long after a write slurmctld has surely written it to its state
// file, from which it would start again: it does within seconds (slurmctld/controller.c).
const savedAfter = 15 * time.Second

// maxSent is how many earlier values of priod's are remembered.
const maxSent = 16

// Next is r after another value was sent.
func (r Requested) Next(value slurmplug.Value, sure bool, at time.Time) Requested {
	var older []slurmplug.Value
	for _, s := range append(slices.Clone(r.Older), r.Value) {
		if s != r.Was && s != value && !slices.Contains(older, s) {
			older = append(older, s)
		}
	}
	r.Older = older[max(0, len(older)-maxSent):]
	r.Value, r.Sure, r.At, r.Saved = value, sure, at, false
	return r
}

// Ours reports whether a field that shows now holds a value of priod's. An older one may
// come back as slurmctld starts again from its state file; later it is the user's, who
// wants what priod wrote once.
func (r Requested) Ours(now slurmplug.Value) bool {
	return now != r.Was && (now == r.Value || !r.Saved && slices.Contains(r.Older, now))
}

// Theirs reports whether the field was changed by others after priod wrote it. Such a
// field is never written again.
func (r Requested) Theirs(now slurmplug.Value) bool {
	if now == r.Was {
		return r.Sure && r.Value != r.Was
	}
	return !r.Ours(now)
}

// Freed is a size that was changed by others after priod wrote it, with the user's own nodes
// in place of those that priod named; false when it names none of priod's.
func (r Requested) Freed(now slurmplug.Value) (size slurmplug.Value, pinned bool) {
	freed, own := now.Size(), r.Was.Size()
	for _, v := range append(slices.Clone(r.Older), r.Value) {
		ours := v.Size()
		pinned = pinned || ours.Nodes == freed.Nodes && ours.Nodes != own.Nodes
	}
	freed.Nodes = own.Nodes
	return freed.Value(), pinned && !r.Ours(now)
}

// SizePast is what became of earlier writes of a waiting job's size.
type SizePast struct {
	Rests time.Time `json:"rests,omitzero"`  // it has its own request again since then, because it did not start with another
	Ahead bool      `json:"ahead,omitempty"` // its size was written while no node had room for it
	Since time.Time `json:"since,omitzero"`  // the first such write of those that follow one another
}

// Refusal is why priod leaves a field of a waiting job alone: Slurm refused a write, or nothing can be written.
type Refusal struct {
	Words string    `json:"words,omitempty"`
	At    time.Time `json:"at,omitzero"` // zero: there is none
}

// keepOrder gives a list of partitions that priod knows its order again, which a requeue changes: the one in which
// the job ran stands first then.
func (h *History) keepOrder(j *Job) {
	r, known := h.Requests[j.ID][slurmplug.PartitionList]
	if !known || j.State != Pending {
		return
	}
	for _, v := range append([]slurmplug.Value{r.Value, r.Was}, r.Older...) {
		if PartitionSet(v.String()) == PartitionSet(j.Partition) {
			j.Partition = v.String()
			return
		}
	}
}

// saved notes which values of priod's Slurm shows, and has had time to save.
func (h *History) saved(j *Job, at time.Time) {
	for l, r := range h.Requests[j.ID] {
		if r.Saved {
			continue
		}
		if now, shown := j.Request(l); shown && now == r.Value && at.Sub(r.At) >= savedAfter {
			r.Saved = true
			h.Requests[j.ID][l] = r
		}
	}
}

// setBack ends stays now that ended, or were last seen, later than now: by a
// clock that was ahead. They would count against budgets until it is that late.
func (h *History) setBack(at time.Time) (changed []Stay) {
	for name, known := range h.recent {
		if end := Later(known.Start, at); known.End.After(end) {
			i := *known
			i.End = end
			h.recent[name], h.ends = &i, nil
			h.changes++
			changed = append(changed, i)
		}
	}
	for _, i := range h.running.All() {
		if end := Later(i.Start, at); i.End.After(end) {
			i.End = end
		}
	}
	slices.SortFunc(changed, func(a, b Stay) int { return cmp.Or(a.Job.Compare(b.Job), a.Start.Compare(b.Start)) })
	return changed
}

// inheritWritten gives a task what was written into its array. A write to the task of
// which it is not known whether it arrived may have left it there: then it may hold what the
// array got later, too.
func (h *History) inheritWritten(id JobID) {
	of, written := h.Written[slurmplug.Plain(id.ID)]
	w, known := h.Written[id]
	switch {
	case !written:
	case !known:
		h.Written[id] = of
	case w.Tried != w.Value && of.At.After(w.At):
		of.Older = slices.Concat(w.Replaced(of), of.Older)
		h.Written[id] = of
	}
}

// inheritRequests gives a task what was written into its array's request, as inheritWritten
// does.
func (h *History) inheritRequests(id JobID) {
	of := h.Requests[slurmplug.Plain(id.ID)]
	requests, known := h.Requests[id]
	if !known && of != nil {
		h.Requests[id] = maps.Clone(of)
	}
	for l, r := range requests {
		if later := of[l]; !r.Sure && later.Was == r.Was && later.At.After(r.At) {
			for _, v := range later.Older {
				r = r.Next(v, false, later.At)
			}
			requests[l] = r.Next(later.Value, later.Sure, later.At)
		}
	}
}

// recallWritten asks what was written into a job that is new here.
func (h *History) recallWritten(j *Job) {
	if h.former != nil {
		array := slurmplug.Plain(j.ID.ID)
		_, written := h.Written[array]
		h.former(j, j.Restarts > 0 && !written && h.Requests[array] == nil)
	}
}

// collect gives an array's record what was written for its tasks and stands in the
// record: Slurm writes there what is for all tasks that the record still has.
func (h *History) collect(j *Job) {
	task := j.FirstTask()
	if w, known := h.Written[task]; known && w.At.After(h.Written[j.ID].At) {
		if !j.SiteFactorKnown || w.Sent(j.SiteFactor) {
			h.Written[j.ID] = w
		}
	}
	for l, r := range h.Requests[task] {
		now, shown := j.Request(l)
		if old, known := h.Requests[j.ID][l]; known && !(shown && r.At.After(old.At)) || shown && !r.Ours(now) {
			continue
		}
		h.SetRequest(j.ID, l, r)
	}
}

// SetRequest says what priod made of one field of a job's request.
func (h *History) SetRequest(id JobID, l slurmplug.Lever, r Requested) {
	if h.Requests[id] == nil {
		h.Requests[id] = map[slurmplug.Lever]Requested{}
	}
	h.Requests[id][l] = r
}

// split gives a task of an array what was written into that, before a write of its own
// splits it off.
func (h *History) split(id JobID) {
	if _, seen := h.seen.Find(id); !seen && id.Task != slurmplug.NoTask {
		h.inheritWritten(id)
		h.inheritRequests(id)
	}
}

// Shown takes in the value that Slurm showed before a write: an older one of priod's
// that stands there still did not only come back.
func (h *History) Shown(id JobID, value int64, at time.Time) {
	if w, known := h.Written[id]; known {
		h.Written[id] = w.Holding(value, at)
	}
}

// Wrote takes in a value that Slurm accepted for a job. takenBack says that
// the last one had been replaced by the job's own.
func (h *History) Wrote(id JobID, w Written, takenBack bool) {
	h.split(id)
	old := h.Written[id]
	w.Tried, w.Reverts, w.Older = w.Value, 0, old.Replaced(w)
	again := takenBack || old.Value == w.Value
	since := w.At.Sub(old.At) // negative when the clock was set back: that says nothing
	if old.Lever != "" && again && since >= 0 && since < RevertPeriod {
		w.Reverts = old.Reverts + 1
	}
	h.Written[id] = w
}

// Try takes in a value that was sent and may or may not have arrived.
func (h *History) Try(id JobID, w Written) {
	h.split(id)
	old := h.Written[id]
	old.Lever, old.Older = w.Lever, old.Replaced(w)
	old.Tried, old.At = w.Value, w.At
	h.Written[id] = old
}

// Asked takes in a value that was sent into a job's request in place of what
// stood there; sure says that Slurm took it. The user's own ends the matter.
func (h *History) Asked(id JobID, l slurmplug.Lever, was, value slurmplug.Value, sure bool, at time.Time) {
	h.split(id)
	if sure && value == was {
		delete(h.Requests[id], l)
		if len(h.Requests[id]) == 0 && (id.Task == slurmplug.NoTask || h.Requests[slurmplug.Plain(id.ID)] == nil) {
			delete(h.Requests, id)
		}
		return
	}
	r, known := h.Requests[id][l]
	if !known || r.Was != was {
		r = Requested{Was: was, Value: was}
	}
	h.SetRequest(id, l, r.Next(value, sure, at))
}

// Refusal is the last one of a field in this wait of a job; of a task, that of the array that it is or was part of where it
// has none of its own.
func (h *History) Refusal(j *Job, id JobID, l slurmplug.Lever) (r Refusal) {
	if len(h.Refused) == 0 {
		return r
	}
	for _, id := range Lineage(id) {
		if r, known := h.Refused[id][l]; known && !r.At.Before(j.Submit) { // else of an earlier wait
			return r
		}
	}
	return Refusal{}
}

// Refuse takes in that Slurm refused a write into a field, in its words, or why nothing can be written there.
func (h *History) Refuse(id JobID, l slurmplug.Lever, words string, at time.Time) {
	if h.Refused[id] == nil {
		h.Refused[id] = map[slurmplug.Lever]Refusal{}
	}
	h.Refused[id][l] = Refusal{words, at}
}

// Sized takes in a write of a job's size: whether the job has its own request again
// because it did not start with another, or the size is for a job without room yet.
func (h *History) Sized(id JobID, rests, ahead bool, at time.Time) {
	p := h.Sizes[id]
	switch {
	case !ahead:
		p.Since = time.Time{}
	case !p.Ahead:
		p.Since = at
	}
	p.Ahead = ahead
	if rests {
		p.Rests = at
	}
	if p != (SizePast{}) {
		h.Sizes[id] = p
	}
}

// Reaches are the partitions in which a waiting job may come to run: its user's own, and those that its site adds.
func (h *History) Reaches(j *Job) string {
	own := j.Partition
	if len(h.Requests) > 0 {
		own = h.Own(j, slurmplug.PartitionList).String()
	}
	if j.Site == nil || j.Site.AnyOf == "" || j.State != Pending {
		return own
	}
	return Union(own, j.Site.AnyOf)
}

// Own is what the user asked for in a field of a job's request: what stands
// there, unless priod wrote it.
func (h *History) Own(j *Job, l slurmplug.Lever) slurmplug.Value { return h.Field(j, l).Own }

// Field is one field of a job's request, and whose it is.
type Field struct {
	Lever   slurmplug.Lever
	Now     slurmplug.Value
	Shown   bool            // Now is known
	Own     slurmplug.Value // what its user wants there
	Ours    bool            // Now is priod's
	Theirs  bool            // others changed it after priod had written it: it is never written again
	Written bool            // priod wrote there, perhaps without effect
	Last    Requested       // what
	Refused Refusal
}

// Field is the field of a lever.
func (h *History) Field(j *Job, l slurmplug.Lever) Field {
	f := Field{Lever: l, Refused: h.Refusal(j, j.ID, l)}
	f.Now, f.Shown = j.Request(l)
	f.Own = f.Now
	if f.Last, f.Written = h.Requests[j.ID][l]; f.Written {
		f.Ours, f.Theirs = f.Last.Ours(f.Now), f.Last.Theirs(f.Now)
	}
	if f.Ours {
		f.Own = f.Last.Was
	}
	return f
}
