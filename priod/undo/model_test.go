package undo

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// world is a Slurm with a priod that writes into its jobs, users who change what they
// ask for, and a reset. No value that one of them writes is ever written by the other.
type world struct {
	t       *rapid.T
	dir     string
	at      time.Time
	records []*record
	nodes   []cluster.Node
	ids     uint32
	writes  int  // of the reset
	clumsy  bool // not every look and write of the reset succeeds
}

// record is a job as Slurm has it, and who wrote what into it.
type record struct {
	cluster.Job
	fields map[slurmplug.Lever]*field
	unseen bool // its id was another's when priod last looked
}

type field struct {
	now, own string // what stands there, and what its user last asked for
	priods   bool   // priod wrote what stands there
	written  bool   // by priod, once
	changed  bool   // by its user after that: priod leaves it alone
}

// What users and priod write, each in its own fields.
var userWords = map[slurmplug.Lever][]string{
	slurmplug.Features:    {"", "a100|v100", "ssd|big", "big&ssd"},
	slurmplug.Size:        {"2", "3", "5"},
	slurmplug.ReqNodeList: {"", "n1", "n2"},
	slurmplug.Switches:    {"0@0", "4@10"},
	slurmplug.NumNodes:    {"1-0", "1-4"},
	slurmplug.SiteFactor:  {"0", "7", "13"},
}

var priodsWords = map[slurmplug.Lever][]string{
	slurmplug.Features:    {"a100", "v100", "ssd&v100", "ssd&a100"},
	slurmplug.Size:        {"11", "12", "13"},
	slurmplug.ReqNodeList: {"n8", "n[8-9]"},
	slurmplug.Switches:    {"1@30", "2@30"},
	slurmplug.NumNodes:    {"1-1", "1-2"},
	slurmplug.SiteFactor:  {"1000", "2000", "3000"},
}

func newWorld(t *rapid.T, dir string) *world {
	return &world{
		t: t, dir: dir, at: epoch,
		nodes: []cluster.Node{{Name: "n1", Features: []string{"a100", "v100", "ssd", "big"}}},
	}
}

func (w *world) submit() {
	w.ids++
	r := &record{Job: cluster.Job{ID: slurmplug.Plain(w.ids), RawID: w.ids, TaskCount: 1, User: "ann", State: cluster.Pending, Submit: w.at}, fields: map[slurmplug.Lever]*field{}}
	if rapid.Bool().Draw(w.t, "array") {
		r.Tasks, r.TaskCount = "0-2", 3
	}
	for _, l := range slices.Sorted(maps.Keys(userWords)) {
		words := userWords[l]
		own := words[0]
		if l != slurmplug.SiteFactor && l != slurmplug.ReqNodeList {
			own = rapid.SampledFrom(words).Draw(w.t, "own "+string(l))
		}
		r.fields[l] = &field{now: own, own: own}
	}
	w.records = append(w.records, r)
}

// split gives the task of an array that starts next a record of its own. The record with
// the last task is that task, as slurmplug reads it.
func (w *world) split(r *record) *record {
	if r.Tasks == "" {
		return r
	}
	task := &record{Job: r.Job, unseen: r.unseen, fields: map[slurmplug.Lever]*field{}}
	w.ids++
	task.ID, task.RawID, task.Tasks, task.TaskCount = r.FirstTask(), w.ids, "", 1
	for l, f := range r.fields {
		own := *f
		task.fields[l] = &own
	}
	rest, _ := slurmplug.ExpandTasks(r.Tasks)
	r.Tasks, r.TaskCount = slurmplug.CompactTasks(rest[1:]), len(rest)-1
	if len(rest) == 2 {
		r.ID, r.Tasks = r.FirstTask(), ""
	}
	w.records = append(w.records, task)
	return task
}

// sizeText is the value of Size, which names the job's nodes, too.
func (r *record) sizeText() string {
	return "NumCPUs=" + r.fields[slurmplug.Size].now + " ReqNodeList=" + r.fields[slurmplug.ReqNodeList].now
}

// show is the record as a poll shows it.
func (r *record) show() cluster.Job {
	j, number := r.Job, func(l slurmplug.Lever) int64 { n, _ := strconv.ParseInt(r.fields[l].now, 10, 64); return n }
	j.Features = r.fields[slurmplug.Features].now
	if j.State == cluster.Pending {
		j.SiteFactor, j.SiteFactorKnown = number(slurmplug.SiteFactor), true
	}
	return j
}

func (w *world) Observe(context.Context) (cluster.Snapshot, error) {
	s := cluster.Snapshot{At: w.at, Nodes: w.nodes}
	for _, r := range w.records {
		s.Jobs = append(s.Jobs, r.show())
	}
	return s, nil
}

