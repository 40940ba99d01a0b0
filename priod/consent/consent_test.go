package consent

import (
	"reflect"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var rules = Rules{
	Classes: []Class{
		{Name: "night", Type: "be", Match: Match{QOS: []string{"night"}}},
		{Name: "short", Type: "te", MaxTime: time.Hour, MaxGPUs: 4, Match: Match{Partitions: []string{"gpu", "old"}}},
		{Name: "shell", Type: "te", Interactive: true},
		{Name: "debug", Type: "te", JobName: regexp.MustCompile("^debug"), Match: Match{Accounts: []string{"vision"}}},
	},
	Tables: []Table{
		{Match: Match{Partitions: []string{"gpu"}}, Evict: true, Grace: time.Minute, Signal: "USR1", GPUType: true},
		{Match: Match{Accounts: []string{"vision"}}, Size: true, Switches: true, Requeue: true},
	},
}

func TestComplete(t *testing.T) {
	long := cluster.Job{Partition: "gpu", GPUs: 1, TimeLimit: 10 * time.Hour, QOS: "normal", Account: "bio"}
	for name, c := range map[string]struct {
		change                   func(*cluster.Job)
		kind, class              string
		evict, gpuType, size     bool
		signal, retry, consentBy string
	}{
		"long":                    {func(*cluster.Job) {}, "", "", true, true, false, "USR1", "", "partition gpu"},
		"short":                   {func(j *cluster.Job) { j.TimeLimit = time.Hour }, "te", "short", true, true, false, "USR1", "", "partition gpu"},
		"short, no limit":         {func(j *cluster.Job) { j.TimeLimit = slurmplug.Unlimited }, "", "", true, true, false, "USR1", "", "partition gpu"},
		"short, of many GPUs":     {func(j *cluster.Job) { j.TimeLimit, j.GPUs = time.Hour, 8 }, "", "", true, true, false, "USR1", "", "partition gpu"},
		"one partition not named": {func(j *cluster.Job) { j.TimeLimit, j.Partition = time.Hour, "gpu,cpu" }, "", "", false, false, false, "", "", ""},
		"first rule counts":       {func(j *cluster.Job) { j.TimeLimit, j.QOS = time.Hour, "normal,night" }, "be", "night", true, true, false, "USR1", "", "partition gpu"},
		"interactive":             {func(j *cluster.Job) { j.Interactive = true }, "te", "shell", false, true, false, "", "", "partition gpu"},
		"by name":                 {func(j *cluster.Job) { j.Name, j.Account, j.Partition = "debug-1", "vision", "x" }, "te", "debug", false, false, true, "", "infra", "account vision"},
		"tagged te":               {func(j *cluster.Job) { j.Tag.Type = "te" }, "te", "", false, true, false, "", "", "partition gpu"},
		"tagged be, own signal":   {func(j *cluster.Job) { j.Tag = jobtag.Tag{Type: "be", Signal: "USR2"} }, "be", "", false, true, false, "USR2", "", "partition gpu"},
		"opted out":               {func(j *cluster.Job) { j.Tag.Type = jobtag.None }, "none", "", false, false, false, "", "", ""},
		"bad tag":                 {func(j *cluster.Job) { j.TagErr = "tag: x" }, "", "", false, false, false, "", "", ""},
		"no GPUs":                 {func(j *cluster.Job) { j.GPUs = 0 }, "", "", false, false, false, "", "", ""},
	} {
		j := long
		c.change(&j)
		rules.Complete(&j)
		site := cluster.Site{}
		if j.Site != nil {
			site = *j.Site
		}
		if j.Tag.Type != c.kind || site.Class != c.class || site.Evict != c.evict || j.AllowsGPUType() != c.gpuType || j.AllowsSize() != c.size ||
			site.Evict && j.Signal() != c.signal || j.Tag.Retry != c.retry || site.Consent != c.consentBy {
			t.Errorf("%s: type %q by %q, %+v, signal %q, retry %q", name, j.Tag.Type, site.Class, site, j.Signal(), j.Tag.Retry)
		}
	}
}

// A job that a rule made TE leaves while it counts as BE, and not as TE; one that its user made TE never does.
func TestTEBeyondItsBudgetLeaves(t *testing.T) {
	job := cluster.Job{ID: slurmplug.Plain(7), Partition: "gpu", GPUs: 1, TimeLimit: time.Hour, State: cluster.Running}
	for _, c := range []struct {
		counted string
		tag     string
		evict   bool
	}{{"te", "", false}, {"be", "", true}, {"", "", false}, {"be", "te", false}} {
		h, s := cluster.NewHistory(), cluster.Snapshot{Jobs: []cluster.Job{job}}
		s.Jobs[0].Tag.Type = c.tag
		switch c.counted {
		case "te":
			h.Counted.Set(job.ID, cluster.TE)
		case "be":
			h.Counted.Set(job.ID, cluster.BE)
		}
		rules.Apply(&s, h)
		if site := s.Jobs[0].Site; site == nil || site.Evict != c.evict {
			t.Errorf("%+v: %+v", c, site)
		}
	}
}

// A site's rules never change what a tag says, never touch a job that opted out, and applied twice do no more than once.
func TestCompleteAddsAlone(t *testing.T) {
	word := func(_ string, of ...string) *rapid.Generator[string] { return rapid.SampledFrom(append(of, "")) }
	rapid.Check(t, func(t *rapid.T) {
		j := cluster.Job{
			Partition: word("", "gpu", "old", "gpu,old").Draw(t, "partition"), QOS: word("", "night").Draw(t, "qos"), Account: word("", "vision").Draw(t, "account"),
			Name: word("", "debug1").Draw(t, "name"), GPUs: rapid.IntRange(0, 8).Draw(t, "gpus"), TimeLimit: time.Duration(rapid.IntRange(1, 200).Draw(t, "limit")) * time.Minute,
			Interactive: rapid.Bool().Draw(t, "interactive"), Tag: jobtag.Tag{Type: word("", "te", "be", jobtag.None).Draw(t, "type"), Retry: word("", "never").Draw(t, "retry")},
		}
		before := j
		rules.Complete(&j)
		once := j
		rules.Complete(&j)
		if !reflect.DeepEqual(once, j) {
			t.Fatalf("again: %+v", j)
		}
		if before.Tag.Type != "" && j.Tag.Type != before.Tag.Type || before.Tag.Retry != "" && j.Tag.Retry != before.Tag.Retry {
			t.Fatalf("changed the tag: %+v", j.Tag)
		}
		if before.Tag.Type == jobtag.None && (j.Site != nil || j.AllowsGPUType() || j.AllowsSize() || j.AllowsWaiting()) {
			t.Fatalf("touches a job that opted out: %+v", j.Site)
		}
		if s := j.Site; s != nil && s.Evict && (before.Tag.Type == "te" || j.Interactive) {
			t.Fatalf("evicts %+v", j)
		}
		seen := cluster.Snapshot{Jobs: []cluster.Job{before}}
		rules.Apply(&seen, cluster.NewHistory())
		if s := seen.Jobs[0].Site; s != nil && s.Evict && seen.Jobs[0].Tag.Type == "te" {
			t.Fatalf("evicts %+v, which counts as TE", seen.Jobs[0])
		}
	})
}

func TestWords(t *testing.T) {
	for i, want := range []string{"BE: QOS night", "TE: partition gpu, old, time limit at most 1h0m0s, at most 4 GPUs", "TE: all jobs, srun and salloc", `TE: account vision, job names "^debug"`} {
		if got := rules.Classes[i].Words(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := rules.Tables[1].Words(); got != "account vision: CPUs and memory, few switches, requeue after failures of the machine" {
		t.Error(got)
	}
}
