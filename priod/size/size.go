package size

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// SizeSettings say which waiting jobs get other CPUs and memory than they ask for.
type Settings struct {
	Enabled   bool // new sizes are written; what was written is given back in any case
	Mechanism Mechanism
	Within    time.Duration // a job that has not started so long after it got a place gets its own request back
	Most      int           // jobs at the head of the queue that are looked at, and written to, in one cycle
	Table     *workload.Table
	Past      sensitivity.Past
	PastAt    time.Time // when it was learnt
	Unread    bool      // accounting has yet to say what it knows: no job gets another size before
}

// again is how many times Within passes before a job that got its own request
// back is sized anew.
const again = 10

// Sizes decides on sizes, and remembers from one cycle to the next what it need not
// work out again. It may be lost: no write depends on it. What was written, and what
// became of that, is in History.
type Sizes struct {
	set    Settings
	sizer  *Sizer
	curves map[curveKey]*sensitivity.Sensitivity
	told   map[cluster.JobID]string // what was said of jobs that wait with a new size
}

// Set takes in settings, which may change between two cycles.
func (z *Sizes) Set(set Settings) {
	if z.curves == nil {
		z.curves, z.told = map[curveKey]*sensitivity.Sensitivity{}, map[cluster.JobID]string{}
	}
	if z.sizer == nil || z.set.Mechanism != set.Mechanism {
		z.sizer = New(Rule{Mechanism: set.Mechanism, Reserve: true})
	}
	if z.set.Table != set.Table || !z.set.PastAt.Equal(set.PastAt) {
		clear(z.curves)
	}
	z.set = set
}

// inTurn is one waiting job in its turn.
type inTurn struct {
	job  *cluster.Job
	dec  *plan.Decision
	goal int64 // the priority that it will have
}

// queue are the waiting jobs that could start, in the order that the plan gives.
func queue(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) []inTurn {
	var all []inTurn
	next := 0
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending {
			continue
		}
		for next < len(p.Decisions) && p.Decisions[next].Job != j.ID {
			next++
		}
		if next == len(p.Decisions) {
			break
		}
		d := &p.Decisions[next]
		if _, eligible := h.FirstEligible[j.ID]; !eligible && !j.Begins(s.At) || j.GPUs == 0 || j.Held() || j.Dependency || j.Reservation != "" || j.HetOffset > 0 {
			continue
		}
		w := inTurn{j, d, d.Own + d.Value}
		if p.Mode == slurmplug.Priority && d.Value > 0 {
			w.goal = d.Value
		}
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b inTurn) int {
		return cmp.Or(cmp.Compare(b.goal, a.goal), a.job.Submit.Compare(b.job.Submit), a.job.ID.Compare(b.job.ID))
	})
	return all
}

// inTime tells whether priod orders a job, or would if it were not held back for a while
// so that its size is written before it starts.
func inTime(dec *plan.Decision, j *cluster.Job, at time.Time) bool {
	return dec.Ranked || dec.Why == string(plan.NotYet) && j.Begins(at)
}

// consents tells whether a job's tag agrees to another size.
func consents(j *cluster.Job) bool {
	return j.TagErr == "" && (len(j.Tag.CPU) > 0 || len(j.Tag.Mem) > 0 || j.Tag.Workload != "")
}

// Heads are the waiting jobs, as indices into the snapshot, whose Asked Decide
// needs: those that carry a size of priod's and, where some job at the head of the
// queue consents, that head.
func (z *Sizes) Heads(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) []int {
	if !z.set.Enabled && len(h.Requests) == 0 {
		return nil
	}
	var heads []int
	consent := false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if _, written := h.Requests[j.ID][slurmplug.Size]; written && j.State == cluster.Pending {
			heads = append(heads, i)
		}
		consent = consent || j.State == cluster.Pending && consents(j)
	}
	if !z.set.Enabled || !consent {
		return heads
	}
	first := queue(s, h, p)
	first = first[:min(len(first), z.set.Most)]
	if !slices.ContainsFunc(first, func(w inTurn) bool { return consents(w.job) }) {
		return heads
	}
	at := make(map[*cluster.Job]int, len(s.Jobs))
	for i := range s.Jobs {
		at[&s.Jobs[i]] = i
	}
	for _, w := range first {
		if i := at[w.job]; w.job.HetLeader == 0 && !slices.Contains(heads, i) {
			heads = append(heads, i)
		}
	}
	return heads
}