func (w *world) ObserveQueue(ctx context.Context) (cluster.Snapshot, error) { return w.Observe(ctx) }

func (w *world) find(id cluster.JobID) *record {
	i := slices.IndexFunc(w.records, func(r *record) bool { return r.ID == id })
	return w.records[i]
}

// fails reports whether something that the reset does fails.
func (w *world) fails(what string) bool {
	return w.clumsy && rapid.IntRange(0, 3).Draw(w.t, what) == 0
}

func (w *world) Asked(_ context.Context, jobs []*cluster.Job) (err error) {
	for _, j := range jobs {
		if w.fails("look at a size") {
			err = errors.New("no size")
		} else {
			j.Asked = &slurmplug.Asked{Holds: slurmplug.Size.Value(w.find(j.ID).sizeText())}
		}
	}
	return err
}

func (w *world) AskNodeCounts(_ context.Context, jobs []*cluster.Job) (err error) {
	for _, j := range jobs {
		if w.fails("look at nodes") {
			err = errors.New("no nodes")
		} else {
			j.NodeCount = w.find(j.ID).fields[slurmplug.NumNodes].now
		}
	}
	return err
}

func (w *world) AskSwitches(_ context.Context, jobs []*cluster.Job) (err error) {
	for _, j := range jobs {
		if w.fails("look at switches") {
			err = errors.New("no switches")
		} else {
			j.Switches = w.find(j.ID).fields[slurmplug.Switches].now
		}
	}
	return err
}

func (w *world) Excluded(context.Context, plan.Target) (string, error) { return "", nil }

func (w *world) Look(_ context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	all, err := map[cluster.JobID]plan.JobStatus{}, error(nil)
	for _, t := range targets {
		if w.fails("look at nodes") {
			err = errors.New("no nodes")
		} else {
			r := w.find(t.Job)
			all[t.Job] = plan.JobStatus{Job: r.show(), ReqNodes: r.fields[slurmplug.ReqNodeList].now}
		}
	}
	return all, err
}

func (w *world) Do(context.Context, []plan.Command) []plan.Result { return nil }
func (w *world) Reservations(context.Context) ([]string, error)   { return nil, nil }
func (w *world) seen(context.Context) (int64, error)              { return 0, nil }
func (w *world) evictions() (*evict.Journal, error)               { return evict.NewJournal(), nil }
func (w *world) hold(context.Context) (release func(), err error) { return func() {}, nil }
func (w *world) reset(dryRun bool) *Reset {
	return &Reset{
		Dir: w.dir, Slurm: w, DryRun: dryRun, Say: func(string) {},
		Hold: w.hold, Seen: w.seen, Evictions: w.evictions,
	}
}

// Apply is what the reset writes: never into what is not priod's.
func (w *world) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	var outcomes []plan.Outcome
	for _, a := range actions {
		w.writes++
		r, l := w.find(a.Job), a.Lever
		f := r.fields[l]
		unseen := l == slurmplug.SiteFactor && r.State != cluster.Pending && a.After.String() == f.own
		if !f.priods && !unseen {
			w.t.Fatalf("reset writes %+v over a user's own %q", a, f.now)
		}
		if !l.Ranks() && r.State != cluster.Pending {
			w.t.Fatalf("reset writes %+v into a job that runs", a)
		}
		status := slurmplug.Applied
		if w.fails("write") {
			status = rapid.SampledFrom([]slurmplug.Status{slurmplug.Refused, slurmplug.Postponed, slurmplug.Unknown}).Draw(w.t, "status")
		}
		if status == slurmplug.Applied || status == slurmplug.Unknown && rapid.Bool().Draw(w.t, "arrived") {
			f.now = a.After.String()
			if l == slurmplug.Size {
				f.now, _, _ = strings.Cut(strings.TrimPrefix(a.After.String(), "NumCPUs="), " ")
			}
			f.priods = f.now != f.own // a part of a constraint is still priod's
		}
		outcomes = append(outcomes, plan.Outcome{Action: a, Status: status})
	}
	return outcomes
}

