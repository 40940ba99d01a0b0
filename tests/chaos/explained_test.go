package chaos

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// What priod said of a job that waits, shortened: bound to v100 and to two switches, with more
// CPUs than it asked for.
const explainedJob = `{
 "job": {"job": "82", "state": "pending", "partition": "gpu", "qos": "normal", "features": "v100", "nice": 0, "restarts": 0},
 "decision": {"class": "te", "ranked": true, "value": 5000, "why": "te", "choices": {"gpu_type": {"why": "starts", "gpu_type": "v100"}, "switches": {"accepts": 1}}},
 "writes": [
  {"lever": "Size", "after": "MinCPUsNode=4 MinMemoryNode=2048 ReqNodeList=", "status": "applied"},
  {"lever": "Switches", "after": "1@5:00", "status": "applied"},
  {"lever": "Features", "after": "v100", "status": "applied"},
  {"lever": "SiteFactor", "after": "5000", "status": "applied"},
  {"lever": "SiteFactor", "after": "7", "status": "applied"}
 ],
 "own_request": {"Features": "", "Size": "MinCPUsNode=1 ReqNodeList="},
 "waits": [{"submit": "2026-11-22T12:00:00Z", "until": "2026-11-22T12:00:30Z", "ended": "", "spans": [{"wait_s": 10, "cause": "limit"}, {"wait_s": 20, "cause": "capacity"}]}]
}`

