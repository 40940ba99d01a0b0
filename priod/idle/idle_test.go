package idle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var epoch = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func settings(do ...Do) *Settings {
	set := Constants
	set.Enabled, set.Do = true, do
	return &set
}

func gpuJob(id uint32, start time.Time) cluster.Job {
	return cluster.Job{ID: slurmplug.Plain(id), RawID: id, State: cluster.Running, GPUs: 4, GPUType: "a100", User: "ada", Account: "physics", Name: "train", Start: start, NodeList: fmt.Sprintf("n%d", id), TaskCount: 1}
}

func gpus(works bool) []cluster.Sign {
	return []cluster.Sign{{Shows: cluster.GPUs, Source: cluster.FromPrometheus, Works: works}}
}

// watch has a memory see one job for so long, a look each minute, with what the sources show at each.
func watch(m *Memory, set *Settings, j cluster.Job, from time.Time, minutes int, signs func(minute int) []cluster.Sign) *cluster.Job {
	for k := range minutes {
		j.Idle = false
		s := cluster.Snapshot{At: from.Add(time.Duration(k) * time.Minute), Jobs: []cluster.Job{j}}
		m.Observe(&s, map[cluster.JobID][]cluster.Sign{j.ID: signs(k)}, set)
		j = s.Jobs[0]
	}
	return &j
}

func only(t *testing.T, m *Memory) *Spell {
	t.Helper()
	open := m.open()
	if len(open) != 1 {
		t.Fatalf("%d jobs without work, want 1", len(open))
	}
	return open[0].spell
}

func TestWhatIsIdle(t *testing.T) {
	works := func(until int) func(int) []cluster.Sign {
		return func(k int) []cluster.Sign { return gpus(k < until) }
	}
	cases := []struct {
		name    string
		change  func(*cluster.Job)
		from    time.Duration // after its start, when it is first seen
		minutes int
		signs   func(int) []cluster.Sign
		want    Kind
		since   time.Duration
	}{
		{"hung", nil, 0, 100, works(60), Hung, 59 * time.Minute},
		{"never used", nil, 0, 31, works(0), NeverUsed, 0},
		{"not yet", nil, 0, 30, works(0), "", 0},
		{"seen late", nil, 5 * time.Hour, 31, works(0), Idle, 5 * time.Hour},
		{"interactive", func(j *cluster.Job) { j.Interactive = true }, 0, 100, works(60), Idle, 59 * time.Minute},
		{"no source", nil, 0, 500, func(int) []cluster.Sign { return nil }, "", 0},
		{"works", nil, 0, 500, works(500), "", 0},
		{"a sample in ten shows work", nil, 0, 500, func(k int) []cluster.Sign { return gpus(k%10 == 0) }, "", 0},
		{"the source is lost for an hour, which does not count", nil, 0, 100, func(k int) []cluster.Sign {
			if k >= 20 && k < 80 {
				return nil
			}
			return gpus(false)
		}, NeverUsed, 61 * time.Minute},
		{"suspended for an hour, which does not count", func(j *cluster.Job) { j.State = cluster.Suspended }, 0, 100, works(0), "", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, j := NewMemory(), gpuJob(7, epoch)
			if c.change != nil {
				c.change(&j)
			}
			got := watch(m, settings(Victim), j, epoch.Add(c.from), c.minutes, c.signs)
			if c.want == "" {
				if n := len(m.open()); n != 0 || got.Idle {
					t.Fatalf("found %v", m.open()[0].spell)
				}
				return
			}
			x := only(t, m)
			if x.Kind != c.want || x.Since.Sub(epoch) != c.since || !got.Idle {
				t.Errorf("%s since %v, Idle %v; want %s since %v", x.Kind, x.Since.Sub(epoch), got.Idle, c.want, c.since)
			}
		})
	}
}