// Decide adds to the plan the writes that give waiting jobs the sizes on which
// they gain most, and those that give others their own requests back. The jobs of
// Heads have their Asked. The plan's decisions say for people what became of it.
func (z *Sizes) Decide(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) {
	z.forget(s)
	d := &sizer{Sizes: z, s: s, h: h, p: p, moved: map[cluster.JobID]bool{}}
	for i := range p.Actions {
		if !p.Actions[i].Lever.Ranks() {
			d.moved[p.Actions[i].Job] = true
		}
	}
	d.giveBack()
	d.recheck()
	if z.set.Enabled && !z.set.Unread {
		d.place()
	}
	d.restoreRaised()
	p.Ask(d.actions)
}

func (z *Sizes) forget(s *cluster.Snapshot) {
	if len(z.told) == 0 {
		return
	}
	known := map[uint32]bool{} // arrays are long, and few of them are meant
	for id := range z.told {
		known[id.ID] = true
	}
	pending := map[cluster.JobID]bool{}
	for i := range s.Jobs {
		if s.Jobs[i].State == cluster.Pending && known[s.Jobs[i].ID.ID] {
			pending[s.Jobs[i].ID] = true
			if s.Jobs[i].Tasks != "" {
				tasks, _ := slurmplug.ExpandTasks(s.Jobs[i].Tasks)
				for _, t := range tasks[:min(len(tasks), mostTasks)] {
					pending[cluster.JobID{ID: s.Jobs[i].ID.ID, Task: t}] = true
				}
			}
		}
	}
	maps.DeleteFunc(z.told, func(id cluster.JobID, _ string) bool { return !pending[id] })
}

// mostTasks are how many tasks of one array are remembered.
const mostTasks = 1000

// sizer makes one cycle's sizes.
type sizer struct {
	*Sizes
	s       *cluster.Snapshot
	h       *cluster.History
	p       *plan.Plan
	nodes   *nodemap.Map
	actions []plan.Action
	writes  int
	shares  []sensitivity.Share // see leastShares

	kept   map[cluster.JobID]bool // carry a size of priod's that stays
	placed []placed               // of those: on a node of its own
	raised []*raised              // of those: with more than they asked for, on any node
	theirs map[cluster.JobID]bool // somebody changed after priod wrote
	moved  map[cluster.JobID]bool // are steered in this cycle: where they may run changes
	due    []resizable
	others []placement.Share // what jobs take that are not sized
}

// resizable is a job, or a task of an array, that may get another size.
type resizable struct {
	inTurn
	id    cluster.JobID
	asked *slurmplug.Asked
	on    []*sensitivity.Sensitivity // by kind of nodes; nil where it may not run
}

// tell says what became of a job's size; of an array, of its first task.
func (d *sizer) tell(dec *plan.Decision, format string, a ...any) {
	if dec.Size == "" {
		dec.Size = fmt.Sprintf(format, a...)
	}
}