func TestExplained(t *testing.T) {
	own := func(x *Explanation, lever slurmplug.Lever, value string) { x.Own[lever] = value }
	for name, c := range map[string]struct {
		change func(*Run, *Seen, *Explanation)
		wrong  string // "": nothing
	}{
		"as it is":           {func(*Run, *Seen, *Explanation) {}, ""},
		"another state":      {func(_ *Run, _ *Seen, x *Explanation) { x.Job.State = "running" }, "its state"},
		"another partition":  {func(_ *Run, s *Seen, _ *Explanation) { s.Partition = "interactive" }, "its partition"},
		"another constraint": {func(_ *Run, _ *Seen, x *Explanation) { x.Job.Features = "" }, "its constraint"},
		"another Nice":       {func(_ *Run, s *Seen, _ *Explanation) { s.Nice = "7" }, "its Nice"},
		"a restart":          {func(_ *Run, s *Seen, _ *Explanation) { s.Restarts = 1 }, "number of restarts"},
		"no decision":        {func(_ *Run, _ *Seen, x *Explanation) { x.Decision = nil }, "no decision"},
		"BE by its tag":      {func(_ *Run, s *Seen, _ *Explanation) { s.Comment = "prio:type=be&v=1 mine" }, "counts as te"},
		"TE counts as BE":    {func(_ *Run, _ *Seen, x *Explanation) { x.Decision.Class, x.Decision.Why = cluster.BE, "be" }, "counts as be"},
		"above its budget": {func(_ *Run, _ *Seen, x *Explanation) {
			x.Decision.Class, x.Decision.Why = cluster.BE, string(plan.OverBudget)
		}, ""},
		"TE by its QOS": {func(_ *Run, s *Seen, x *Explanation) { s.Comment, s.QOS, x.Job.QOS = "mine", "te", "te" }, ""},
		"held, and unnoticed": {func(_ *Run, s *Seen, x *Explanation) {
			s.Reason, x.Waits[0].Spans[1].Cause = "JobHeldUser", plan.HeldBack
		}, "it is decided about"},
		"held, of the class te": {func(_ *Run, s *Seen, x *Explanation) {
			s.Reason, x.Waits[0].Spans[1].Cause = "JobHeldUser", plan.HeldBack
			x.Decision.Class, x.Decision.Why, x.Decision.Ranked = cluster.BE, "held", false
		}, ""},
		"another value":       {func(_ *Run, _ *Seen, x *Explanation) { x.Decision.Value = 6000 }, "to have the value 6000"},
		"a value not written": {func(_ *Run, _ *Seen, x *Explanation) { x.Decision.Value, x.Decision.Unmoved = 6000, "limit" }, ""},
		"another write":       {func(_ *Run, _ *Seen, x *Explanation) { x.Writes[3].After = slurmplug.Text("6000") }, "SiteFactor=6000 was written last"},
		"its user's type": {func(r *Run, s *Seen, x *Explanation) {
			r.Done = append(r.Done, Done{Turn: Turn{Job: 2, Do: "Features"}, From: sec(20), Until: sec(20)})
			s.Features, x.Job.Features, x.Decision.Choices.GPUType = "", "", nil
		}, ""},
		"no type that was written": {func(r *Run, s *Seen, x *Explanation) {
			s.Features, x.Job.Features, x.Decision.Choices.GPUType = "", "", nil
		}, "Features=v100 was written last"},
		"another type, written into another task": {func(_ *Run, s *Seen, x *Explanation) {
			s.Shown = "82_[1-3]"
			task := x.Writes[2]
			task.Part, task.Tasks, task.After = true, "0", slurmplug.Text("a100")
			x.Writes = slices.Insert(x.Writes, 2, task)
		}, ""},
		"another type, written into its task": {func(_ *Run, s *Seen, x *Explanation) {
			s.Shown = "82_[1-3]"
			task := x.Writes[2]
			task.Part, task.Tasks, task.After = true, "1", slurmplug.Text("a100")
			x.Writes = slices.Insert(x.Writes, 2, task)
		}, "Features=a100 was written last"},
		"a write without an answer": {func(_ *Run, _ *Seen, x *Explanation) {
			x.Writes[3].After, x.Writes[3].Status = slurmplug.Text("6000"), slurmplug.Unknown
		}, ""},
		"other CPUs":                     {func(_ *Run, s *Seen, _ *Explanation) { s.MinCPUs = "2" }, "MinCPUsNode=4 was written last"},
		"other memory":                   {func(_ *Run, s *Seen, _ *Explanation) { s.Mem = "3G" }, "MinMemoryNode=2048 was written last"},
		"any number of switches":         {func(_ *Run, s *Seen, _ *Explanation) { s.Switches = "0@0:00" }, "switches"},
		"another type":                   {func(_ *Run, _ *Seen, x *Explanation) { x.Decision.Choices.GPUType.GPUType = "a100" }, "bound to a100"},
		"bound by nobody":                {func(_ *Run, _ *Seen, x *Explanation) { delete(x.Own, slurmplug.Features) }, "its user for"},
		"bound, and its user's is wrong": {func(r *Run, _ *Seen, _ *Explanation) { r.Jobs[2].Options = []string{"--constraint=a100|v100"} }, "its user for"},
		"bound, of its user's": {func(r *Run, _ *Seen, x *Explanation) {
			r.Jobs[2].Options = []string{"--constraint=a100|v100"}
			own(x, slurmplug.Features, "a100|v100")
		}, ""},
		"nodes of nobody": {func(_ *Run, s *Seen, x *Explanation) {
			s.ReqNodes, x.Writes = "v100-1", nil
			delete(x.Own, slurmplug.Size)
		}, "it has to run on v100-1"},
		"nodes of a claim": {func(_ *Run, s *Seen, x *Explanation) {
			s.ReqNodes, x.Writes = "v100-1", nil
			own(x, slurmplug.ReqNodeList, "")
		}, ""},
		"refuses a node for nobody": {func(_ *Run, s *Seen, _ *Explanation) { s.ExcNodes = "v100-2" }, "it refuses v100-2"},
		"refuses a node":            {func(_ *Run, s *Seen, x *Explanation) { s.ExcNodes = "v100-2"; own(x, slurmplug.ExcNodeList, "") }, ""},
		"refuses other nodes": {func(_ *Run, _ *Seen, x *Explanation) {
			x.Decision.Choices.Refused = &plan.RefusedNodes{Nodes: "v100-2"}
		}, "it refuses v100-2"},
		"no wait":                     {func(_ *Run, _ *Seen, x *Explanation) { x.Waits = nil }, "why it waits"},
		"a wait that is over":         {func(_ *Run, _ *Seen, x *Explanation) { x.Waits[0].Ended = "started" }, "its wait has ended"},
		"causes that do not sum":      {func(_ *Run, _ *Seen, x *Explanation) { x.Waits[0].Spans[0].Wait = 11 }, "sum to 31"},
		"a wait from another time on": {func(_ *Run, s *Seen, _ *Explanation) { s.Submit = s.Submit.Add(-time.Minute) }, "it waits since"},
		"Slurm gives another reason":  {func(_ *Run, s *Seen, _ *Explanation) { s.Reason = "BeginTime" }, "it waits for capacity"},
		"Slurm's reason, of an array": {func(_ *Run, s *Seen, _ *Explanation) { s.Reason = "JobArrayTaskLimit" }, "it waits for capacity"},
		"a job of somebody else's":    {func(_ *Run, s *Seen, _ *Explanation) { s.Shown, s.Nice = "99", "7" }, ""},
		"a constraint that he set again": {func(r *Run, _ *Seen, x *Explanation) {
			delete(x.Own, slurmplug.Features)
			features(r, 0, 30, "v100")
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Features", Value: "v100"}, From: sec(10), Until: sec(10)}}
		}, ""},
	} {
		r, x, factor := sound(), &Explanation{}, int64(5000)
		if err := json.Unmarshal([]byte(explainedJob), x); err != nil {
			t.Fatal(err)
		}
		submit, _ := time.Parse(time.RFC3339, "2026-11-22T12:00:00Z")
		s := &Seen{ID: "82", Shown: "82", State: "PENDING", Reason: "Resources", Nice: "0", Features: "v100", MinCPUs: "4", Mem: "2G", Partition: "gpu", QOS: "normal", Submit: submit, Comment: "prio:type=te&v=1 mine", Switches: "1@5:00"}
		c.change(r, s, x)
		var all []string
		for _, b := range r.Explained(s, &factor, x, sec(30)) {
			all = append(all, b.Why)
		}
		if text := strings.Join(all, "\n"); !strings.Contains(text, c.wrong) || (text == "") != (c.wrong == "") {
			t.Errorf("%s: %q, want %q", name, text, c.wrong)
		}
	}
}
