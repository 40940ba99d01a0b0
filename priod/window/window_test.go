package window

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var now = time.Unix(1_700_000_000, 0).UTC()

// scene is a small cluster with a history, on which a Feature plans again and again.
type scene struct {
	cluster.Snapshot
	h *cluster.History
	f Feature

	decisions []plan.Decision
	refuses   bool // Slurm refuses writes
	kept      map[cluster.JobID]bool
	named     string // nodes that all jobs name
	looks     int

	until, late int // as the last cycle counted
}

func newScene(nodes int) *scene {
	s := &scene{Snapshot: cluster.Snapshot{At: now, Cluster: "test", Fresh: true}, h: cluster.NewHistory(), kept: map[cluster.JobID]bool{}}
	for i := range nodes {
		s.Nodes = append(s.Nodes, cluster.Node{Name: fmt.Sprintf("n%d", i), Usable: true, State: "IDLE", GPUType: "a100", GPUs: 8, CPUs: 64, MemMB: 512000, Partitions: []string{"p"}})
	}
	s.f = Feature{Settings: Constants, Slurm: s, Evictions: s}
	s.f.Settings.Enabled, s.f.Settings.Restart = true, 30*time.Second
	s.f.Settings.Leaves = func(j *cluster.Job) (time.Duration, bool) { return time.Minute, j.Tag.Type == "be" }
	return s
}

func (s *scene) Beside(m *nodemap.Map) (*placement.Nodes, map[cluster.JobID]bool) {
	return m.Nodes.Clone(), nil
}

func (s *scene) Look(_ context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	s.looks += len(targets)
	all := map[cluster.JobID]plan.JobStatus{}
	for _, t := range targets {
		all[t.Job] = plan.JobStatus{Job: cluster.Job{ID: t.Job, State: cluster.Pending}, CanRequeue: !s.kept[t.Job], ReqNodes: s.named}
	}
	return all, nil
}

// job adds a waiting job that agrees to leave and saves its state on a signal.
func (s *scene) job(id uint32, gpus int, limit time.Duration) *cluster.Job {
	s.Jobs = append(s.Jobs, cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, State: cluster.Pending, TaskCount: 1, User: "ann", Partition: "p", Reason: "ReqNodeNotAvail, Reserved for maintenance", Priority: 1000 - int64(id),
		GPUs: gpus, Nodes: 1, CPUs: 1, TimeLimit: limit, Submit: now, Eligible: now, Tag: jobtag.Tag{Type: "be", Signal: "USR1"},
	})
	return &s.Jobs[len(s.Jobs)-1]
}

func (s *scene) window(from, to time.Duration, nodes ...string) {
	s.Windows = append(s.Windows, cluster.Window{Name: fmt.Sprintf("w%d", len(s.Windows)), Start: now.Add(from), End: now.Add(to), Nodes: nodes})
}

// cycle plans, and carries out what was planned. It returns the limits that were written, and the jobs that have to leave.
func (s *scene) cycle(paused string) (wrote map[uint32]string, leave []uint32) {
	s.h.Observe(&s.Snapshot)
	c := &plan.Cycle{Snapshot: &s.Snapshot, History: s.h, Plan: &plan.Plan{}, Paused: paused}
	for i := range s.Jobs {
		c.Plan.Decisions = append(c.Plan.Decisions, plan.Decision{Job: s.Jobs[i].ID, Own: s.Jobs[i].Priority})
	}
	c.Plan.MakeQueue(&s.Snapshot)
	if err := s.f.Plan(context.Background(), c); err != nil {
		panic(err)
	}
	wrote = map[uint32]string{}
	for _, a := range c.Plan.Actions {
		o := plan.Outcome{Action: a, Status: slurmplug.Applied}
		if s.refuses {
			o.Status = slurmplug.Refused
		} else {
			j := s.of(a.Job.ID)
			j.TimeLimit, _ = a.After.Limit()
			wrote[a.Job.ID] = a.After.String()
		}
		c.Outcomes = append(c.Outcomes, o)
	}
	plan.Hear(c)
	for _, v := range c.Vacating {
		leave = append(leave, v.Job.ID.ID)
	}
	s.decisions, s.until, s.late = c.Plan.Decisions, c.Plan.UntilWindow, c.Plan.LateLimits
	return wrote, leave
}

func (s *scene) of(id uint32) *cluster.Job {
	for i := range s.Jobs {
		if s.Jobs[i].ID.ID == id {
			return &s.Jobs[i]
		}
	}
	return nil
}