func TestCombine(t *testing.T) {
	sign := func(s cluster.Shows, works bool) cluster.Sign { return cluster.Sign{Shows: s, Works: works} }
	for _, c := range []struct {
		signs []cluster.Sign
		want  Verdict
		sure  bool
	}{
		{nil, Unknown, false},
		{[]cluster.Sign{sign(cluster.GPUs, false), sign(cluster.CPUs, true), sign(cluster.Output, true)}, Quiet, true}, // spins
		{[]cluster.Sign{sign(cluster.CPUs, false), sign(cluster.GPUs, true)}, Works, false},
		{[]cluster.Sign{sign(cluster.CPUs, false), sign(cluster.Output, true)}, Works, false},
		{[]cluster.Sign{sign(cluster.Output, false), sign(cluster.CPUs, false)}, Quiet, true},
		{[]cluster.Sign{sign(cluster.Steps, false)}, Quiet, false},
		{[]cluster.Sign{sign(cluster.Output, false), sign(cluster.Steps, false)}, Quiet, false},
	} {
		if v, _, sure := Combine(c.signs); v != c.want || sure != c.sure {
			t.Errorf("%v: %v, sure %v; want %v, %v", c.signs, v, sure, c.want, c.sure)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) cluster.Sign {
			return sign(cluster.Shows(rapid.IntRange(0, 3).Draw(t, "shows")), rapid.Bool().Draw(t, "works"))
		})
		signs := rapid.SliceOfN(one, 0, 6).Draw(t, "signs")
		v, _, sure := Combine(signs)
		p := rapid.Permutation(signs).Draw(t, "order")
		if w, _, s := Combine(p); w != v || s != sure {
			t.Fatalf("%v: %v in one order and %v in another", signs, v, w)
		}
	})
}

// The load of its nodes tells of a job that has them alone; where others run there, only a load of nothing does.
func TestNodeLoad(t *testing.T) {
	for _, c := range []struct {
		name         string
		load         cluster.Load
		silent       bool
		others       int
		tells, works bool
	}{
		{"alone and busy", cluster.Load{Known: true, CPUs: 3}, false, 0, true, true},
		{"alone and quiet", cluster.Load{Known: true, CPUs: 0.1}, false, 0, true, false},
		{"shared and busy", cluster.Load{Known: true, CPUs: 3}, false, 1, false, false},
		{"shared and quiet", cluster.Load{Known: true, CPUs: 0.1}, false, 1, true, false},
		{"not known", cluster.Load{}, false, 0, false, false},
		{"silent", cluster.Load{Known: true}, true, 0, false, false},
	} {
		j := gpuJob(7, epoch)
		s := cluster.Snapshot{Jobs: []cluster.Job{j}, Nodes: []cluster.Node{{Name: "n7", Load: c.load, Silent: c.silent}}}
		for k := range c.others {
			o := gpuJob(uint32(100+k), epoch)
			o.NodeList = j.NodeList
			s.Jobs = append(s.Jobs, o)
		}
		var l loads
		l.see(&s)
		if sign, tells := l.sign(&s.Jobs[0], 0.05); tells != c.tells || tells && sign.Works != c.works {
			t.Errorf("%s: tells %v, works %v", c.name, tells, sign.Works)
		}
	}
}

// A program that loads data for 40 minutes is found once; the next run of it is not.
func TestLearnsOfAFalseAlarm(t *testing.T) {
	m, set := NewMemory(), settings(Cancel)
	loads := func(k int) []cluster.Sign { return gpus(k >= 40) }
	watch(m, set, gpuJob(1, epoch), epoch, 60, loads)
	if len(m.ended) != 1 || !m.ended[0].FalseAlarm() || m.Tally().FalseAlarms != 1 {
		t.Fatalf("ended %v", m.ended)
	}
	later := epoch.Add(24 * time.Hour)
	watch(m, set, gpuJob(2, later), later, 39, loads)
	if n := len(m.open()); n != 0 {
		t.Errorf("a later run of the same program is idle while it loads")
	}
	other := gpuJob(3, later)
	other.User = "bob"
	watch(m, set, other, later, 39, loads)
	if only(t, m).Job != other.ID {
		t.Error("a job of another user is not")
	}
}

