package view

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/steer"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// A job that waits for a GPU type has the time of the plan, and no other one beside it.
func TestOneTimeOfAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour) // its clock begins at midnight
		chosen, startS, endS, otherS := time.Now().Add(-time.Hour).Truncate(time.Minute), 7200.0, 9000.0, 9300.0
		v := &Explanation{}
		v.Job = store.Job{ID: slurmplug.Plain(7), State: cluster.Pending.String(), GPUs: 4}
		v.Decision = &store.Decision{At: time.Now(), Decision: plan.Decision{Ranked: true, Class: cluster.BE}}
		c := &plan.GPUTypeChoice{At: chosen, Why: string(steer.Waits), GPUType: "a100", StartS: &startS, EndS: &endS, Other: "v100", OtherS: &otherS}
		v.Decision.Choices.GPUType, v.Decision.Steer = c, c.Words()
		v.Start = &store.ExpectedStart{Planned: time.Now(), At: time.Now().Add(3 * time.Hour), Median: time.Now().Add(22 * time.Minute), P90: time.Now().Add(time.Hour)}
		var out strings.Builder
		v.Show(&out, false)
		text := out.String()
		for _, want := range []string{"Why        waits for a100, where it ends 0h05m sooner than on v100\n", "Start      in about 22m00s, nine of ten within 1h00m (by time limits within 3h00m)\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q:\n%s", want, text)
			}
		}
		if at := chosen.Add(2 * time.Hour).Local().Format("15:04"); strings.Contains(text, at) {
			t.Errorf("%s is another time of its start:\n%s", at, text)
		}
	})
}