// begin starts a job on a node, requeue puts it back.
func (s *scene) begin(id uint32, node string) {
	j := s.of(id)
	j.State, j.Start, j.NodeList, j.Reason = cluster.Running, s.At, node, "None"
	for i := range s.Nodes {
		if s.Nodes[i].Name == node {
			s.Nodes[i].GPUsUsed += j.GPUs
		}
	}
}

func (s *scene) requeue(id uint32) {
	j := s.of(id)
	for i := range s.Nodes {
		if s.Nodes[i].Name == j.NodeList {
			s.Nodes[i].GPUsUsed -= j.GPUs
		}
	}
	j.State, j.Start, j.NodeList, j.Reason, j.Restarts = cluster.Pending, time.Time{}, "", "Priority", j.Restarts+1
}

func (s *scene) step(t *testing.T, after time.Duration, want string) {
	t.Helper()
	s.At = s.At.Add(after)
	wrote, leave := s.cycle("")
	if got := fmt.Sprint(wrote, leave); got != want {
		t.Errorf("at %s: %s, want %s", s.At.Sub(now), got, want)
	}
}

// A job with two days to run gets the limit that fits before the window, leaves before it, and has its own limit again.
func TestRunsUntilAWindow(t *testing.T) {
	s := newScene(1)
	s.job(1, 8, 48*time.Hour)
	s.window(5*time.Hour, 13*time.Hour, "n0")
	s.step(t, 0, "map[1:04:59:00] []")
	if w := s.decisions[0].Choices.Window; w == nil || w.Name != "w0" || w.OwnS != 48*3600 {
		t.Errorf("%+v", w)
	}
	s.step(t, 30*time.Second, "map[] []")
	s.begin(1, "n0")
	s.step(t, time.Minute, "map[1:2-00:01:00] []")
	s.step(t, 4*time.Hour+54*time.Minute, "map[] []")
	s.step(t, 2*time.Minute, "map[] [1]") // the limit ends 30 s before the window
	s.requeue(1)
	s.step(t, time.Minute, "map[1:2-00:00:00] []")
	s.step(t, 9*time.Hour, "map[] []")
}

// Of a window that is moved, cancelled or extended the time at which a job leaves follows; one that waits gets its own limit again.
func TestWindowsThatMove(t *testing.T) {
	s := newScene(2)
	s.job(1, 8, 48*time.Hour)
	s.job(2, 8, slurmplug.Unlimited)
	s.window(5*time.Hour, 13*time.Hour, "n0", "n1")
	s.step(t, 0, "map[1:04:59:00 2:04:59:00] []")
	s.begin(1, "n0")
	s.Windows[0].Start = now.Add(3 * time.Hour)
	s.step(t, time.Minute, "map[1:2-00:01:00 2:02:58:00] []")
	s.Windows[0].Start, s.Windows[0].End = now.Add(10*time.Hour), now.Add(30*time.Hour)
	s.step(t, time.Minute, "map[] []")       // the other fits as it is
	s.window(2*time.Hour, 4*time.Hour, "n0") // another one, before
	s.Windows[0], s.Windows[1] = s.Windows[1], s.Windows[0]
	s.step(t, time.Minute, "map[] []")
	s.step(t, time.Hour+55*time.Minute, "map[] [1]")
	s.At = now.Add(4 * time.Minute)
	s.Windows = nil
	s.step(t, time.Minute, "map[1:2-00:00:00 2:UNLIMITED] []")
	s.window(10*time.Minute, time.Hour, "n0", "n1") // reaches into it with its own limit: its site's matter
	s.step(t, time.Minute, "map[] []")
	s.At = now // the clock jumps back
	s.step(t, 0, "map[] []")
}

// No job ends by a limit of priod's because priod does not run: not the one that the last cycle has seen to run. What runs into
// the window meanwhile leaves when priod is back, or has its own limit again once the window is over.
func TestPriodIsGone(t *testing.T) {
	for _, own := range []time.Duration{48 * time.Hour, slurmplug.Unlimited} {
		s := newScene(1)
		j := s.job(1, 8, own)
		s.window(5*time.Hour, 13*time.Hour, "n0")
		s.step(t, 0, "map[1:04:59:00] []")
		s.begin(1, "n0")
		s.step(t, time.Second, fmt.Sprintf("map[1:%s] []", beyond(own)))
		if j.TimeLimit <= own || s.until != 1 || s.late != 0 {
			t.Errorf("%s of %s; %d until, %d late", j.TimeLimit, own, s.until, s.late)
		}
		s.step(t, 6*time.Hour, "map[] [1]")
		s.Windows = nil
		s.step(t, 9*time.Hour, fmt.Sprintf("map[1:%s] []", slurmplug.LimitOf(own)))
		if s.until != 0 || s.late != 1 {
			t.Errorf("%d until, %d late", s.until, s.late)
		}
	}
}

