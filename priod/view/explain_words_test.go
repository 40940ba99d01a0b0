package view

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// A speed and its words agree, whatever the source.
func TestSpeedWords(t *testing.T) {
	for want, a := range map[string]speed.Answer{
		"cannot run there":                        {Speed: 0, Source: speed.Tag, Factor: 1},
		"cannot run there; speed unknown":         {Speed: 0, Source: speed.None, Factor: 1.93},
		"unknown, assumed 1.00 within a factor":   {Speed: 1, Source: speed.None, Factor: 1.93},
		"0.50, by the job's tag":                  {Speed: 0.5, Source: speed.Tag, Factor: 1},
		"0.50 within a factor 1.20, 3 runs there": {Speed: 0.5, Source: speed.Past, Factor: 1.2, Runs: 3},
		"0.50, by workloads.toml":                 {Speed: 0.5, Source: speed.Workload, Factor: 1},
		"0.50, by the type's speed in priod.toml": {Speed: 0.5, Source: speed.Default, Factor: 1},
		"0.50, by how other programs ran here":    {Speed: 0.5, Source: speed.Site, Factor: 1},
	} {
		if got := speedWords(&a); !strings.HasPrefix(got, want) || a.Speed == 0 && strings.Contains(got, "assumed") {
			t.Errorf("%+v: %q, want %q", a, got, want)
		}
	}
}

// What the last cycle saw of a job and what Slurm shows now make one sentence that is true now.
func TestExplainBetweenTwoCycles(t *testing.T) {
	array := slurmplug.JobID{ID: 9, Task: slurmplug.NoTask}
	for _, c := range []struct {
		name, seen string // by the last cycle; "left": it saw it leave
		now        string // Slurm's state; "": not listed; "?": no answer
		array      bool
		evicted    string // the state of an eviction of its run
		since      string
		words      []string
	}{
		{"waits", "pending", "PENDING", false, "", "", []string{"PENDING (Priority)"}},
		{"runs", "running", "RUNNING", false, "", "", []string{"RUNNING (Priority)"}},
		{"suspended", "running", "SUSPENDED", false, "", "", []string{"SUSPENDED"}},
		{"started", "pending", "RUNNING", false, "", sinceStarted, []string{"RUNNING", "started since then", "saw it pending"}},
		{"ends", "pending", "COMPLETING", false, "", sinceStarted, []string{"COMPLETING", "started since then"}},
		{"ended", "running", "COMPLETED", false, "", sinceEnded, []string{"COMPLETED", "ended since then", "saw it running"}},
		{"cancelled", "pending", "CANCELLED", false, "", sinceEnded, []string{"CANCELLED", "saw it pending"}},
		{"not listed", "running", "", false, "", sinceGone, []string{"left the queue", "saw it running"}},
		{"no answer", "running", "?", false, "", "", []string{"running (None) at"}},
		{"left", "left", "", false, "", "", []string{"left the queue before"}},
		{"left, still listed", "left", "FAILED", false, "", "", []string{"left the queue before"}},
		{"requeued", "running", "PENDING", false, "", sinceRequeued, []string{"PENDING", "requeued since then", "saw it running"}},
		{"requeued after it left", "left", "PENDING", false, "", sinceRequeued, []string{"PENDING", "requeued since the cycle before", "which saw it leave"}},
		{"runs again", "left", "RUNNING", false, "", sinceRequeued, []string{"RUNNING", "requeued since"}},
		{"evicted", "running", "PENDING", false, "left", sinceRequeued, []string{"PENDING", "it left for job 77 of bob", "requeued since then"}},
		{"evicted before", "running", "PENDING", false, "done", sinceRequeued, []string{"PENDING", "requeued since then"}},
		{"an array without a waiting task", "left", "", true, "", "", []string{"none of its tasks waits"}},
		{"an array whose tasks wait again", "left", "PENDING", true, "", sinceRejoined, []string{"PENDING", "tasks wait in the array's own record again"}},
	} {
		v := &Explanation{}
		v.Job.ID, v.Job.State, v.Job.Reason = slurmplug.Plain(5), c.seen, "None"
		if c.seen == "left" {
			v.Job.State, v.Job.Left = "running", time.Now()
		}
		if c.array {
			v.Job.ID, v.Array = array, &store.Array{}
		}
		if c.now != "" && c.now != "?" {
			v.Now = &nowView{State: c.now, Reason: "Priority"}
		}
		if c.evicted != "" {
			v.Evictions = []store.Eviction{{Victim: slurmplug.Plain(5), For: slurmplug.Plain(77), ForUser: "bob", State: c.evicted}}
		}
		v.Since = v.sinceCycle(c.now == "?")
		got := v.stateWords()
		if v.Since != c.since {
			t.Errorf("%s: %q, want %q", c.name, v.Since, c.since)
		}
		for _, words := range c.words {
			if !strings.Contains(got, words) {
				t.Errorf("%s: %q, want %q", c.name, got, words)
			}
		}
		if c.evicted == "done" && strings.Contains(got, "77") {
			t.Errorf("%s: %q tells of an eviction that is over", c.name, got)
		}
	}
}

// A job that may be steered and started before a cycle saw it says what would have helped.
func TestExplainOfAJobThatStartedAtOnce(t *testing.T) {
	said := func(on bool, tag jobtag.Tag, stays int) (text string) {
		v := &Explanation{Steering: on, MaySteer: tag.AllowsSteering()}
		v.Job.Said, v.Stays = tag, make([]store.Stay, stays)
		for _, l := range v.Lines(true) {
			if l.Name == "Decision" {
				text = l.Text
			}
		}
		return text
	}
	steered := jobtag.Tag{Type: "be", Speed: map[string]float64{"a100": 1}}
	if got := said(true, steered, 1); !strings.Contains(got, "/etc/slurmprio/hold") {
		t.Errorf("a job that may be steered: %q", got)
	}
	for name, got := range map[string]string{"never ran": said(true, steered, 0), "untagged": said(true, jobtag.Tag{}, 1), "steering off": said(false, steered, 1)} {
		if strings.Contains(got, "hold") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A run that only accounting knows says so, in place of a request that is empty.
func TestExplainOfARunBeforePriod(t *testing.T) {
	v := &Explanation{}
	v.Job = store.Job{ID: slurmplug.Plain(7), User: "ann", Left: time.Now()}
	v.Stays = []store.Stay{{}}
	if text := v.Lines(false)[0].Text; !strings.Contains(text, "it ended before priod saw it") || strings.Contains(text, "partition ,") {
		t.Error(text)
	}
}

// Of an array whose tasks have records of their own the queue has some.
func TestTasksOfAnArrayAreInTheQueue(t *testing.T) {
	q := &queueNow{jobs: map[slurmplug.JobID]*slurmplug.Job{{ID: 9, Task: 3}: {}, slurmplug.Plain(8): {}}}
	if !q.tasks(9) || q.tasks(8) || q.tasks(7) {
		t.Errorf("9: %v, 8: %v, 7: %v", q.tasks(9), q.tasks(8), q.tasks(7))
	}
}

// A job that is held, or whose begin time is to come, has waited since its submission.
func TestWaitOfAHeldJob(t *testing.T) {
	for name, eligible := range map[string]time.Time{"held": {}, "begins later": time.Now().Add(time.Hour)} {
		q := store.Queued{Job: store.Job{ID: slurmplug.Plain(7), Submit: time.Now().Add(-16 * time.Minute), Eligible: eligible}}
		if got := jobOf(&q, nil).WaitS; got < 960 || got > 970 {
			t.Errorf("%s: waits %d s", name, got)
		}
	}
}