// giveBack takes back sizes of jobs that did not start with them, or no longer
// agree.
func (d *sizer) giveBack() {
	d.kept, d.theirs = map[cluster.JobID]bool{}, map[cluster.JobID]bool{}
	if len(d.h.Requests) == 0 {
		return
	}
	decisions := make(map[cluster.JobID]*plan.Decision, len(d.p.Decisions))
	for i := range d.p.Decisions {
		decisions[d.p.Decisions[i].Job] = &d.p.Decisions[i]
	}
	for i := range d.s.Jobs {
		j := &d.s.Jobs[i]
		r, written := d.h.Requests[j.ID][slurmplug.Size]
		dec := decisions[j.ID]
		if !written || j.State != cluster.Pending || j.Asked == nil || dec == nil {
			continue
		}
		late := d.late(j, r)
		switch {
		case r.Theirs(j.Asked.Text) && d.h.Claiming[j.ID]:
			d.kept[j.ID] = true // the node is the claim's
		case r.Theirs(j.Asked.Text):
			d.theirs[j.ID] = true
			if size, pinned := r.Freed(j.Asked.Text); pinned {
				d.restore(j, dec, cluster.Requested{Was: size}, plan.SizeRests, "somebody else changed it after priod wrote it, and only the node was priod's")
				continue
			}
			d.tell(dec, "size: changed by somebody else after priod wrote it, and left alone since")
		case !r.Ours(j.Asked.Text):
			// It never arrived, or is the user's own again.
		case !d.set.Enabled, !inTime(dec, j, d.s.At), !consents(j):
			d.restore(j, dec, r, changed, "sizing is off for it")
		case j.Prefer != "":
			d.restore(j, dec, r, changed, prefersNodes)
		case j.Asked.Fixed != "":
			d.restore(j, dec, r, changed, "it now "+j.Asked.Fixed)
		case beyond(j.Asked) != "":
			d.restore(j, dec, r, changed, "a limit leaves less than it has now: "+beyond(j.Asked))
		case j.Asked.Nodes != "" && late:
			d.restore(j, dec, r, plan.SizeRests, fmt.Sprintf("it did not start within %s on %s", d.set.Within, j.Asked.Nodes))
		case j.Asked.Nodes == "" && exceeds(j.Asked, r.Was):
			d.kept[j.ID] = true
			d.raised = append(d.raised, &raised{placed: placed{j, dec, r}})
		case late && !d.suffices(j, r.Was):
			d.restore(j, dec, r, changed, fmt.Sprintf("it did not start within %s with less than it can use", d.set.Within))
		default:
			d.kept[j.ID] = true
			if j.Asked.Nodes != "" {
				d.placed = append(d.placed, placed{j, dec, r})
				continue
			}
			d.stays(j, dec, r)
		}
	}
}

// late tells whether a job could have started with its new size for so long that it
// should have.
func (d *sizer) late(j *cluster.Job, r cluster.Requested) bool {
	age := d.s.At.Sub(r.At)
	if r.At.Before(j.Eligible) { // it could not start before
		age = max(d.s.At.Sub(j.Eligible), 0)
	}
	return age >= d.set.Within || age < 0
}

// raised is a waiting job that has more than it asked for, and may start on any node.
type raised struct {
	placed
	fits bool // it finds a place in its turn
	own  bool // it does not, and would with what it asked for itself
}

// restoreRaised gives back what was raised where it keeps a job from starting: with
// its own request it finds a place now; or it was raised for a place, and has not
// started for a reason that priod does not see.
func (d *sizer) restoreRaised() {
	for _, x := range d.raised {
		switch {
		case x.own:
			d.restore(x.job, x.dec, x.r, plan.SizeRests, "with that it finds a place now")
		case d.late(x.job, x.r) && !d.h.Sizes[x.job.ID].Ahead:
			d.restore(x.job, x.dec, x.r, plan.SizeRests, fmt.Sprintf("it did not start within %s with more than it asked for", d.set.Within))
		default:
			d.stays(x.job, x.dec, x.r)
		}
	}
}

// placed is a waiting job that has a size on a node of its own.
type placed struct {
	job *cluster.Job
	dec *plan.Decision
	r   cluster.Requested
}

// recheck gives back what is above a share where a free GPU would lack its own by
// it: a neighbour that would have left enough has gone, or somebody else came.
func (d *sizer) recheck() {
	if len(d.placed) == 0 {
		return
	}
	d.nodes = nodemap.New(d.s)
	left := map[int32]placement.Amount{} // when all have started that wait for their node
	hold := func(at int32, a *slurmplug.Asked, times int32) {
		f, known := left[at]
		if !known {
			f = d.nodes.Nodes.FreeOn(at)
		}
		core := max(d.nodes.Kinds[d.nodes.Nodes.Type(at)].Threads, 1)
		left[at] = placement.Amount{GPUs: f.GPUs - times*int32(a.GPUs), CPUs: f.CPUs - times*int32(up(a.CPUs, core)), MemMB: f.MemMB - int64(times)*a.MemMB}
	}
	for _, p := range d.placed {
		if at, known := d.nodes.Index[p.job.Asked.Nodes]; known {
			hold(at, p.job.Asked, 1)
		}
	}
	for _, p := range d.placed {
		a := p.job.Asked
		if at, known := d.nodes.Index[a.Nodes]; known {
			size, f := d.nodes.Nodes.Size(at), left[at]
			// above tells whether the job has more than its share of something that lacks.
			above := func(has, free, all int64) bool {
				return has*int64(size.GPUs) > all*int64(a.GPUs) && free < all*int64(f.GPUs)/int64(size.GPUs)
			}
			if f.GPUs > 0 && (above(int64(a.CPUs), int64(f.CPUs), int64(size.CPUs)) || above(a.MemMB, f.MemMB, size.MemMB)) {
				hold(at, a, -1)
				d.restore(p.job, p.dec, p.r, changed, "a free GPU of "+a.Nodes+" would lack its share by it now")
				continue
			}
		}
		d.stays(p.job, p.dec, p.r)
	}
}