// Jobs that do not run until a window: their owners do not agree, they would lose all, too little is left, they cannot be
// requeued, or another job starts there by itself. Of two that may it is the one that saves its state when it is told.
func TestWhichRun(t *testing.T) {
	for name, c := range map[string]struct {
		left   time.Duration
		change func(*scene, *cluster.Job)
		want   string
	}{
		"it may":              {5 * time.Hour, func(*scene, *cluster.Job) {}, "map[1:04:59:00]"},
		"no consent":          {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.Tag.Type = "" }, "map[]"},
		"saves nothing":       {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.Tag.Signal = "" }, "map[]"},
		"too little is left":  {15 * time.Minute, func(*scene, *cluster.Job) {}, "map[]"},
		"checkpoints":         {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.Tag.Signal, j.Tag.Ckpt = "", time.Hour }, "map[1:04:59:00]"},
		"no checkpoint":       {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.Tag.Signal, j.Tag.Ckpt = "", 5*time.Hour }, "map[]"},
		"held":                {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.Priority = 0 }, "map[]"},
		"a limit of its user": {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.Reason = "QOSMaxGRESPerUser" }, "map[]"},
		"not written to":      {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.Fragile = "breaks" }, "map[]"},
		"no requeue":          {5 * time.Hour, func(s *scene, j *cluster.Job) { s.kept[j.ID] = true }, "map[]"},
		"names nodes":         {5 * time.Hour, func(s *scene, _ *cluster.Job) { s.named = "n0" }, "map[]"},
		"it fits":             {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.TimeLimit = 4 * time.Hour }, "map[]"},
		"beside it":           {5 * time.Hour, func(s *scene, _ *cluster.Job) { s.Windows[0].Nodes = []string{"n1"} }, "map[]"},
		"no room":             {5 * time.Hour, func(s *scene, _ *cluster.Job) { s.Nodes[0].GPUsUsed = 1 }, "map[]"},
		"disabled":            {5 * time.Hour, func(s *scene, _ *cluster.Job) { s.f.Settings.Enabled = false }, "map[]"},
		"another is shorter":  {5 * time.Hour, func(s *scene, _ *cluster.Job) { s.job(2, 1, time.Hour).Tag = jobtag.Tag{} }, "map[]"},
		"another saves more":  {5 * time.Hour, func(s *scene, j *cluster.Job) { j.Tag.Signal, j.Tag.Ckpt = "", 3*time.Hour; s.job(2, 8, 9*time.Hour) }, "map[2:04:59:00]"},
		"the first of two":    {5 * time.Hour, func(s *scene, _ *cluster.Job) { s.job(2, 8, 9*time.Hour) }, "map[1:04:59:00]"},
		"tasks":               {5 * time.Hour, func(_ *scene, j *cluster.Job) { j.Tasks, j.TaskCount, j.GPUs = "1-3", 3, 8 }, "map[1:04:59:00]"},
		"an unsaid limit": {5 * time.Hour, func(s *scene, j *cluster.Job) {
			j.TimeLimit, s.Partitions = slurmplug.Unlimited, []cluster.Partition{{Name: "p", MaxTime: slurmplug.Unlimited, DefaultTime: time.Hour}}
		}, "map[]"},
	} {
		s := newScene(1)
		j := s.job(1, 8, 48*time.Hour)
		s.window(c.left, c.left+8*time.Hour, "n0")
		c.change(s, j)
		wrote, leave := s.cycle("")
		if got := fmt.Sprint(wrote); got != c.want || leave != nil {
			t.Errorf("%s: %s %v, want %s", name, got, leave, c.want)
		}
	}
}