// Spells go on over a restart of priod, and those whose runs are gone end.
func TestRestore(t *testing.T) {
	m, set := NewMemory(), settings()
	watch(m, set, gpuJob(1, epoch), epoch, 60, func(int) []cluster.Sign { return gpus(false) })
	x := *only(t, m)
	gone := x
	gone.Job = slurmplug.Plain(9)
	next := NewMemory()
	at := epoch.Add(time.Hour)
	next.Restore([]Spell{x, gone}, at)
	j := watch(next, settings(Victim), gpuJob(1, epoch), at.Add(time.Minute), 1, func(int) []cluster.Sign { return gpus(false) })
	if y := only(t, next); !y.Since.Equal(x.Since) || !j.Idle || y.Kind != NeverUsed {
		t.Errorf("continues as %v", y)
	}
	if len(next.ended) != 1 || next.ended[0].Job != gone.Job || next.ended[0].How != Ended || !next.ended[0].End.Equal(at) {
		t.Errorf("ended: %v", next.ended)
	}
}

// Whatever the sources show, gaps and clocks that jump included: a job is found only after it was seen without work for
// the whole time, and a spell never lasts longer than its run.
func TestSpellsAreNeverShorterThanTheirTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, set := NewMemory(), settings(Victim)
		at, j := epoch, gpuJob(1, epoch)
		quiet := time.Duration(0) // seen without work, with gaps that count
		last, lastQuiet := time.Time{}, false
		for range rapid.IntRange(1, 80).Draw(t, "looks") {
			step := time.Duration(rapid.SampledFrom([]int{20, 60, 60, 60, 300, 700, 4000, -3600}).Draw(t, "step")) * time.Second
			at = at.Add(step)
			v := rapid.SampledFrom([]Verdict{Unknown, Works, Quiet, Quiet, Quiet, Quiet}).Draw(t, "shows")
			var signs []cluster.Sign
			if v != Unknown {
				signs = gpus(v == Works)
			}
			s := cluster.Snapshot{At: at, Jobs: []cluster.Job{j}}
			m.Observe(&s, map[cluster.JobID][]cluster.Sign{j.ID: signs}, set)
			switch gap := at.Sub(last); {
			case v == Works:
				quiet = 0
			case v == Quiet && last.IsZero():
				quiet = max(at.Sub(epoch), 0)
			case v == Quiet && gap >= 0 && gap <= set.Gap:
				quiet += gap
			case v == Quiet && !lastQuiet:
				quiet = 0
			}
			if v != Unknown {
				last, lastQuiet = at, v == Quiet
			}
			if s.Jobs[0].Idle && quiet < set.After {
				t.Fatalf("idle after %v without work", quiet)
			}
			if v == Works && s.Jobs[0].Idle {
				t.Fatal("idle while it works")
			}
		}
	})
}

// deed is a cluster that does what it is told.
type deed struct {
	plan.Leaving
	signs map[cluster.JobID][]cluster.Sign
	sent  []plan.Command
	sees  func(plan.Target) plan.JobStatus
}

func (d *deed) Signs(context.Context, *cluster.Snapshot, []cluster.JobID) (map[cluster.JobID][]cluster.Sign, error) {
	return d.signs, nil
}

func (d *deed) Look(_ context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	all := map[cluster.JobID]plan.JobStatus{}
	for _, t := range targets {
		all[t.Job] = d.sees(t)
	}
	return all, nil
}

func (d *deed) Do(_ context.Context, commands []plan.Command) (all []plan.Result) {
	for _, c := range commands {
		d.sent = append(d.sent, c)
		all = append(all, plan.Result{Command: c, Status: slurmplug.Applied})
	}
	return all
}

type keeper struct{ err error }

func (k keeper) SaveSpells(context.Context, []*Spell) error { return k.err }