// stays says of a job that it keeps the size that it has.
func (d *sizer) stays(j *cluster.Job, dec *plan.Decision, r cluster.Requested) {
	own := j.Asked.Of(r.Was)
	d.tell(dec, "%s", cmp.Or(d.told[j.ID], fmt.Sprintf("size: asked for %s; has %s since %s",
		amount(own.CPUs, own.MemMB), amount(j.Asked.CPUs, j.Asked.MemMB), r.At.Format(time.RFC3339))))
}

// exceeds tells whether a job has more than it asked for itself.
func exceeds(a *slurmplug.Asked, was string) bool {
	own := a.Of(was)
	return a.CPUs > own.CPUs || a.MemMB > own.MemMB && !alike(a.MemMB, own.MemMB)
}

// suffices tells whether some kind of nodes gives a job with its size of now all that it
// can use of what it asked for. Where nobody knows what it can use, what was written
// stands.
func (d *sizer) suffices(j *cluster.Job, was string) bool {
	if d.nodes == nil {
		d.nodes = nodemap.New(d.s)
	}
	types, known := d.nodes.Types(j)
	if !known || j.Asked.GPUs == 0 {
		return true
	}
	a, own := j.Asked, j.Asked.Of(was)
	gpus, less := float64(a.GPUs), false
	for t, n := range d.nodes.Kinds {
		if !types.Has(int32(t)) || n.GPUs == 0 {
			continue
		}
		s := d.sensitivity(j, &own, n)
		if s.Curve == nil {
			return true
		}
		best := s.Curve.Relative(float64(a.CPUs)/gpus, float64(a.MemMB)/gpus) >= s.Curve.Best()*(1-1e-9)
		cpus := !s.CPU || float64(a.CPUs) >= min(float64(own.CPUs), s.Curve.DemandCPUs*gpus)
		mem := !s.Mem || float64(a.MemMB) >= min(float64(own.MemMB), float64(s.Curve.DemandMemMB)*gpus)
		if best || cpus && mem {
			return true
		}
		less = true
	}
	return !less
}

// prefersNodes says why a job is not sized: on a node that a size names and that lacks
// what the job prefers Slurm never starts it.
const prefersNodes = "it prefers nodes itself (--prefer), and Slurm refuses it others that a size names"

// changed is the reason of a write that says nothing about later ones.
const changed = "size"

// rests is until when a job that did not start with another size keeps its own.
func (d *sizer) rests(id cluster.JobID) time.Time {
	since := d.h.Sizes[id].Rests
	if since.IsZero() || since.After(d.s.At) { // by a clock that was ahead
		return time.Time{}
	}
	return since.Add(again * d.set.Within)
}

func (d *sizer) restore(j *cluster.Job, dec *plan.Decision, r cluster.Requested, reason, why string) {
	d.kept[j.ID] = true // for this cycle
	if past := d.h.Sizes[j.ID]; past.Refused != "" {
		if next := past.At.Add(d.set.Within); d.s.At.Before(next) && !past.At.After(d.s.At) {
			d.tell(dec, "size: %q, of its own %q, which it does not have again because that was refused: %s; priod tries again after %s",
				r.Value, r.Was, past.Refused, next.Format(time.RFC3339))
			return
		}
	}
	d.actions = append(d.actions, plan.Action{
		Job: j.ID, Tasks: j.Tasks, Lever: slurmplug.Size, Before: j.Asked.Text, After: r.Was, Was: r.Was, Reason: reason,
	})
	d.tell(dec, "size: its own request again, because %s", why)
}