// A closer look costs a command: of a long queue only jobs that have a place get one, and a job that cannot be requeued leaves its
// place to the next.
func TestLooksAtJobsThatHaveAPlace(t *testing.T) {
	s := newScene(2)
	s.window(6*time.Hour, 14*time.Hour, "n0", "n1")
	for id := range uint32(50) {
		s.job(id+1, 8, 24*time.Hour)
	}
	s.kept[slurmplug.Plain(1)] = true
	if wrote, _ := s.cycle(""); len(wrote) != 2 || wrote[1] != "" || s.looks != 3 {
		t.Errorf("%d looks, wrote %v", s.looks, wrote)
	}
	s.cycle("")
	if s.looks != 3 {
		t.Errorf("%d looks after a cycle in which nothing changed", s.looks)
	}
}

// A job that saves its state from time to time alone leaves after the last time.
func TestLeavesAfterACheckpoint(t *testing.T) {
	s := newScene(1)
	j := s.job(1, 8, 48*time.Hour)
	j.Tag.Signal, j.Tag.Ckpt = "", time.Hour
	s.window(5*time.Hour, 13*time.Hour, "n0")
	s.step(t, 0, "map[1:04:59:00] []")
	s.begin(1, "n0")
	s.step(t, 4*time.Hour+time.Minute, "map[1:2-00:01:00] []")
	s.step(t, 30*time.Second, "map[] [1]")
}

// While priod is paused nothing is written, and jobs that run until a window leave in time all the same.
func TestPaused(t *testing.T) {
	s := newScene(2)
	s.job(1, 8, 48*time.Hour)
	s.job(2, 8, 48*time.Hour)
	s.window(5*time.Hour, 13*time.Hour, "n0", "n1")
	s.step(t, 0, "map[1:04:59:00 2:04:59:00] []")
	s.begin(1, "n0")
	s.At = s.At.Add(4*time.Hour + 58*time.Minute)
	if wrote, leave := s.cycle("paused"); len(wrote) > 0 || fmt.Sprint(leave) != "[1]" {
		t.Error(wrote, leave)
	}
	s.At = now.Add(14 * time.Hour) // the other one starts after the window with its short limit
	s.Windows = nil
	s.begin(2, "n1")
	if wrote, leave := s.cycle("paused"); len(wrote) > 0 || fmt.Sprint(leave) != "[1]" {
		t.Error(wrote, leave)
	}
	s.step(t, time.Minute, "map[1:2-00:00:00 2:2-00:00:00] [1]")
}

// A limit that its user changes meanwhile stays, and one that Slurm refuses is not written again.
func TestLimitsOfUsers(t *testing.T) {
	s := newScene(1)
	s.job(1, 8, 48*time.Hour)
	s.window(5*time.Hour, 13*time.Hour, "n0")
	s.refuses = true
	s.step(t, 0, "map[] []")
	s.refuses = false
	s.step(t, time.Minute, "map[] []")
	s.h = cluster.NewHistory()
	s.step(t, 0, "map[1:04:58:00] []")
	s.Jobs[0].TimeLimit = 24 * time.Hour
	s.step(t, 0, "map[] []")
	s.Windows = nil
	s.step(t, 0, "map[] []")
}

