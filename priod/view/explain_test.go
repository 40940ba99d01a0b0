package view

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// What a job got of the GPU types reads as sentences that are true of it.
func TestExplainGPUTypes(t *testing.T) {
	all, none, run := 1.0, 0.0, 600.0
	for name, c := range map[string]struct {
		change func(*Explanation)
		want   []string
		lacks  string
	}{
		"untouched":    {func(*Explanation) {}, []string{"it has had no time on a100 since ", "untagged: keeps Slurm's own order", "Features none -> a100", "Features a100 -> none"}, "it may not be steered"},
		"served":       {func(v *Explanation) { v.Share.Types[0].Received = 0.5 }, []string{"the best of allocated over received since "}, "had no time"},
		"no tag":       {func(v *Explanation) { v.Job.Tag = "" }, []string{"GPU type   left open: no valid tag gives a speed or a workload"}, ""},
		"only a class": {func(v *Explanation) { v.Job.Tag = "prio:v=1&type=be" }, []string{"GPU type   left open"}, ""},
		"a bad tag":    {func(v *Explanation) { v.Job.Tag, v.Job.TagError = "prio:v=1&speed=a100:0", "wrong" }, []string{"GPU type   left open", "not valid"}, ""},
		"steering off": {func(v *Explanation) { v.Job.Tag, v.Steering = "", false }, nil, "GPU type "},
		"runs":         {func(v *Explanation) { v.Job.Tag, v.Job.State = "", cluster.Running.String() }, nil, "GPU type "},
		"steered":      {func(v *Explanation) { v.Decision.Steer = "a100 is allocated to it and free" }, []string{"GPU type   a100 is allocated to it and free"}, ""},
	} {
		v := &Explanation{Steering: true}
		v.Job = store.Job{ID: slurmplug.Plain(1), User: "ann", State: cluster.Pending.String(), GPUs: 1, Tag: "prio:v=1&workload=bert", TimeLimitS: 60}
		v.Share = &store.Share{Since: time.Unix(1000, 0), Types: []store.ShareOfType{
			{GPUType: "a100", Speed: 1, Source: speed.Workload, Factor: 1, Time: &all, RunS: &run}, {GPUType: "t4", Speed: 0.5, Source: speed.Default, Factor: 1.4, Time: &none, RunS: &run},
		}}
		v.Decision = &store.Decision{Decision: plan.Decision{Job: v.Job.ID, Ranked: true, Class: cluster.BE, Why: string(plan.Untagged)}}
		v.Reason = Reason(v.Decision.Why)
		v.Writes = []store.Write{
			{Outcome: plan.Outcome{Action: plan.Action{Job: v.Job.ID, Lever: slurmplug.Features, Before: slurmplug.Text("a100")}, Status: slurmplug.Applied}},
			{Outcome: plan.Outcome{Action: plan.Action{Job: v.Job.ID, Lever: slurmplug.Features, After: slurmplug.Text("a100")}, Status: slurmplug.Applied}},
		}
		c.change(v)
		tag, _ := jobtag.Parse(v.Job.Tag)
		v.MaySteer = tag.AllowsSteering()
		out := printed(t, v)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: lacks %q:\n%s", name, want, out)
			}
		}
		if c.lacks != "" && strings.Contains(out, c.lacks) {
			t.Errorf("%s: says %q:\n%s", name, c.lacks, out)
		}
	}
}

// An array is told of as a whole, a job that was left alone while it waited is not "held"
// while it runs, and a year is no time limit.
func TestExplainArraysAndTheHeld(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Explanation)
		want   []string
		lacks  string
	}{
		"held": {func(*Explanation) {}, []string{"Class      none: it is held: left alone"}, ""},
		"a component that runs": {func(v *Explanation) {
			v.Job.State, v.Job.HetLeader, v.Job.HetOffset, v.Job.TimeLimitS = cluster.Running.String(), 83, 1, 365*86400
			v.Stays = []store.Stay{{Stay: cluster.Stay{Class: cluster.BE}}}
		}, []string{"Job        83+1 of ann", "no time limit", "Class      BE (best-effort) while it runs; as it last waited, it is held"}, "none: it is held"},
		"started since": {func(v *Explanation) { v.Now = &nowView{State: "RUNNING"} }, []string{"Class      none: as it last waited, it is held"}, ""},
		"an array": {func(v *Explanation) {
			v.Job.Tasks = "3-9"
			v.Array = &store.Array{Waiting: "3-9", Tasks: []store.TasksIn{{State: "running", Count: 2, Tasks: "1-2"}}}
		}, []string{"Job        84_[3-9] of ann", "Array      tasks 3-9 wait together; the rest describes them; 2 running (1-2)"}, ""},
		"an array, one task of which was written to": {func(v *Explanation) {
			v.Job.Tasks = "1-3"
			v.Writes = []store.Write{{Outcome: plan.Outcome{Status: slurmplug.Applied, Action: plan.Action{
				Job: v.Job.ID, Tasks: "0", Part: true, Lever: slurmplug.Features, Before: slurmplug.Text("a100"), After: slurmplug.Text("v100"),
			}}}, {Outcome: plan.Outcome{Status: slurmplug.Applied, Action: plan.Action{Job: v.Job.ID, Tasks: "0-3", Lever: slurmplug.Features, After: slurmplug.Text("a100")}}}}
		}, []string{"Features of tasks 0 a100 -> v100", "Features none -> a100"}, ""},
		"an array that has split": {func(v *Explanation) {
			v.Job.ID.Task = 4
			v.Array = &store.Array{Tasks: []store.TasksIn{{State: "left", Count: 1, Tasks: "1"}, {State: "pending", Count: 1, Tasks: "4"}}}
		}, []string{"Job        84_4 of ann", "the rest describes 84_4; 1 left (1); 1 pending (4)"}, ""},
	} {
		v := &Explanation{}
		v.Job = store.Job{ID: slurmplug.Plain(84), User: "ann", State: cluster.Pending.String(), TimeLimitS: 60}
		v.Decision = &store.Decision{Decision: plan.Decision{Job: v.Job.ID, Why: string(plan.Held)}}
		v.Reason = Reason(v.Decision.Why)
		c.change(v)
		v.date()
		out := printed(t, v)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: lacks %q:\n%s", name, want, out)
			}
		}
		if c.lacks != "" && strings.Contains(out, c.lacks) {
			t.Errorf("%s: says %q:\n%s", name, c.lacks, out)
		}
	}
}