// place goes through the queue and gives each job in its turn its place, then
// has those sized that agree to it.
func (d *sizer) place() {
	all := queue(d.s, d.h, d.p)
	if !slices.ContainsFunc(all, func(w inTurn) bool { return consents(w.job) }) {
		return
	}
	if d.nodes == nil {
		d.nodes = nodemap.New(d.s)
	}
	raises := make(map[cluster.JobID]*raised, len(d.raised))
	for _, x := range d.raised {
		raises[x.job.ID] = x
	}
	free := d.nodes.Nodes.Clone()
	gpus := 0
	for t := range d.nodes.Kinds {
		gpus += free.FreeGPUs(int32(t))
	}
	for n, w := range all {
		if gpus <= 0 && n >= d.set.Most {
			break
		}
		types, known := d.nodes.Types(w.job)
		if !known {
			continue // Slurm knows where it may run; priod does not
		}
		for _, id := range tasksFrom(w.job, gpus/max(w.job.GPUs, 1)) {
			c, why := d.candidate(w, id, types)
			if why != "" && consents(w.job) && !d.kept[id] && !d.theirs[id] {
				d.tell(w.dec, "size: its own, because %s", why)
			}
			took := d.take(free, c, w, types)
			if x := raises[w.job.ID]; x != nil && !x.fits {
				x.fits = took > 0
				if !x.fits {
					took = d.takeOwn(free, x, types)
				}
			}
			gpus -= took
			if took == 0 {
				if c != nil {
					d.ahead(c)
				}
				break
			}
			count(w)
		}
	}
	d.size()
}

// tasksFrom are the first n tasks of an unsplit array that may start now, at
// least one; the job itself when it is none.
func tasksFrom(j *cluster.Job, n int) []cluster.JobID {
	if j.Tasks == "" {
		return []cluster.JobID{j.ID}
	}
	tasks, err := slurmplug.ExpandTasks(j.Tasks)
	if err != nil {
		return nil
	}
	tasks = tasks[:min(len(tasks), max(n, 1))]
	ids := make([]cluster.JobID, len(tasks))
	for i, t := range tasks {
		ids[i] = cluster.JobID{ID: j.ID.ID, Task: t}
	}
	return ids
}

// candidate is nil with the reason for a job whose size stays as it is.
func (d *sizer) candidate(w inTurn, id cluster.JobID, types placement.Types) (*resizable, string) {
	j, a := w.job, w.job.Asked
	switch {
	case !consents(j):
		return nil, "it did not agree"
	case !inTime(w.dec, j, d.s.At):
		return nil, "priod does not order it"
	case j.HetLeader != 0:
		return nil, "it is part of a heterogeneous job"
	case j.Prefer != "":
		return nil, prefersNodes
	case d.h.Claiming[j.ID], d.h.Claiming[id]:
		return nil, "room is being made for it"
	case d.h.Lowered(j):
		return nil, "it has yet to get back the memory that it asked for before it ran"
	case d.moved[j.ID]:
		return nil, "its GPU type is being chosen"
	case d.kept[id], d.theirs[id]:
		return nil, "it has one from an earlier cycle"
	case d.h.Sizes[id].Refused != "":
		return nil, "Slurm refused the change: " + d.h.Sizes[id].Refused
	case d.s.At.Before(d.rests(id)):
		return nil, fmt.Sprintf("it did not start with another one; priod tries again after %s", d.rests(id).Format(time.RFC3339))
	case a == nil:
		return nil, "its turn is too far off, or Slurm did not say how it asks"
	case a.Fixed != "":
		return nil, "it " + a.Fixed
	case a.Nodes != "":
		return nil, "it names its nodes"
	case a.KeepsCPUs != "" && a.KeepsMemory != "":
		return nil, "it " + a.KeepsCPUs + "; it " + a.KeepsMemory
	case beyond(a) != "":
		return nil, "it asks for more than a limit leaves now: " + beyond(a)
	}
	c := &resizable{inTurn: w, id: id, asked: a, on: make([]*sensitivity.Sensitivity, len(d.nodes.Kinds))}
	why := "no node has its GPUs"
	for t, n := range d.nodes.Kinds {
		if !types.Has(int32(t)) || n.GPUs == 0 {
			continue
		}
		if c.on[t], why = d.sensitivity(j, a, n), ""; c.on[t].Curve == nil {
			return nil, strings.Join(append([]string{"nothing is known of how it uses " + uses(a) + " on " + n.GPUType}, c.on[t].Notes...), "; ")
		}
	}
	if why != "" {
		return nil, why
	}
	return c, ""
}

