package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/tests/shim"
)

var t0 = time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)

func sec(n int) time.Time { return t0.Add(time.Duration(n) * time.Second) }

func log(lines ...string) (all []Event) {
	for _, l := range lines {
		f := strings.Fields(l)
		var s int
		fmt.Sscan(f[0], &s)
		all = append(all, Event{sec(s), f[1], f[2:]})
	}
	return all
}

// sound is a run in which nothing is wrong: job 80 was evicted once for 81, 81 is
// TE, 82 agreed to nothing.
func sound() *Run {
	r := &Run{Seed: 1, Begun: t0, Cap: 1, Budget: 20 * time.Second, Size: Size{Length: 100 * time.Second},
		Jobs: []Job{
			{Name: "be", Class: "be", Nodes: 1, GPUs: 2, Pieces: 2, Conduct: Leaves99, Signal: "B:USR1", After: -1},
			{Name: "te", Class: "te", Nodes: 1, GPUs: 1, Pieces: 1, Conduct: Ignores, After: -1},
			{Name: "no", Nodes: 1, GPUs: 1, Pieces: 1, Conduct: Ignores, After: -1},
		},
		IDs: []string{"80", "81", "82"},
		Logs: map[string][]Event{
			"be": log("1 start 0 0 a", "2 piece 1", "10 signal USR1 0", "10 saved 1", "10 exit 99", "20 start 1 1 a", "21 piece 2", "21 complete", "21 saved 2"),
			"te": log("11 start 0 0 a", "12 piece 1", "12 complete", "12 saved 1"),
			"no": log("30 start 0 0 a", "31 piece 1", "31 complete", "31 saved 1"),
		},
		Ran: map[string][]Ran{
			"80": {{sec(1), sec(10), "REQUEUED"}, {sec(20), sec(21), "COMPLETED"}},
			"81": {{sec(11), sec(12), "COMPLETED"}},
			"82": {{sec(30), sec(31), "COMPLETED"}},
		},
		Journal: []store.Eviction{{Victim: slurmplug.Plain(80), State: "done", How: "exited", Recorded: sec(9), Signalled: sec(10), Left: sec(10), Ended: sec(20)}},
		Words:   strings.Repeat("2026 [INFO]  priod: wrote\n", 20),
	}
	for i := range 40 {
		v := View{At: sec(i), Nodes: []Node{{Name: "a100-1", Up: true, GPUs: 4, Used: 4}, {Name: "v100-1", Up: true, GPUs: 4, Used: 4}}}
		if i < 30 {
			v.Queue = append(v.Queue, Seen{ID: "82", Shown: "82", State: "PENDING", Reason: "Resources", Priority: 5, Nice: "0", CPUs: "1", MinCPUs: "1", Submit: t0})
		}
		r.Views = append(r.Views, v)
	}
	r.Views = append(r.Views, View{At: sec(40)})
	for _, id := range r.IDs {
		r.Views[40].Queue = append(r.Views[40].Queue, Seen{ID: id, Shown: id, State: "COMPLETED"})
	}
	off := *r
	r.Off, r.Reset = &off, r.Views[25]
	r.Views = slices.Clone(r.Views)
	for i := range r.Views {
		r.Views[i].Queue = slices.Clone(r.Views[i].Queue)
		r.Views[i].Nodes = slices.Clone(r.Views[i].Nodes)
	}
	r.Reset.Queue = slices.Clone(r.Reset.Queue)
	return r
}

// features has the first of the queue wait with a constraint from one look to another.
func features(r *Run, from, until int, value string) {
	for i := from; i < until; i++ {
		r.Views[i].Queue[0].Features = value
	}
}

// teBound has a TE job wait, bound to a type, as a BE job starts.
func teBound(r *Run) {
	r.Jobs[2].Class = "te"
	r.Views[10].Queue = []Seen{{Shown: "80", State: "PENDING"}, {Shown: "82", State: "PENDING", Reason: "Priority", Features: "v100", Submit: t0}}
	r.Views[11].Queue = []Seen{{Shown: "80", State: "RUNNING", Nodes: "a100-1"}, {Shown: "82", State: "PENDING", Reason: "Priority", Features: "v100", Submit: t0}}
	features(r, 0, 10, "v100")
	features(r, 12, 30, "v100")
}

// noAnswerAt is priod's log of a write to a job for which scontrol gave no answer.
func noAnswerAt(at time.Time, job string) string {
	return at.UTC().Format(time.RFC3339Nano) + ` [WARN]  priod: not written: cycle=1 job=` + job + ` lever=SiteFactor before=0 after=10 why=te status=unknown message="scontrol: timed out"` + "\n"
}