// The first lines say why a job waits or what became of it, when it starts, and what can be done.
func TestExplainAnswersFirst(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	waits := func(cause plan.Cause, what, words string) func(*Explanation) {
		return func(v *Explanation) {
			v.Waits = []waitView{{Submit: at, Until: at, Spans: []spanView{{Cause: cause, What: what, Words: words}}}}
		}
	}
	awaits, startS := "waits for a100, where it ends 1h00m sooner than on v100", 720.0
	steered := func(v *Explanation) {
		v.Decision.At, v.Decision.Steer = at, awaits
		v.Decision.Choices.GPUType = &plan.GPUTypeChoice{Why: string(steer.Waits), GPUType: "a100", StartS: &startS}
	}
	for name, c := range map[string]struct {
		change func(*Explanation)
		want   []string
		lacks  string
	}{
		"held":       {waits(plan.HeldBack, "JobHeldUser", ""), []string{"Why        held (JobHeldUser)", "Advice     scontrol release 7"}, ""},
		"dependency": {waits(plan.AfterJob, "", ""), []string{"Why        waits for another job", "squeue -j 7"}, ""},
		"begin time": {waits(plan.BeforeTime, "BeginTime", ""), []string{"Why        not eligible yet: its begin time"}, "StartTime"}, // which is as its user wants it
		"the hold": {func(v *Explanation) {
			waits(plan.BeforeTime, "BeginTime", "")(v)
			v.Job.Submit, v.Job.Eligible, v.MaySteer = at, at.Add(20*time.Second), true
		}, []string{"Why        held for one cycle, so that priod can choose its GPU type, until " + report.Clock(at.Add(20*time.Second)), "Start      not known: what it waits for has no time"}, "StartTime"},
		"a begin time of its own": {func(v *Explanation) {
			waits(plan.BeforeTime, "BeginTime", "")(v)
			v.Job.Submit, v.Job.Eligible, v.MaySteer = at, at.Add(2*time.Hour), true
		}, []string{"Why        not eligible yet: its begin time is not over, until "}, "held"},
		"after a requeue": {func(v *Explanation) {
			waits(plan.BeforeTime, "BeginTime", "")(v)
			v.Job.Submit, v.Job.Eligible, v.Job.Restarts, v.MaySteer = at, at.Add(20*time.Second), 1, true
		}, []string{"Why        not eligible yet: Slurm's pause after a requeue is not over, until "}, "held"},
		"never": {waits(plan.AfterJob, neverSatisfied, ""), []string{"Why        never starts", "scancel 7"}, ""},
		"others first": {func(v *Explanation) {
			waits(plan.Starting, "", "")(v)
			v.Start = &store.ExpectedStart{Planned: at, At: at.Add(2 * time.Hour), Median: at.Add(time.Hour)}
		}, []string{"Why        fits now, and jobs ahead of it", "Start      in about 1h00m, nine of ten within 1m"}, "next pass"},
		"no node":   {waits(plan.NoNode, "BadConstraints", ""), []string{"Why        no node satisfies its request (BadConstraints)"}, "sinfo -R"},
		"down":      {waits(plan.NoNode, "ReqNodeNotAvail", "UnavailableNodes:n1"), []string{"Why        its nodes are down, drained or reserved (ReqNodeNotAvail): UnavailableNodes:n1", "sinfo -R"}, ""},
		"partition": {waits(plan.AtLimit, "PartitionNodeLimit", ""), []string{"Why        a limit is reached (PartitionNodeLimit)", "scontrol show partition"}, "sacctmgr"},

		"limit":     {waits(plan.AtLimit, "QOSMaxGRESPerUser", ""), []string{"Why        a limit is reached (QOSMaxGRESPerUser)"}, ""},
		"capacity":  {waits(plan.Capacity, "", "requests 4 GPUs; 1 is free"), []string{"Why        too few GPUs are free: requests 4 GPUs; 1 is free", "Start      not planned yet; priod eta 7 plans it now", "Advice     priod eta 7 shows what would start it sooner"}, "shorter time limit"}, // which the forecast may not bear out
		"starting":  {waits(plan.Starting, "", ""), []string{"Why        fits now", "Start      now"}, "Advice"},
		"unseen":    {func(v *Explanation) { v.Decision = nil }, []string{"Why        no cycle has seen it yet"}, ""},
		"Slurm's":   {func(v *Explanation) { v.Now = &nowView{State: "PENDING", Reason: "Resources", Start: at} }, []string{"Why        Slurm's reason: Resources", "Start      Slurm's backfill expects "}, ""},
		"paused":    {func(v *Explanation) { v.Cycle.Hold = "paused by ann" }, []string{"; priod writes nothing: paused by ann"}, ""},
		"a bad tag": {func(v *Explanation) { v.Job.TagError = "type=x: want te, be or none" }, []string{"Advice     correct the tag: type=x: want te, be or none"}, ""},
		"steered":   {steered, []string{"Why        waits for a100, where it ends 1h00m sooner than on v100", "Start      not planned yet; priod eta 7 plans it now\n"}, ""},
		"no victims": {func(v *Explanation) {
			v.Decision.At = at
			v.Decision.Choices.Eviction = &plan.EvictionChoice{For: string(evict.ForTrial), Why: string(preemption.PerHour), Opens: at.Add(143 * time.Minute)}
		}, []string{"; preemption.max_per_hour is reached, until " + at.Add(143*time.Minute).Local().Format("15:04") + " at the earliest"}, ""},
		"over budget": {func(v *Explanation) { v.Decision.Why = string(plan.OverBudget) }, []string{"it counts as TE once earlier TE jobs"}, ""},
		"larger than the budget": {func(v *Explanation) {
			waits(plan.AtLimit, "over-budget", "")(v)
			v.Decision.Why, v.Decision.Detail = string(plan.OverBudget), "5 times the share of user ann, 3 TE GPUs at a time"
			v.Decision.Choices.Budget = &plan.BudgetLimit{Limit: "gpus", Allowed: 3, Asks: 16, Times: 5}
			v.budgetKey = "te_budget.user.share = 0.1 of the GPUs that the job reaches, the default"
		}, []string{"5 times the share of user ann", "Advice     it counts as TE with fewer GPUs or a shorter time limit (te_budget.user.share = 0.1 of the GPUs that the job reaches, the default)"}, "earlier TE jobs"},
		"beyond its share": {func(v *Explanation) {
			v.Decision.Class, v.Decision.Why = cluster.TE, string(plan.TETag)
			v.Decision.Choices.Budget = &plan.BudgetLimit{Of: "user", Name: "ann", Limit: "gpu_hours", Allowed: 12, Asks: 1, Times: 3}
			v.budgetKey, v.mayLose = "te_budget.user.gpu_hours_per_day = 12, priod.toml", 2400
		}, []string{"over budget: 3 times the share of user ann, 12.0 TE GPU-hours in a day (te_budget.user.gpu_hours_per_day = 12, priod.toml); ranks behind cheaper TE jobs, may evict where that costs less than 40 GPU-minutes"}, "Advice     it counts"},
		"longer than the budget": {func(v *Explanation) {
			v.Decision.Why = string(plan.OverBudget)
			v.Decision.Choices.Budget = &plan.BudgetLimit{Limit: "time_limit_s", Allowed: 3600, Times: 8}
		}, []string{"Advice     it counts as TE with a time limit of 5h00m or less"}, "earlier TE jobs"},
		"room": {func(v *Explanation) {
			v.Evictions = []store.Eviction{{Victim: slurmplug.Plain(3), For: v.Job.ID, State: "signalled", ClaimState: string(evict.Planned), Nodes: "n1", Recorded: at, WaitS: 60}}
		}, []string{"Why        room is being made on n1: job 3 signalled", "once the last victim has left"}, ""},
		"runs": {func(v *Explanation) {
			v.Job.State, v.Stays = cluster.Running.String(), []store.Stay{{Stay: cluster.Stay{Start: at, GPUType: "a100", Class: cluster.BE}}}
		}, []string{"Why        runs on a100 since ", " as BE"}, "Start "},
		"ended since the last cycle": {func(v *Explanation) {
			v.Job.State, v.Stays = cluster.Running.String(), []store.Stay{{Stay: cluster.Stay{Start: at, GPUType: "a100"}}}
			v.Now, v.Since = &nowView{State: "COMPLETED", Reason: "None"}, sinceEnded
		}, []string{"Why        COMPLETED (None); ended since then"}, "runs on"},
		"requeued since the last cycle": {func(v *Explanation) {
			steered(v)
			v.Now, v.Since = &nowView{State: "PENDING", Reason: "BeginTime"}, sinceRequeued
		}, []string{"Why        Slurm's reason: BeginTime"}, "1h00m sooner"},
		"above the budget": {func(v *Explanation) {
			waits(plan.AtLimit, "over-budget", "")(v)
			v.Decision.Why, v.Decision.Detail = string(plan.OverBudget), "user ann holds 5 TE GPUs of 6"
		}, []string{"Why        above the TE budget: user ann holds 5 TE GPUs of 6", "once earlier TE jobs"}, "sacctmgr"},
		"told to leave": {func(v *Explanation) {
			v.Job.State = cluster.Running.String()
			v.Evictions = []store.Eviction{{Victim: v.Job.ID, For: slurmplug.Plain(9), ForUser: "bob", State: "signalled", GraceS: 60, Recorded: at}}
		}, []string{"Why        evicted for job 9 of bob at ", "grace 1m00s", "Advice     it is requeued"}, "Start "},
		"evicted and back": {func(v *Explanation) {
			v.Job.State, v.Since = cluster.Pending.String(), sinceStarted
			v.Now = &nowView{State: "RUNNING", Reason: "None"}
			v.Evictions = []store.Eviction{{Victim: v.Job.ID, For: slurmplug.Plain(9), ForUser: "bob", State: "restored", GraceS: 60, Recorded: at}}
		}, []string{"Why        runs; it started after the cycle of "}, "requeued"},
		"evicted, and seen to run again": {func(v *Explanation) {
			v.Job.State, v.Stays = cluster.Running.String(), []store.Stay{{Stay: cluster.Stay{Start: at.Add(time.Minute), GPUType: "a100", Class: cluster.BE}}}
			v.Evictions = []store.Eviction{{Victim: v.Job.ID, For: slurmplug.Plain(9), ForUser: "bob", State: "restored", GraceS: 60, Recorded: at}}
		}, []string{"Why        runs on a100 since "}, "requeued"},
		"opted out": {func(v *Explanation) {
			v.Job.State, v.Stays = cluster.Running.String(), []store.Stay{{Stay: cluster.Stay{Start: at, GPUType: "a100", Class: cluster.BE}}}
			v.Job.Said.Type, v.Decision.Ranked, v.Decision.Why = jobtag.None, false, string(plan.OptedOut)
		}, []string{"Why        runs on a100 since ", " as a job that priod leaves alone (type=none)", "Class      none: its tag says type=none"}, "BE"},
		"failed": {func(v *Explanation) {
			v.Job.State, v.Job.Left = cluster.Running.String(), at
			v.Failures = []retry.Failure{{End: at, Class: "memory", Means: "out of memory", Advice: "ask for more memory"}}
		}, []string{"Why        failed at ", "out of memory (class memory)", "Advice     ask for more memory"}, "Start "},
	} {
		v := &Explanation{}
		v.Job = store.Job{ID: slurmplug.Plain(7), User: "ann", State: cluster.Pending.String(), GPUs: 4, TimeLimitS: 7200}
		v.Decision = &store.Decision{Decision: plan.Decision{Job: v.Job.ID, Ranked: true, Class: cluster.BE, Why: string(plan.Untagged)}}
		c.change(v)
		var out strings.Builder
		v.Show(&out, false)
		lines := strings.SplitAfter(out.String(), "\n")
		head := strings.Join(lines[:min(4, len(lines))], "")
		for _, want := range c.want {
			if !strings.Contains(head, want) {
				t.Errorf("%s: the first lines lack %q:\n%s", name, want, &out)
			}
		}
		if c.lacks != "" && strings.Contains(head, c.lacks) {
			t.Errorf("%s: says %q:\n%s", name, c.lacks, &out)
		}
	}
}