// uses are what of a job can change.
func uses(a *slurmplug.Asked) string {
	switch {
	case a.KeepsCPUs != "":
		return "memory"
	case a.KeepsMemory != "":
		return "CPUs"
	}
	return "CPUs and memory"
}

// curveKey is all that a sensitivity depends on.
type curveKey struct {
	tag, user, name, gpuType string
	share                    sensitivity.Share
	cpus, memMB              float64 // own, for each GPU
	keepsCPUs, keepsMem      string
}

// sensitivity is how a job's speed depends on its size on a kind of nodes. What
// nobody knows it to gain from it keeps as asked: its memory, without which it
// might die, and CPUs of which it has its share. Without a curve when nothing is
// known at all and it has its share.
func (d *sizer) sensitivity(j *cluster.Job, a *slurmplug.Asked, n *cluster.Node) *sensitivity.Sensitivity {
	gpus := float64(a.GPUs)
	key := curveKey{
		user: j.User, name: j.Name, gpuType: n.GPUType, keepsCPUs: a.KeepsCPUs, keepsMem: a.KeepsMemory,
		cpus: float64(a.CPUs) / gpus, memMB: float64(a.MemMB) / gpus,
		share: sensitivity.Share{CPUs: float64(n.CPUs) / float64(n.GPUs), MemMB: float64(n.MemMB) / float64(n.GPUs)},
	}
	key.tag, _ = jobtag.Encode(j.Tag) // it was read from one
	if s, known := d.curves[key]; known {
		return s
	}
	if len(d.curves) > 1<<14 {
		clear(d.curves)
	}
	s := sensitivity.Of(sensitivity.Job{User: j.User, Name: j.Name, Tag: &j.Tag}, n.GPUType, key.share, d.set.Table, d.set.Past)
	for _, keeps := range []struct {
		why   string
		known *bool
	}{{a.KeepsCPUs, &s.CPU}, {a.KeepsMemory, &s.Mem}} {
		if keeps.why != "" {
			*keeps.known, s.Notes = false, append(s.Notes, "it "+keeps.why)
		}
	}
	s.Why = strings.Join(append([]string{s.Why}, s.Notes...), "; ")
	switch {
	case !s.CPU && !s.Mem && (a.KeepsCPUs != "" || key.cpus >= math.Floor(key.share.CPUs)):
		s.Curve = nil
	case !s.CPU && !s.Mem:
		s.Curve = flat(key.share.CPUs, key.memMB)
	case !s.Mem:
		s.Curve = across(s.Curve, s.Curve.CPUs, s.Curve.DemandCPUs, []int64{whole(key.memMB)}, key.memMB)
	case !s.CPU:
		s.Curve = across(s.Curve, []float64{key.cpus}, key.cpus, s.Curve.MemMB, float64(s.Curve.DemandMemMB))
	}
	d.curves[key] = &s
	return &s
}

func whole(mb float64) int64 { return max(1, int64(math.Ceil(mb))) }

// flat is the curve of a job that is as fast whatever it gets.
func flat(cpus, memMB float64) *workload.Curve {
	return &workload.Curve{
		IterationS: 1, DemandCPUs: cpus, DemandMemMB: whole(memMB),
		CPUs: []float64{cpus}, MemMB: []int64{whole(memMB)}, Speed: [][]float64{{1}},
	}
}

// across is a curve along some points of another one.
func across(c *workload.Curve, cpus []float64, wantCPUs float64, memMB []int64, wantMB float64) *workload.Curve {
	o := &workload.Curve{IterationS: c.IterationS, DemandCPUs: wantCPUs, DemandMemMB: whole(wantMB), CPUs: cpus, MemMB: memMB}
	for _, x := range cpus {
		row := make([]float64, len(memMB))
		for k, mb := range memMB {
			row[k] = c.Relative(x, float64(mb))
		}
		o.Speed = append(o.Speed, row)
	}
	return o
}

