package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"slurmprio/etc"
	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// printed is the explanation as text. It fails when its JSON is not as the schema says, or
// lacks something that the text says: the text has to follow from the JSON alone.
func printed(t *testing.T, v *Explanation) string {
	t.Helper()
	var direct, again, data bytes.Buffer
	v.Show(&direct, true)
	if err := report.JSON(&data, v); err != nil {
		t.Fatal(err)
	}
	checkSchema(t, data.Bytes())
	var read Explanation
	if err := json.Unmarshal(data.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	read.Show(&again, true)
	if diff := cmp.Diff(direct.String(), again.String()); diff != "" {
		t.Errorf("the text says what the JSON does not:\n%s", diff)
	}
	return direct.String()
}

func checkSchema(t *testing.T, text []byte) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(etc.ExplainSchema), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var data any
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(data); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

// hostileName is a user's text that upsets terminals.
const hostileName = "ann\x1b[2J\u202e\"<b>\n"

// whole is an explanation that says all that one can.
func whole(now time.Time) *Explanation {
	half, none, paid, took, start := 0.5, 0.0, 99.0, 12.5, 600.0
	id := cluster.JobID{ID: 84, Task: 4}
	v := &Explanation{
		Cycle:  store.Cycle{Number: 7, At: now, Until: now, Cluster: "c", Mode: slurmplug.SiteFactor, BandStep: 1000, Hold: "paused by " + hostileName, Notes: []string{"note"}},
		Reason: Reason(string(plan.OverBudget)), TECount: 3, BEAhead: 2, Note: "note", Steering: true, MaySteer: true,
		Now:    &nowView{State: "PENDING", Reason: "Priority", Priority: 5, Nice: 1, Start: now.Add(time.Hour), Factors: &slurmplug.Factors{RawID: 90, Priority: 36, SiteFactor: 8, Nice: 9, Age: 1, Assoc: 2, FairShare: 3, JobSize: 4, Partition: 5, QOS: 6, TRES: 7}},
		Own:    map[slurmplug.Lever]slurmplug.Value{slurmplug.Features: slurmplug.Text("a&b"), slurmplug.Size: slurmplug.SizeRequest{PerNode: 4, Memory: 100, By: slurmplug.ByNode}.Value()},
		Speeds: &speed.Answers{Notes: []string{hostileName}, Speeds: []speed.Answer{{GPUType: "a100", Speed: 1, Source: speed.Past, Factor: 1.2, Runs: 3}, {GPUType: "t4", Speed: 0.3, Source: speed.Default, Factor: 2}}},
	}
	v.Job = store.Job{
		ID: id, RawID: 90, Tasks: "", TaskCount: 1, User: hostileName, Account: hostileName, Partition: "gpu", QOS: "normal", State: cluster.Pending.String(),
		Reason: "Priority", GPUs: 2, GPUType: "a100", TimeLimitS: 3600, Tag: "prio:v=1&type=te", TagError: hostileName, Seen: now.Add(-time.Hour), Changed: now,
	}
	v.RunTime = &runTimeView{MedianS: 3600, LowS: 60, HighS: 90000, Runs: 12, Of: "the user's jobs", Scored: 400}
	v.Array = &store.Array{Waiting: "5-9", Tasks: []store.TasksIn{{State: "left", Count: 1, Tasks: "1"}}}
	v.Start = &store.ExpectedStart{At: now.Add(2 * time.Hour), Planned: now}
	v.Share = &store.Share{Cycle: 7, At: now, Given: now, Since: now.Add(-time.Hour), Priority: 2, Types: []store.ShareOfType{
		{GPUType: "a100", Speed: 1, Source: speed.Past, Factor: 1.2, Runs: 3, Time: &half, Received: 0.25, ReceivedS: 100, PromisedS: 300, OwedS: 200, RunS: &start},
		{GPUType: "t4", Time: &none, OwedS: -50, RunS: &start}, {GPUType: "k80"}, {GPUType: "p100", RunS: &start},
	}}
	v.Decisions = []store.Decision{{Cycle: 7, At: now, Decision: plan.Decision{
		Job: id, Class: cluster.BE, Ranked: true, Value: 2000, Own: 30, Why: string(plan.OverBudget), Detail: "user ann holds 4", Since: now.Add(-time.Hour), Steer: "waits 10 min for a100", Unmoved: "somebody else's",
		Choices: plan.Choices{
			Budget: &plan.BudgetLimit{Of: "user", Name: hostileName, Limit: "gpus", Allowed: 4, Asks: 2, Times: 6}, GPUType: &plan.GPUTypeChoice{Why: "waits", GPUType: "a100", StartS: &start},
			Eviction: &plan.EvictionChoice{For: "te", Why: "no-consent"}, Switches: &plan.PlacesChoice{Accepts: 1, Fewest: 1, Most: 4}, Refused: &plan.RefusedNodes{Nodes: "n[1-2]"},
		},
	}}}
	v.Decision = &v.Decisions[0]
	v.Writes = []store.Write{{User: hostileName, Cycle: 7, At: now, Outcome: plan.Outcome{
		Action: plan.Action{Job: id, Lever: slurmplug.SiteFactor, Before: slurmplug.Number(1), After: slurmplug.Number(2000), Reason: "te"}, Status: slurmplug.Refused, Message: "Slurm said no",
	}}}
	v.Stays = []store.Stay{{Stay: cluster.Stay{Start: now.Add(-2 * time.Hour), End: now.Add(-time.Hour), Closed: true, GPUType: "a100", GPUs: 2, Class: cluster.TE}, GPUSeconds: 7200}}
	v.Evictions = []store.Eviction{
		{Number: 1, Victim: id, For: slurmplug.Plain(99), ForUser: "bob", State: "done", Reason: "why", How: string(evict.Exited), GraceS: 60, TookS: &took, Promised: 120, Paid: &paid, Recorded: now, Purpose: string(evict.ForRound)},
		{Number: 2, Victim: slurmplug.Plain(98), VictimUser: hostileName, For: id, State: "signalled", Nodes: "n1", Promised: 5, Recorded: now, ClaimState: "making room", ClaimReason: "so"},
	}
	v.Waits = waitViews([]*plan.Wait{
		{Submit: now.Add(-time.Hour), Until: now, Spans: []plan.WaitSpan{{From: now.Add(-time.Hour), Cause: plan.AtLimit, What: "QOSMaxGRES"}, {From: now.Add(-time.Minute), Cause: plan.Capacity, Words: "requests 2 GPUs; 0 are free", Fits: &plan.FitsNow{GPUs: 1, GPUTypes: []string{"t4"}, Before: &id}}}},
		{Submit: now.Add(-9 * time.Hour), Until: now.Add(-8 * time.Hour), Ended: plan.Started, Spans: []plan.WaitSpan{{From: now.Add(-9 * time.Hour), Cause: plan.Starting}}},
	})
	v.Failures = []retry.Failure{{
		Number: 1, Job: id, User: hostileName, Start: now.Add(-time.Hour), End: now.Add(-time.Minute), Nodes: []string{"n1", "n2"}, Fault: []string{"n1"}, Final: "FAILED", ExitCode: 1, Signal: 9, Class: "node",
		Means: "the node is broken", Rule: "xid", Line: hostileName, Advice: "try again", Do: retry.Elsewhere, Why: retry.ByClass, Wait: time.Minute, State: retry.Delayed, Message: "no", Exclude: "n1", At: now,
	}}
	return v
}

// All that the text can say follows from the JSON, and all of it is as the schema says.
func TestJSONSaysAllThatTheTextSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // for "ago"
		now := time.Now()
		for name, change := range map[string]func(*Explanation){
			"all":                func(*Explanation) {},
			"without Slurm":      func(v *Explanation) { v.Now = nil },
			"without factors":    func(v *Explanation) { v.Now.Factors = nil },
			"left":               func(v *Explanation) { v.Now, v.Job.Left = nil, now },
			"undecided":          func(v *Explanation) { v.Decision, v.Decisions, v.Writes = nil, nil, nil },
			"TE":                 func(v *Explanation) { v.TEPlace, v.Decision.Class = 2, cluster.TE },
			"mode priority":      func(v *Explanation) { v.Cycle.Mode = slurmplug.Lever("Priority") },
			"left alone":         func(v *Explanation) { v.Decision.Ranked, v.Stays[0].Closed = false, false },
			"run time uncertain": func(v *Explanation) { v.RunTime.Scored = 0 },
			"speeds not known":   func(v *Explanation) { v.Speeds.Speeds[0].Source, v.Speeds.Speeds[1].Source = speed.None, speed.None },
			"may not be steered": func(v *Explanation) { v.Decision.Steer, v.MaySteer = "", false },
			"component":          func(v *Explanation) { v.Job.ID.Task, v.Job.HetLeader, v.Job.HetOffset = slurmplug.NoTask, 83, 1 },
			"bare":               func(v *Explanation) { *v = Explanation{}; v.Job.ID = slurmplug.Plain(1) },
		} {
			v := whole(now)
			change(v)
			v.date()
			if text := printed(t, v); strings.ContainsAny(text, "\x1b\u202e") {
				t.Errorf("%s: text of users came through: %q", name, text)
			}
		}
	})
}