// live runs cycles, one a minute, over jobs whose GPUs do nothing.
func (d *deed) live(t *testing.T, f *Feature, jobs []cluster.Job, minutes int, paused string) (notes []plan.Note, err error) {
	t.Helper()
	d.signs = map[cluster.JobID][]cluster.Sign{}
	for i := range jobs {
		d.signs[jobs[i].ID] = gpus(false)
	}
	d.sees = func(x plan.Target) plan.JobStatus {
		for i := range jobs {
			if jobs[i].ID == x.Job {
				return plan.JobStatus{Job: jobs[i], CanRequeue: true}
			}
		}
		return plan.JobStatus{Gone: true}
	}
	f.Slurm = d
	for k := range minutes {
		s := cluster.Snapshot{At: epoch.Add(time.Duration(k) * time.Minute), Jobs: jobs}
		c := &plan.Cycle{Snapshot: &s, History: cluster.NewHistory(), Plan: &plan.Plan{At: s.At}, Paused: paused}
		f.Classify(context.Background(), &s)
		err = errors.Join(err, f.Act(context.Background(), c))
		notes = append(notes, c.Plan.Notes...)
	}
	return notes, err
}

func kinds(all []plan.Command) string {
	var names []string
	for _, c := range all {
		names = append(names, string(c.Kind))
	}
	return strings.Join(names, " ")
}

func TestWhatIsDone(t *testing.T) {
	always := func(j *cluster.Job) { j.Tag = jobtag.Tag{Retry: "always"} }
	for _, c := range []struct {
		name    string
		do      []Do
		change  func(*cluster.Job)
		minutes int
		paused  string
		want    string
	}{
		{"nothing by default", nil, always, 200, "", ""},
		{"told once", []Do{Notify}, always, 200, "", "tell"},
		{"requeued with consent, at twice the time", []Do{Notify, Requeue, Cancel}, always, 61, "", "tell requeue"},
		{"not before", []Do{Notify, Requeue, Cancel}, always, 60, "", "tell"},
		{"not requeued without consent", []Do{Requeue}, nil, 200, "", ""},
		{"cancelled by the site's rule", []Do{Requeue, Cancel}, nil, 200, "", "cancel"},
		{"paused", []Do{Notify, Requeue, Cancel}, always, 200, "by ada", ""},
	} {
		j := gpuJob(7, epoch)
		if c.change != nil {
			c.change(&j)
		}
		d := &deed{}
		_, err := d.live(t, &Feature{Settings: *settings(c.do...), Memory: NewMemory(), Recorder: keeper{}}, []cluster.Job{j}, c.minutes, c.paused)
		if got := kinds(d.sent); got != c.want || err != nil {
			t.Errorf("%s: sent %q, want %q (%v)", c.name, got, c.want, err)
		}
	}
}

func TestNothingIsDoneUnrecorded(t *testing.T) {
	d := &deed{}
	_, err := d.live(t, &Feature{Settings: *settings(Notify, Cancel), Memory: NewMemory(), Recorder: keeper{errors.New("full")}}, []cluster.Job{gpuJob(7, epoch)}, 100, "")
	if err == nil || len(d.sent) > 0 {
		t.Errorf("sent %v, error %v", d.sent, err)
	}
}

// 5,000 tasks that stop at once are told of a few at a time; where they are of several users, nothing more is done.
func TestThousandsAtOnce(t *testing.T) {
	jobs := make([]cluster.Job, 5000)
	for i := range jobs {
		jobs[i] = gpuJob(uint32(i+1), epoch)
	}
	d := &deed{}
	if _, err := d.live(t, &Feature{Settings: *settings(Cancel), Memory: NewMemory(), Recorder: keeper{}}, jobs, 70, ""); err != nil || len(d.sent) != 10*Constants.PerCycle {
		t.Errorf("of one user: %d commands in 10 cycles (%v)", len(d.sent), err)
	}
	for i := range jobs {
		jobs[i].User = fmt.Sprint("u", i%5)
	}
	d = &deed{}
	notes, err := d.live(t, &Feature{Settings: *settings(Cancel), Memory: NewMemory(), Recorder: keeper{}}, jobs, 70, "")
	if err != nil || len(d.sent) != 0 || len(notes) != 10 || notes[0].Kind != plan.IdleTogether || notes[0].Of != 5000 {
		t.Errorf("of several users: %d commands, %d notes (%v)", len(d.sent), len(notes), err)
	}
}