// take gives a job its place in what is free, if it has one, and says how many
// GPUs that takes. What a job takes that is not sized counts in full, else the
// least that it may be brought to.
func (d *sizer) take(free *placement.Nodes, c *resizable, w inTurn, types placement.Types) int {
	r := d.nodes.Request(w.job, types)
	if a := w.job.Asked; a != nil && a.GPUs > 0 {
		r.CPUs, r.MemMB = int32(min(a.CPUs, placement.Plenty)), a.MemMB
		if a.Nodes != "" {
			at, known := d.nodes.Index[a.Nodes]
			own := []placement.Share{{Node: at, Amount: r.Amount}}
			if !known || !free.Hold(own) {
				return 0
			}
			free.Take(own)
			d.others = append(d.others, own...)
			return w.job.GPUs
		}
	}
	if c != nil {
		r.CPUs, r.MemMB = d.least(c)
		r.Nodes = 1
	}
	shares, fits := free.Fit(r, nil)
	if !fits {
		return 0
	}
	free.Take(shares)
	if c != nil {
		d.due = append(d.due, *c)
	} else {
		d.others = append(d.others, shares...)
	}
	return w.job.GPUs
}

// takeOwn is take for a raised job that found no place, with what it asked for itself.
func (d *sizer) takeOwn(free *placement.Nodes, x *raised, types placement.Types) int {
	r, own := d.nodes.Request(x.job, types), x.job.Asked.Of(x.r.Was)
	r.CPUs, r.MemMB = int32(min(own.CPUs, placement.Plenty)), own.MemMB
	shares, fits := free.Fit(r, nil)
	if !fits {
		return 0
	}
	free.Take(shares)
	d.others = append(d.others, shares...)
	x.own = true
	return x.job.GPUs
}

// least is what a job needs at least to be placed, on the kind of nodes where
// that is least.
func (d *sizer) least(c *resizable) (cpus int32, memMB int64) {
	cpus, memMB = math.MaxInt32, math.MaxInt64
	gpus := float64(c.asked.GPUs)
	for t, s := range c.on {
		if s == nil {
			continue
		}
		n := d.nodes.Kinds[t]
		want, wantMB := s.Curve.DemandCPUs*gpus, float64(s.Curve.DemandMemMB)*gpus
		if s.CPU {
			want = min(want, float64(n.CPUs)*gpus/float64(n.GPUs))
		}
		if s.Mem {
			wantMB = min(wantMB, float64(n.MemMB)*gpus/float64(n.GPUs))
		}
		cpus, memMB = min(cpus, int32(max(want, 1))), min(memMB, int64(max(wantMB, 1)))
	}
	return max(cpus, int32(c.asked.Least)), memMB
}

// ahead brings a job that cannot start now to what it can use, before GPUs become free
// and Slurm starts it at once: down to that, with which it fits wherever it would have,
// or up to it, but to no more than its share of each node where it may start.
func (d *sizer) ahead(c *resizable) {
	cpus, memMB := 0, int64(0)
	gpus := float64(c.asked.GPUs)
	mayCPUs, mayMB := math.MaxInt, int64(math.MaxInt64)
	least := d.leastShares()
	for t, s := range c.on {
		if s == nil {
			continue
		}
		core := float64(max(d.nodes.Kinds[t].Threads, 1))
		want, wantMB := c.asked.CPUs, c.asked.MemMB
		if s.CPU {
			want = int(math.Ceil(s.Curve.DemandCPUs*gpus/core) * core)
		}
		if s.Mem {
			wantMB = s.Curve.DemandMemMB * int64(c.asked.GPUs)
		}
		cpus, memMB = max(cpus, want), max(memMB, wantMB)
		mayCPUs = min(mayCPUs, int(math.Floor(least[t].CPUs*gpus/core)*core))
		mayMB = min(mayMB, int64(least[t].MemMB*gpus))
	}
	for _, l := range c.asked.Allowances {
		most, mostMB := l.Of(0, 0) // it has no place, and was not counted
		if most < int64(c.asked.CPUs) || mostMB < c.asked.MemMB {
			mayCPUs, mayMB = 0, 0 // those before it take what the limit leaves
		}
		mayCPUs, mayMB = int(min(int64(mayCPUs), most)), min(mayMB, mostMB)
	}
	unit := c.asked.Unit()
	cpus = min(up(cpus, unit), max(mayCPUs/unit*unit, c.asked.CPUs))
	memMB = min(memMB, max(mayMB, c.asked.MemMB))
	value, gets, getsMB := c.asked.Resize(cpus, memMB, "")
	if c.asked.KeepsCPUs == "" && gets > max(mayCPUs, c.asked.CPUs) || c.asked.KeepsMemory == "" && getsMB > max(mayMB, c.asked.MemMB) || gets == c.asked.CPUs && alike(getsMB, c.asked.MemMB) {
		d.tell(c.dec, "size: its own, %s, while no node has room for it (%s)", amount(c.asked.CPUs, c.asked.MemMB), d.why(c))
		return
	}
	told := fmt.Sprintf("size: asked for %s; more than %s makes it no faster, and it has that while it waits (%s)",
		amount(c.asked.CPUs, c.asked.MemMB), amount(gets, getsMB), d.why(c))
	if gets > c.asked.CPUs || getsMB > c.asked.MemMB {
		for _, l := range c.asked.Allowances {
			l.Take(gets, getsMB)
		}
		told = fmt.Sprintf("size: asked for %s; it waits with %s, no more than it gains from nor than its share on each node where it may start (%s)",
			amount(c.asked.CPUs, c.asked.MemMB), amount(gets, getsMB), d.why(c))
	}
	d.write(c, value, plan.SizeAhead, told)
}