// wroteAt is priod's log of a type that it gave job 82.
func wroteAt(at time.Time) string {
	return at.UTC().Format(time.RFC3339Nano) + ` [INFO]  priod: wrote: cycle=1 job=82 lever=Features before="" after=a100 why="steering: waits"` + "\n"
}

func TestSoundRunHasNoBreach(t *testing.T) {
	if all := Breaches(sound()); len(all) > 0 {
		t.Error(all)
	}
}

// Each rule sees what it is there for, and what a user did himself is none.
func TestRulesSeeBreaches(t *testing.T) {
	be := func(r *Run, lines ...string) { r.Logs["be"] = log(lines...) }
	for name, c := range map[string]struct {
		harm func(*Run)
		rule string // "": none
	}{
		"a victim is never requeued": {func(r *Run) { r.Views[40].Queue[0].State = "FAILED" }, "ends completed"},
		"cancelled by its user": {func(r *Run) {
			r.Views[40].Queue[2].State = "CANCELLED"
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "cancel"}}}
		}, ""},
		"cancelled by nobody": {func(r *Run) { r.Views[40].Queue[2].State = "CANCELLED" }, "ends completed"},
		"fails by its own fault": {func(r *Run) {
			r.Views[40].Queue[2].State = "FAILED"
			r.Logs["no"] = log("30 start 0 0 a", "31 piece 1", "31 failed")
		}, ""},
		"crashed, and did not agree to run again": {func(r *Run) {
			r.Views[40].Queue[2].State = "FAILED"
			r.Logs["no"] = log("30 start 0 0 a", "31 piece 1", "31 crashed 0")
		}, ""},
		"crashed, agreed, and does not run again": {func(r *Run) {
			r.Jobs[2].Retry, r.Views[40].Queue[2].State = "always", "FAILED"
			r.Logs["no"] = log("30 start 0 0 a", "31 piece 1", "31 crashed 0")
		}, "runs again who agreed"},
		"crashed before a poll saw it": {func(r *Run) {
			r.Jobs[2].Retry, r.Views[40].Queue[2].State = "always", "FAILED"
			r.Logs["no"] = log("30 start 0 0 a", "31 piece 1", "31 crashed 0")
			for i := range r.Views {
				if r.Views[i].At.Before(sec(29)) {
					r.Views[i].Queue = nil
				}
			}
		}, ""},
		"crashed, and runs again uninvited": {func(r *Run) {
			r.Logs["no"] = log("30 start 0 0 a", "31 crashed 0", "35 start 0 1 a", "36 piece 1", "36 complete", "36 saved 1")
		}, "runs again who agreed"},
		"crashed as it was told to leave, and runs again": {func(r *Run) {
			r.Logs["no"] = log("29 start 0 0 a", "31 crashed 0", "35 start 0 1 a", "36 piece 1", "36 complete", "36 saved 1")
			r.Journal = append(r.Journal, store.Eviction{Victim: slurmplug.Plain(82), Recorded: sec(30)})
		}, ""},
		"crashed in its second run, uninvited": {func(r *Run) {
			r.Logs["no"] = log("29 start 0 0 a", "31 start 0 1 a", "32 crashed 0", "35 start 0 2 a", "36 piece 1", "36 complete", "36 saved 1")
			r.Journal = append(r.Journal, store.Eviction{Victim: slurmplug.Plain(82), Recorded: sec(30)})
		}, "runs again who agreed"},
		"crashed, agreed, and runs again": {func(r *Run) {
			r.Jobs[2].Retry = "always"
			r.Logs["no"] = log("30 start 0 0 a", "31 crashed 0", "35 start 0 1 a", "36 piece 1", "36 complete", "36 saved 1")
		}, ""},
		"out of the queue and never seen again": {func(r *Run) { r.Views[40].Queue = r.Views[40].Queue[:2] }, "ends completed"},
		"leaves with 0 and is forgotten": {func(r *Run) {
			be(r, "1 start 0 0 a", "2 piece 1", "10 signal USR1 0", "10 saved 1", "10 exit 0")
			r.Ran["80"] = []Ran{{sec(1), sec(10), "COMPLETED"}}
		}, "all work done"},
		"begins anew": {func(r *Run) {
			be(r, "1 start 0 0 a", "2 piece 1", "10 signal USR1 0", "10 saved 1", "20 start 0 1 a", "20 piece 1", "21 piece 2", "21 complete")
		}, "goes on where it was"},
		"begins at what it has not done": {func(r *Run) {
			be(r, "1 start 0 0 a", "2 piece 1", "10 signal USR1 0", "10 saved 1", "20 start 2 1 a", "20 piece 2", "21 complete")
		}, "goes on where it was"},
		"killed between the save and its word": {func(r *Run) {
			be(r, "1 start 0 0 a", "2 piece 1", "10 signal USR1 0", "20 start 1 1 a", "21 piece 2", "21 complete", "21 saved 2")
		}, ""},
		"no consent":   {func(r *Run) { r.Jobs[0].Class = "" }, "consent"},
		"--no-requeue": {func(r *Run) { r.Jobs[0].NoRequeue = true }, "consent"},
		"requeued by its user": {func(r *Run) {
			r.Jobs[0].Class, r.Journal = "", nil
			r.Done = []Done{{Turn: Turn{Job: 0, Do: "requeue"}, From: sec(9), Until: sec(10)}}
		}, ""},
		"told after its tag was taken away": {func(r *Run) {
			r.Done = []Done{{Turn: Turn{Job: 0, Do: "Comment", Value: "mine"}, From: sec(1), Until: sec(2)}}
		}, "consent"},
		"beyond the cap": {func(r *Run) {
			r.Logs["be"] = slices.Insert(r.Logs["be"], 6, log("20 signal USR1 1")...)
			r.Journal = append(r.Journal, store.Eviction{Victim: slurmplug.Plain(80), Recorded: sec(19)})
		}, "cap"},
		"many signals": {func(r *Run) { r.Logs["be"] = slices.Insert(r.Logs["be"], 3, log("10 signal USR1 0")...) }, "one signal"},
		"left in vain": {func(r *Run) {
			r.Journal[0].ClaimReason, r.Journal[0].Room, r.Journal[0].ClaimEnded = "the place was free, and the job did not start in time", sec(10), sec(70)
		}, "no job leaves in vain"},
		"no row":              {func(r *Run) { r.Journal = nil }, "a row before the signal"},
		"the row comes later": {func(r *Run) { r.Journal[0].Recorded = sec(11) }, "a row before the signal"},
		"bad constraints":     {func(r *Run) { r.Views[3].Queue[0].Reason = "BadConstraints" }, "never held"},
		"held by an operator": {func(r *Run) { r.Views[3].Queue[0].Reason = "JobHeldAdmin" }, "never held"},
		"held by its user": {func(r *Run) {
			r.Views[3].Queue[0].Reason = "JobHeldUser"
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "hold"}, From: sec(1)}}
		}, ""},
		"a constraint there and back": {func(r *Run) { features(r, 3, 6, "a100") }, "no constraint written back"},
		"a constraint there":          {func(r *Run) { features(r, 3, 25, "a100") }, ""},
		"there and back by its user": {func(r *Run) {
			features(r, 3, 6, "a100")
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Features"}, From: sec(2)}}
		}, ""},
		"there and back by its nodes": {func(r *Run) {
			features(r, 3, 6, "a100")
			r.Views[5].Nodes = append(slices.Clone(r.Views[5].Nodes), Node{Name: "a100-9"})
		}, ""},
		"there and back by the reset": {func(r *Run) { r.Reset.At = sec(20); features(r, 3, 20, "a100"); features(r, 21, 30, "a100") }, ""},
		"first, bound, and room elsewhere": {func(r *Run) {
			for i := range 25 {
				r.Views[i].Queue[0].Features = "v100"
				r.Views[i].Nodes[0] = Node{Name: "a100-1", Up: true, GPUs: 4, FreeCPUs: 16, FreeMB: 60000}
			}
		}, "nobody waits with room for it"},
		"first, and room where it may not": {func(r *Run) {
			r.Jobs[2].Type = "v100"
			for i := range 25 {
				r.Views[i].Queue[0].ReqNodes = "v100-1"
				r.Views[i].Nodes[0] = Node{Name: "a100-1", Up: true, GPUs: 4, FreeCPUs: 16, FreeMB: 60000}
			}
		}, ""},
		"TE bound while BE starts": {teBound, "no TE job bound while a BE job starts"},
		"TE bound while BE starts, by the reset": {func(r *Run) {
			teBound(r)
			r.Reset.At = sec(10)
		}, ""},
		"TE bound while BE starts, and starts three seconds later": {func(r *Run) {
			teBound(r)
			r.Views[14].Queue[0].State = "RUNNING"
		}, ""},
		"TE bound while BE starts, an array of which a task starts, too": {func(r *Run) {
			teBound(r)
			for _, i := range []int{10, 11} {
				r.Views[i].Queue[1].Shown = "82_[0-1]"
			}
			r.Views[11].Queue = append(r.Views[11].Queue, Seen{Shown: "82_0", State: "RUNNING", Nodes: "v100-1", Start: sec(11)})
		}, ""},
		"TE bound while BE starts, an array of which a task runs": {func(r *Run) {
			teBound(r)
			for _, i := range []int{10, 11} {
				r.Views[i].Queue[1].Shown = "82_[0-1]"
			}
			r.Views[11].Queue = append(r.Views[11].Queue, Seen{Shown: "82_0", State: "RUNNING", Nodes: "v100-1", Start: sec(2)})
		}, "no TE job bound while a BE job starts"},
		"TE bound while BE starts, and starts ten seconds later": {func(r *Run) {
			teBound(r)
			r.Views[21].Queue[0].State = "RUNNING"
		}, "no TE job bound while a BE job starts"},
		"TE bound while BE starts, and long after a write without an answer": {func(r *Run) {
			teBound(r)
			r.Words += noAnswerAt(sec(2), "82")
		}, "no TE job bound while a BE job starts"},
		"TE bound while BE starts, and another job's write has no answer": {func(r *Run) {
			teBound(r)
			r.Words += noAnswerAt(sec(14), "80")
		}, "no TE job bound while a BE job starts"},
		"TE bound while BE starts, before its priority is written": {func(r *Run) {
			teBound(r)
			r.Words += noAnswerAt(sec(14), "82")
		}, ""},
		"reset leaves a type":       {func(r *Run) { r.Reset.Queue[0].Features = "a100" }, "reset leaves nothing"},
		"reset leaves a size":       {func(r *Run) { r.Reset.Queue[0].MinCPUs = "4" }, "reset leaves nothing"},
		"reset leaves switches":     {func(r *Run) { r.Reset.Queue[0].Switches = "1@1:00" }, "reset leaves nothing"},
		"reset leaves a priority":   {func(r *Run) { r.Left = []string{"SiteFactor 82 1000"} }, "reset leaves nothing"},
		"reset loses a user's Nice": {func(r *Run) { r.Done = []Done{{Turn: Turn{Job: 2, Do: "Nice", Value: "7"}}} }, "reset leaves nothing"},
		"a user's Nice": {func(r *Run) {
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Nice", Value: "7"}}}
			r.Reset.Queue[0].Nice = "7"
		}, ""},
		"reset loses a user's type": {func(r *Run) {
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Features", Value: "a100"}, From: sec(10), Until: sec(10)}}
			r.Words += wroteAt(sec(20))
		}, "reset leaves nothing"},
		"a type that stood there when its user set it": {func(r *Run) {
			features(r, 0, 30, "a100")
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Features", Value: "a100"}, From: sec(10), Until: sec(10)}}
		}, ""},
		"a type that priod had replaced a moment before its user set it": {func(r *Run) {
			features(r, 0, 5, "a100")
			features(r, 5, 30, "v100")
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Features", Value: "a100"}, From: sec(10), Until: sec(10)}}
		}, ""},
		"a type that priod had replaced long before its user set it": {func(r *Run) {
			r.Reset.At = sec(30)
			features(r, 0, 1, "a100")
			features(r, 1, 30, "v100")
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Features", Value: "a100"}, From: sec(29), Until: sec(29)}}
		}, "reset leaves nothing"},
		"a type that stood in the array when its user set it": {func(r *Run) {
			features(r, 0, 30, "a100")
			for i := range 30 {
				r.Views[i].Queue[0].Shown = "82_[0-2%2]"
			}
			r.Reset.Queue[0].Shown = "82_1"
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Features", Value: "a100"}, From: sec(10), Until: sec(10)}}
		}, ""},
		"a type that priod wrote over as its user set it": {func(r *Run) {
			r.Done = []Done{{Turn: Turn{Job: 2, Do: "Features", Value: "a100"}, From: sec(10), Until: sec(10)}}
			r.Words += wroteAt(sec(11))
		}, ""},
		"explain fails":        {func(r *Run) { r.Answers = []string{"explain 83+0"} }, "priod's verbs answer"},
		"an end that was none": {func(r *Run) { r.Journal[0].Left = sec(60) }, "evictions as accounting has them"},
		"a warning again and again": {func(r *Run) {
			for i := range 9 {
				r.Words += fmt.Sprintf("2026 [WARN]  priod: job %d is odd\n", i)
			}
		}, "no error repeats"},
		"a leak":                       {func(r *Run) { r.Grown = []string{"open files"} }, "nothing grows"},
		"TE waits longer than without": {func(r *Run) { r.Ran["81"] = []Ran{{sec(60), sec(61), "COMPLETED"}}; r.Off.Ran = sound().Ran }, "no longer than without priod"},
	} {
		r := sound()
		c.harm(r)
		rules := map[string]bool{}
		for _, b := range Breaches(r) {
			rules[b.Rule] = true
		}
		if len(rules) > 1 || (len(rules) == 1) != (c.rule != "") || c.rule != "" && !rules[c.rule] {
			t.Errorf("%s: want %q\n%v", name, c.rule, Breaches(r))
		}
	}
}