// pick draws one of the records that are eligible; nil when none is.
func (w *world) pick(eligible func(*record) bool) *record {
	var some []*record
	for _, r := range w.records {
		if eligible(r) {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[rapid.IntRange(0, len(some)-1).Draw(w.t, "record")]
}

func waiting(r *record) bool { return r.State == cluster.Pending }
func running(r *record) bool { return r.State == cluster.Running }

// text is a field as Slurm shows it, with another value.
func (r *record) text(l slurmplug.Lever, value string) string {
	if l == slurmplug.Size {
		return "NumCPUs=" + value + " ReqNodeList=" + r.fields[slurmplug.ReqNodeList].own
	}
	return value
}

// look is priod's at the queue: what it knew of earlier jobs with an id it forgets.
func (w *world) look(u *Journal) {
	for _, r := range w.records {
		if r.unseen {
			r.unseen = false
			u.Disown(&r.Job)
		}
	}
}

// write is one write of priod's: first the line, then, unless priod dies, the value.
func (w *world) write(u *Journal) {
	w.look(u)
	l := rapid.SampledFrom([]slurmplug.Lever{slurmplug.SiteFactor, slurmplug.Features, slurmplug.Size, slurmplug.Switches, slurmplug.NumNodes}).Draw(w.t, "field")
	r := w.pick(func(r *record) bool {
		switch f := r.fields[l]; {
		case f.changed:
			return false
		case l == slurmplug.Size:
			return waiting(r) && !r.fields[slurmplug.ReqNodeList].priods
		}
		return waiting(r)
	})
	if r == nil {
		return
	}
	f := r.fields[l]
	value := rapid.SampledFrom(append(priodsWords[l], f.own)).Draw(w.t, "value") // or its user's own again
	a := plan.Action{Job: r.ID, Tasks: r.Tasks, Lever: l, Before: l.Value(r.text(l, f.now)), After: l.Value(r.text(l, value))}
	if !l.Ranks() {
		a.Was = l.Value(r.text(l, f.own))
	}
	if r.Tasks != "" && rapid.Bool().Draw(w.t, "one task") {
		a.Part, a.Tasks = true, strconv.Itoa(int(r.FirstTask().Task))
	}
	j := r.show()
	line := u.Line(a, &j, w.at)
	line.User, line.Submit = r.User, r.Submit
	if err := u.Append([]*Change{line}); err != nil {
		w.t.Fatal(err)
	}
	f.written = true
	if w.dies() {
		return
	}
	if a.Part {
		f = w.split(r).fields[l]
	}
	f.now, f.priods = value, value != f.own
}

func (w *world) dies() bool { return rapid.IntRange(0, 3).Draw(w.t, "priod dies") == 0 }

// pin is an eviction that names the nodes of the waiting job, or takes that back.
func (w *world) pin(u *Journal) {
	w.look(u)
	r := w.pick(func(r *record) bool {
		f := r.fields[slurmplug.ReqNodeList]
		return waiting(r) && !f.changed && (f.priods || f.now == "")
	})
	if r == nil {
		return
	}
	f := r.fields[slurmplug.ReqNodeList]
	line := &Change{Time: w.at, Job: r.FirstTask(), User: r.User, Submit: r.Submit, Lever: slurmplug.ReqNodeList, From: slurmplug.Text(f.now)}
	if f.priods { // its line comes once Slurm has taken it
		if f.now, f.priods = "", false; w.dies() {
			return
		}
	} else {
		line.To = slurmplug.Text(rapid.SampledFrom(priodsWords[slurmplug.ReqNodeList]).Draw(w.t, "nodes"))
	}
	if err := u.Append([]*Change{line}); err != nil {
		w.t.Fatal(err)
	}
	if f.written = true; line.To == (slurmplug.Value{}) || w.dies() {
		return
	}
	f = w.split(r).fields[slurmplug.ReqNodeList]
	f.now, f.priods, f.written = line.To.String(), true, true
}

// change is one by the job's user, or by an administrator.
func (w *world) change() {
	r := w.pick(waiting)
	if r == nil {
		return
	}
	l := rapid.SampledFrom([]slurmplug.Lever{slurmplug.SiteFactor, slurmplug.Features, slurmplug.Size, slurmplug.ReqNodeList, slurmplug.Switches, slurmplug.NumNodes}).Draw(w.t, "changed")
	own := func(l slurmplug.Lever, value string) {
		f := r.fields[l]
		f.now, f.own, f.priods, f.changed = value, value, false, f.written || l == slurmplug.SiteFactor
	}
	value := rapid.SampledFrom(userWords[l]).Draw(w.t, "to")
	size := r.fields[slurmplug.Size]
	if value == r.fields[l].now || l == slurmplug.ReqNodeList && size.written && size.changed { // back to what priod wrote, perhaps
		return
	}
	named := r.fields[l].own
	own(l, value)
	if l == slurmplug.ReqNodeList && size.written && value != named { // not if he only took an eviction's nodes off
		own(slurmplug.Size, size.now) // which names them
	}
}

// live lets a job start, come back, leave, or be another one.
func (w *world) live() {
	switch rapid.IntRange(0, 4).Draw(w.t, "life") {
	case 0, 1:
		// What an administrator wrote into SiteFactor is not seen from then on.
		if r := w.pick(func(r *record) bool { return waiting(r) && !r.fields[slurmplug.SiteFactor].changed }); r != nil {
			w.split(r).State = cluster.Running
		}
	case 2:
		// One that is requeued before priod reads it looks like the earlier job.
		if r := w.pick(func(r *record) bool { return running(r) && !r.unseen }); r != nil {
			r.requeue(w.at)
		}
	case 3:
		if r := w.pick(func(*record) bool { return true }); r != nil {
			w.records = slices.DeleteFunc(w.records, func(o *record) bool { return o == r })
		}
	case 4:
		if r := w.pick(func(*record) bool { return true }); r != nil {
			w.records = slices.DeleteFunc(w.records, func(o *record) bool { return o.ID.ID == r.ID.ID })
			last := w.ids
			w.ids = r.ID.ID - 1
			w.submit()
			w.ids = last
			w.records[len(w.records)-1].unseen = true
			w.records[len(w.records)-1].User = rapid.SampledFrom([]string{"ann", "bob"}).Draw(w.t, "user")
		}
	}
}

func (r *record) requeue(at time.Time) {
	r.State, r.Submit = cluster.Pending, at
	r.Restarts++
}

// features lets nodes lose and get features.
func (w *world) features() {
	w.nodes = []cluster.Node{{Name: "n1"}}
	for _, f := range []string{"a100", "v100", "ssd", "big"} {
		if rapid.Bool().Draw(w.t, f) {
			w.nodes[0].Features = append(w.nodes[0].Features, f)
		}
	}
}

// takeBack resets, and checks that all that priod wrote is back, or that the result
// names it and the journal still has it.
func (w *world) takeBack() *Result {
	w.writes = 0
	before := w.journal()
	clumsy := w.clumsy
	w.clumsy = false
	would, err := w.reset(true).Run(context.Background())
	if err != nil || w.writes > 0 || before != w.journal() {
		w.t.Fatalf("a dry run: %v, %d writes, journal\n%s\nwas\n%s", err, w.writes, w.journal(), before)
	}
	w.clumsy = clumsy
	did, err := w.reset(false).Run(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	if !w.clumsy {
		ignore := cmpopts.IgnoreFields(plan.Outcome{}, "Status", "Message")
		if diff := cmp.Diff(would.Writes, did.Writes, ignore); diff != "" || would.Gone != did.Gone {
			w.t.Fatalf("it does something else than it said:\n%s", diff)
		}
	}
	type place struct {
		job   cluster.JobID
		lever slurmplug.Lever
	}
	named := map[place]bool{}
	for _, o := range did.Writes {
		named[place{o.Job, o.Lever}] = o.Status != slurmplug.Applied || o.Message != ""
	}
	u := w.open()
	for _, r := range w.records {
		j := r.show()
		for l, f := range r.fields {
			if !f.priods {
				continue
			}
			if !named[place{r.ID, l}] && (l.Ranks() || waiting(r)) {
				w.t.Fatalf("job %s, %s: %q in place of %q is not named in %+v", r.ID, l, f.now, f.own, did.Writes)
			}
			if u.find(r.ID, l, &j) == nil && u.find(j.FirstTask(), l, &j) == nil {
				w.t.Fatalf("job %s, %s: %q in place of %q is forgotten", r.ID, l, f.now, f.own)
			}
		}
	}
	return did
}

func (w *world) open() *Journal {
	u, err := Open(w.dir, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

func (w *world) journal() string {
	text, err := os.ReadFile(journal.Path(w.dir))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return string(text)
}

// Property: whatever priod, users, Slurm and its nodes did, a reset writes over nothing
// of a user's own; what it does not bring back it names and keeps in the journal; and
// once nothing is in its way, nothing of priod's is left.
func TestResetBringsAllBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "state")
		if err != nil {
			rt.Fatal(err)
		}
		w := newWorld(rt, dir)
		u := w.open()
		w.submit()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			w.at = w.at.Add(time.Second)
			switch rapid.IntRange(0, 10).Draw(rt, "step") {
			case 0, 1, 2, 3:
				w.write(u)
			case 4:
				w.pin(u)
			case 5, 6:
				w.change()
			case 7, 8:
				w.live()
			case 9:
				w.submit()
			case 10:
				w.features()
				w.clumsy = rapid.Bool().Draw(rt, "clumsy")
				w.takeBack()
				u = w.open()
			}
		}
		w.at, w.clumsy = w.at.Add(time.Second), false
		w.nodes = []cluster.Node{{Name: "n1", Features: []string{"a100", "v100", "ssd", "big"}}}
		w.look(u)
		for _, r := range w.records {
			if running(r) {
				r.requeue(w.at)
			}
		}
		did := w.takeBack()
		if left := w.open().Changes(); !did.Complete() || len(left) > 0 {
			rt.Fatalf("left: %+v, journal %+v", did, left)
		}
		for _, r := range w.records {
			for l, f := range r.fields {
				if f.now != f.own {
					rt.Fatalf("job %s, %s: %q in place of %q", r.ID, l, f.now, f.own)
				}
			}
		}
	})
}