// Over random windows, jobs and what befalls them: no job starts by a limit of priod's that reaches into a window as it is
// then; none ends by such a limit before it was told to leave; and where no window is left, each job has its own limit.
func TestWindowsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
		s := newScene(nodes)
		var names []string
		for i := range s.Nodes {
			names = append(names, s.Nodes[i].Name)
		}
		s.f.Settings.Pay = 2
		s.window(20*time.Minute, time.Hour, names...)
		own, seen := map[uint32]time.Duration{}, map[uint32]bool{} // its limit; the last cycle saw it run, and could write
		for id := uint32(1); id <= uint32(rapid.IntRange(1, 8).Draw(t, "jobs")); id++ {
			limit := time.Duration(rapid.IntRange(1, 600).Draw(t, "limit")) * time.Minute
			if rapid.IntRange(0, 5).Draw(t, "unlimited") == 0 {
				limit = slurmplug.Unlimited
			}
			j := s.job(id, rapid.IntRange(1, 8).Draw(t, "gpus"), limit)
			if rapid.Bool().Draw(t, "checkpoints") {
				j.Tag.Signal, j.Tag.Ckpt = "", 20*time.Minute
			}
			if rapid.IntRange(0, 3).Draw(t, "consent") == 0 {
				j.Tag = jobtag.Tag{}
			}
			own[id] = limit
		}
		for range rapid.IntRange(20, 150).Draw(t, "cycles") {
			s.At = s.At.Add(time.Duration(rapid.IntRange(1, 55).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 30).Draw(t, "event") {
			case 0:
				at := s.At.Sub(now) + time.Duration(rapid.IntRange(1, 80).Draw(t, "ahead"))*time.Minute
				s.window(at, at+time.Duration(rapid.IntRange(1, 60).Draw(t, "long"))*time.Minute, rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, nodes, rapid.ID[string]).Draw(t, "on")...)
			case 1:
				if n := len(s.Windows); n > 0 {
					at := rapid.IntRange(0, n-1).Draw(t, "gone")
					s.Windows = append(s.Windows[:at:at], s.Windows[at+1:]...)
				}
			case 2:
				if n := len(s.Windows); n > 0 {
					w, by := &s.Windows[rapid.IntRange(0, n-1).Draw(t, "which")], time.Duration(rapid.IntRange(-100, 100).Draw(t, "by"))*time.Minute
					w.Start, w.End = w.Start.Add(by), w.End.Add(by)
				}
			case 3: // priod does not run
				s.At = s.At.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "minutes")) * time.Minute)
			}
			tidy(s)
			live(t, s, own, seen)
			s.f.Settings.Enabled = rapid.IntRange(0, 9).Draw(t, "enabled") > 0
			paused := ""
			if rapid.IntRange(0, 9).Draw(t, "paused") == 0 {
				paused = "paused"
			}
			_, leave := s.cycle(paused)
			for _, id := range leave {
				s.requeue(id)
			}
			clear(seen)
			for i := range s.Jobs {
				j := &s.Jobs[i]
				if j.State != cluster.Running {
					continue
				}
				seen[j.ID.ID] = paused == ""
				if w := s.in(j.NodeList); j.TimeLimit != own[j.ID.ID] && w && s.reaches(j, j.Start, j.NodeList) {
					t.Fatalf("job %s runs in a window: limit %s, its own is %s", j.ID, j.TimeLimit, own[j.ID.ID])
				}
			}
			begin(t, s)
		}
		s.Windows = nil
		tidy(s)
		s.cycle("")
		for i := range s.Jobs {
			if j := &s.Jobs[i]; j.State != cluster.Other && j.TimeLimit != own[j.ID.ID] {
				t.Fatalf("job %s (%s) has the limit %s, its own is %s", j.ID, j.State, j.TimeLimit, own[j.ID.ID])
			}
		}
	})
}

// tidy orders the windows, and drops those that are over.
func tidy(s *scene) {
	s.Windows = slices.DeleteFunc(s.Windows, func(w cluster.Window) bool { return !w.End.After(s.At) })
	slices.SortStableFunc(s.Windows, func(a, b cluster.Window) int { return a.Start.Compare(b.Start) })
}

// live ends jobs at their limits, none that a cycle saw to run before its own.
func live(t *rapid.T, s *scene, own map[uint32]time.Duration, seen map[uint32]bool) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State == cluster.Running && j.TimeLimit > 0 && !j.Start.Add(j.TimeLimit).After(s.At) {
			if limit := own[j.ID.ID]; seen[j.ID.ID] && (limit < 0 || j.TimeLimit < limit) {
				t.Fatalf("job %s ends by its limit of %s, its own is %s", j.ID, j.TimeLimit, limit)
			}
			s.requeue(j.ID.ID)
			j.State = cluster.Other
		}
	}
}

// begin starts jobs as Slurm does: on nodes with no window into which their limits reach.
func begin(t *rapid.T, s *scene) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending || rapid.Bool().Draw(t, "passed") {
			continue
		}
		for k := range s.Nodes {
			if n := &s.Nodes[k]; n.GPUs-n.GPUsUsed >= j.GPUs && !s.reaches(j, s.At, n.Name) {
				s.begin(j.ID.ID, n.Name)
				break
			}
		}
	}
}

// reaches reports whether a job that began then on a node may run into a window.
func (s *scene) reaches(j *cluster.Job, start time.Time, node string) bool {
	return slices.ContainsFunc(s.Windows, func(w cluster.Window) bool {
		return slices.Contains(w.Nodes, node) && w.End.After(s.At) && (j.TimeLimit < 0 || start.Add(j.TimeLimit).After(w.Start))
	})
}

// in reports whether a window has begun on a node.
func (s *scene) in(node string) bool {
	return slices.ContainsFunc(s.Windows, func(w cluster.Window) bool {
		return slices.Contains(w.Nodes, node) && !w.Start.After(s.At) && w.End.After(s.At)
	})
}