func TestFaultsAreAFunctionOfTheirSeed(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(40) {
		all := Faults(seed, small, 12, 6)
		again := Faults(seed, small, 12, 6)
		if len(all) != 18 || fmt.Sprint(all) != fmt.Sprint(again) {
			t.Fatalf("%d faults", len(all))
		}
		harms := 0
		for _, f := range all {
			if f.Command == nil {
				harms++
				seen[f.What] = true
				continue
			}
			name, _, _ := strings.Cut(f.Command.Command, " ")
			if !slices.Contains(shim.Commands, name) {
				t.Fatalf("the shim does not stand before %s", name)
			}
			seen[f.Command.Command] = true
			seen[f.Command.Do] = true
		}
		if harms != 6 {
			t.Fatalf("seed %d: %d harms", seed, harms)
		}
	}
	for _, all := range [][]string{harms, commands} {
		for _, f := range all {
			if !seen[f] {
				t.Errorf("never %s", f)
			}
		}
	}
}

// What squeue and scontrol print is read whole, whatever stands in a comment.
func TestParse(t *testing.T) {
	line := strings.Join([]string{"83", "80_3", "PENDING", "Resources", "17", "0", "a100|v100", "(null)", "", "4", "1", "1000M", "5:00", "gpu", "te", "", "N/A", "2026-11-22T12:00:00", "2", "", "", "1", "5:00", "prio:v=1 a|b=c Features=t4"}, sep) + sep + "\n"
	all, err := ParseQueue(line + line)
	if err != nil || len(all) != 2 || all[0].Shown != "80_3" || all[0].Features != "a100|v100" || all[0].Comment != "prio:v=1 a|b=c Features=t4" || all[1].Restarts != 2 || all[1].Switches != "1@5:00" || !all[0].Submit.Equal(t0) || !all[0].Start.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := ParseQueue("half a li"); err == nil {
		t.Error("half a line is read")
	}
	nodes := ParseNodes("NodeName=a100-1 CPUAlloc=3 CPUTot=16 RealMemory=65536 AllocMem=3000 State=MIXED CfgTRES=cpu=16,mem=64G,gres/gpu=4,gres/gpu:a100=4 AllocTRES=cpu=3,gres/gpu=1\n" +
		"NodeName=a100-2 CPUAlloc=0 CPUTot=16 RealMemory=65536 AllocMem=0 State=IDLE* CfgTRES=cpu=16,gres/gpu=4 AllocTRES=\n")
	want := []Node{{"a100-1", true, 4, 1, 13, 62536}, {"a100-2", false, 4, 0, 16, 65536}}
	if !slices.Equal(nodes, want) {
		t.Errorf("%+v", nodes)
	}
	if got := ParseLog("1.5 start 0 0 a\n2.5 piece 1\n3.5 pie"); len(got) != 2 || got[1].Number(0) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestTurns(t *testing.T) {
	size := small
	size.Jobs = 300
	jobs := Workload(1, size)
	held := map[int]bool{}
	for i, j := range jobs {
		held[i] = j.Held
	}
	kinds := map[string]bool{}
	for _, turn := range Turns(1, jobs, size) {
		kinds[turn.Do] = true
		switch {
		case turn.At < jobs[turn.Job].At:
			t.Errorf("%+v before its job came", turn)
		case turn.Do == "hold":
			held[turn.Job] = true
		case turn.Do == "release":
			held[turn.Job] = false
		}
	}
	for i, is := range held {
		if is {
			t.Errorf("%s stays held", jobs[i].Name)
		}
	}
	if len(kinds) != 11 {
		t.Errorf("%v", kinds)
	}
}

// GPUs that Slurm counts as in use by nobody.
func TestUnaccounted(t *testing.T) {
	r := sound()
	v := View{Nodes: []Node{{Name: "a100-1", GPUs: 4, Used: 4}, {Name: "v100-1", GPUs: 4, Used: 1}}, Queue: []Seen{{Shown: "80", State: "RUNNING"}, {Shown: "81", State: "COMPLETING"}, {Shown: "82", State: "PENDING"}}}
	if n := v.Unaccounted(r); n != 2 {
		t.Errorf("%d, want 5 - 2 - 1", n)
	}
}