func (d *sizer) why(c *resizable) string {
	for _, s := range c.on {
		if s != nil {
			return s.Why
		}
	}
	return ""
}

// up is n rounded up to a multiple of unit.
func up(n, unit int) int { return (n + unit - 1) / unit * unit }

// alike tells whether two amounts of memory are not worth a write.
func alike(a, b int64) bool { return math.Abs(float64(a-b)) <= 0.02*float64(max(a, b)) }

func amount(cpus int, memMB int64) string {
	if cpus == 1 {
		return fmt.Sprintf("1 CPU and %d MB", memMB)
	}
	return fmt.Sprintf("%d CPUs and %d MB", cpus, memMB)
}

// size has the jobs sized that got a place, and writes what fits in whole CPUs and
// MB beside what each free GPU is kept.
func (d *sizer) size() {
	if len(d.due) == 0 {
		return
	}
	for _, o := range d.others {
		d.nodes.Nodes.Take([]placement.Share{{Node: o.Node, Amount: d.atLeastShare(o)}})
	}
	var nodes []Node
	var at []int32
	for i := range int32(d.nodes.Nodes.Len()) {
		size := d.nodes.Nodes.Size(i)
		if size.GPUs == 0 || size.CPUs == 0 || size.MemMB == 0 {
			continue
		}
		free := d.nodes.Nodes.FreeOn(i)
		if d.nodes.Nodes.Down(i) {
			free = placement.Amount{}
		}
		nodes = append(nodes, Node{Type: int(d.nodes.Nodes.Type(i)), Total: sizes(size), Free: sizes(free)})
		at = append(at, i)
	}
	jobs := make([]Job, len(d.due))
	for i := range d.due {
		c := &d.due[i]
		jobs[i] = Job{GPUs: c.asked.GPUs, On: make([]Sensitivity, len(c.on))}
		for t, s := range c.on {
			if s != nil {
				speed := 1.0
				if v, said := c.job.Tag.Speed[d.nodes.Kinds[t].GPUType]; said {
					speed = v
				}
				jobs[i].On[t] = Sensitivity{Speed: speed, Curve: s.Curve}
			}
		}
	}
	var grants []grant
	for _, g := range d.Sizes.sizer.Size(jobs, nodes) {
		c := &d.due[g.Job]
		if len(g.Parts) != 1 {
			d.tell(c.dec, "size: its own, because no single node has its GPUs free")
			continue
		}
		if g, ok := d.grant(c, at[g.Parts[0].Node], &g.Parts[0]); ok {
			grants = append(grants, g)
		}
	}
	// A job that takes more than its share counts on what its neighbours leave: they
	// all go where they were placed. So does one that is raised to its share and would
	// have more than that on other nodes. The rest may go anywhere.
	full := map[int32]bool{}
	for _, g := range grants {
		full[g.node] = full[g.node] || g.over
	}
	least := d.leastShares()
	for _, g := range grants {
		node, on := "", ""
		if full[g.node] || g.tooMuch(least) {
			node = d.nodes.Names[g.node]
			on = " on " + node
		}
		if g.same && node == "" {
			d.tell(g.dec, "%s", g.told)
			continue
		}
		d.write(g.resizable, g.value(node), changed, g.told+on)
	}
}