// A job that started since the last cycle is told of as one that runs: it does not wait, and its class is the next cycle's.
func TestExplainOfAJobThatHasJustStarted(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	v := &Explanation{Now: &nowView{State: "RUNNING", Reason: "None"}}
	v.Job = store.Job{ID: slurmplug.Plain(7), User: "ann", State: cluster.Pending.String(), GPUs: 1, Eligible: at}
	v.Decision = &store.Decision{Decision: plan.Decision{Job: v.Job.ID, Class: cluster.BE, Why: string(plan.NotYet)}}
	v.Waits = []waitView{{Submit: at.Add(-2 * time.Second), Until: at, Spans: []spanView{{From: at.Add(-2 * time.Second), Wait: 2, Cause: plan.BeforeTime}}}}
	v.Since = v.sinceCycle(false)
	v.date()
	var out strings.Builder
	v.Show(&out, false)
	text := out.String()
	for _, want := range []string{"Why        runs; it started after the cycle of ", "Wait       waited at least 2s", "Class      the next cycle says as what it runs; as it last waited, not eligible yet"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "waits 2s") || strings.Contains(text, "none:") || strings.Count(text, "as it last waited") > 1 {
		t.Errorf("it is told of as waiting:\n%s", text)
	}
}

// Time owed is told from a minute on, and how long it would run of a job that waits alone.
func TestExplainOfTimeOwed(t *testing.T) {
	all, run := 1.0, 3595.0
	of := func(state cluster.State, received, owed float64) string {
		v := &Explanation{}
		v.Job = store.Job{ID: slurmplug.Plain(7), State: state.String(), GPUs: 1}
		return v.owedWords(&store.ShareOfType{GPUType: "a100", Time: &all, ReceivedS: received, OwedS: owed, RunS: &run})
	}
	for want, got := range map[string]string{
		"; received 5s there":                                      of(cluster.Running, 5, -5),
		"; received 10m00s there, 5m00s owed":                      of(cluster.Running, 600, 300),
		"; received 10m00s there, 5m00s more than was promised":    of(cluster.Running, 600, -300),
		"; received 10m00s there, 5m00s owed, it would run 59m55s": of(cluster.Pending, 600, 300),
		"; received 10m00s there, it would run 59m55s":             of(cluster.Pending, 600, 3),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
