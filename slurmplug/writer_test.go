package slurmplug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func site(job JobID, value int) Update {
	return Update{Job: job, Lever: SiteFactor, Value: SiteFactor.Value(fmt.Sprint(value))}
}

func TestValidate(t *testing.T) {
	job := Plain(7)
	for _, u := range []Update{
		site(job, 5), site(job, -maxOffset), site(job, maxOffset), site(JobID{7, 0}, 1),
		{Job: job, Lever: nice, Value: Number(-2147483645)},
		{Job: job, Tasks: "1-9:2,12", Lever: SiteFactor, Value: Number(1)},
		{Job: job, HetID: 7, HetOffset: 1, Lever: SiteFactor, Value: Number(1)},
		{Job: job, Lever: "Features", Value: Text("(a100|v100)&[x*2]")},
		{Job: job, Lever: "Features", Value: Value{}},
		{Job: job, Lever: "TimeLimit", Value: Text("2-03:04:05")},
		{Job: job, Lever: "Comment", Value: Text(strings.Repeat("x", 1024))},
	} {
		if err := u.Validate(); err != nil {
			t.Errorf("%+v: %v", u, err)
		}
	}
	for _, u := range []Update{
		{}, site(Plain(0), 1), site(JobID{7, -2}, 1), site(job, maxOffset+1), site(job, -maxOffset-1),
		{Job: job, Lever: SiteFactor, Value: Value{}},
		{Job: job, Lever: SiteFactor, Value: SiteFactor.Value("5 Priority=0")},
		{Job: job, Lever: SiteFactor, Value: SiteFactor.Value("+5")},
		{Job: job, Lever: SiteFactor, Value: SiteFactor.Value("05")},
		{Job: job, Lever: SiteFactor, Value: SiteFactor.Value("5\nupdate JobId=8 Nice=1")},
		{Job: job, Tasks: "1-3", HetID: 7, Lever: Features},
		{Job: JobID{7, 1}, Tasks: "1-3", Lever: Features},
		{Job: job, Tasks: "1-3]", Lever: Features}, // brackets are Target's
		{Job: job, Tasks: "1 2", Lever: Features},
		{Job: job, Tasks: "[1-3]", Lever: Features},
		{Job: job, Tasks: "1-3%2", Lever: Features},
		{Job: job, HetID: 7, HetOffset: -1, Lever: Features},
		{Job: job, Lever: "", Value: Text("x")},
		{Job: job, Lever: "JobId", Value: Text("8")},
		{Job: job, Lever: "jobname", Value: Text("x")},
		{Job: job, Lever: "UserID", Value: Text("0")},
		{Job: job, Lever: "Nice Priority", Value: Number(0)},
		{Job: job, Lever: "AdminComment+", Value: Text("x")},
		{Job: job, Lever: "Features=x", Value: Text("y")},
		{Job: job, Lever: "Comment", Value: Text("two words")},
		{Job: job, Lever: "Comment", Value: Text("tab\t")},
		{Job: job, Lever: "Comment", Value: Text("'x'")},
		{Job: job, Lever: "Comment", Value: Text("!!")},
		{Job: job, Lever: "Comment", Value: Text("\x1b[2J")},
		{Job: job, Lever: "Comment", Value: Text("é")},
		{Job: job, Lever: "Comment", Value: Text(strings.Repeat("x", 1025))},
	} {
		if err := u.Validate(); err == nil {
			t.Errorf("%+v is let through", u)
		}
	}
}

// genUpdates draws updates of plain jobs, tasks and unsplit arrays, each
// record once for each lever.
func genUpdates(t *rapid.T) []Update {
	var updates []Update
	for id := range uint32(rapid.IntRange(0, 40).Draw(t, "jobs")) {
		value := func() string { return fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "value")) }
		lever := rapid.SampledFrom([]Lever{SiteFactor, nice, "Features"}).Draw(t, "lever")
		if rapid.Bool().Draw(t, "plain") {
			updates = append(updates, Update{Job: Plain(id + 1), Lever: lever, Value: lever.Value(value())})
			continue
		}
		from := rapid.IntRange(0, 5).Draw(t, "split")
		for task := range from {
			updates = append(updates, Update{Job: JobID{id + 1, int32(task)}, Lever: lever, Value: lever.Value(value())})
		}
		if rapid.Bool().Draw(t, "unsplit") {
			updates = append(updates, Update{Job: Plain(id + 1), Tasks: fmt.Sprintf("%d-%d:2", from, from+6), Lever: lever, Value: lever.Value(value())})
		}
	}
	return rapid.Permutation(updates).Draw(t, "order")
}

// fakeScontrol carries out what scontrol is told, in its own words: a map from
// "lever job task" to value.
type fakeScontrol struct {
	wrote map[string]string
	calls int
}

func (f *fakeScontrol) run(cmd Command) (Output, error) {
	if cmd.Name == "sdiag" {
		return Output{Stdout: []byte(quietDiag)}, nil
	}
	f.calls++
	text := strings.Join(cmd.Args, " ")
	if cmd.Stdin != nil {
		text = string(cmd.Stdin)
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		fmt.Fprintln(&out, "scontrol: "+line)
		rest, ok := strings.CutPrefix(line, "update JobId=")
		list, assignment, ok2 := strings.Cut(rest, " ")
		lever, value, ok3 := strings.Cut(assignment, "=")
		if !ok || !ok2 || !ok3 || len(line) > maxLine+1000 {
			return Output{}, fmt.Errorf("scontrol would not understand %q", line)
		}
		for more := true; more; {
			var item string
			item, list, more = cutList(list)
			job, tasks, isArray := strings.Cut(item, "_")
			all := []int32{NoTask}
			if isArray {
				var err error
				if all, err = ExpandTasks(tasks); err != nil {
					return Output{}, err
				}
			}
			for _, task := range all {
				key := fmt.Sprint(lever, " ", job, " ", task)
				if _, twice := f.wrote[key]; twice {
					return Output{}, fmt.Errorf("%s twice", key)
				}
				f.wrote[key] = value
			}
		}
	}
	if cmd.Stdin == nil {
		return Output{}, nil
	}
	return Output{Stdout: []byte(out.String() + "scontrol: \n")}, nil
}

const quietDiag = "Server thread count: 3\nAgent queue size: 0\nDBD Agent queue size: 0\nRemote Procedure Call statistics by user\n"

func TestEveryUpdateIsSentOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		updates := genUpdates(t)
		scontrol := &fakeScontrol{wrote: map[string]string{}}
		limit := rapid.IntRange(1, 50).Draw(t, "burst")
		c := NewClient(runnerFunc(scontrol.run), Options{Burst: limit, WritesPerSecond: 1e9})
		results := c.Update(context.Background(), updates)
		want := map[string]string{}
		for i, r := range results {
			if r.Update != updates[i] || r.Status != Applied {
				t.Fatalf("%+v: %s %s", r.Update, r.Status, r.Message)
			}
			tasks := tasksOf(&r.Update)
			if tasks == nil {
				tasks = []int32{NoTask}
			}
			for _, task := range tasks {
				want[fmt.Sprint(r.Lever, " ", r.Job.ID, " ", task)] = r.Value.String()
			}
		}
		if len(want) != len(scontrol.wrote) {
			t.Fatalf("%d records written, want %d", len(scontrol.wrote), len(want))
		}
		for key, value := range want {
			if scontrol.wrote[key] != value {
				t.Fatalf("%s: %q, want %q", key, scontrol.wrote[key], value)
			}
		}
	})
}

func TestGrouping(t *testing.T) {
	var got []string
	c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
		if cmd.Name == "scontrol" {
			got = append(got, strings.Join(cmd.Args, " ")+string(cmd.Stdin))
		}
		return Output{Stdout: []byte(quietDiag)}, nil
	}), Options{})
	send := func(updates ...Update) string {
		got = nil
		c.Update(t.Context(), updates)
		return strings.Join(got, "|")
	}
	as := func(uid string, job uint32, cpus int) Update {
		return Update{Job: Plain(job), Lever: Size, Value: Size.Value(fmt.Sprintf("NumCPUs=%d", cpus)), As: uid}
	}
	size := func(job JobID) Update { return Update{Job: job, Lever: Size, Value: Size.Value("NumCPUs=2")} }
	pin := func(job JobID) Update { return Update{Job: job, Lever: ReqNodeList} }
	const one, two = "s4C5M81FV4NT00", "s4C5M81FV4NT01"
	of := func(sluid string, u Update) Update {
		u.SLUID = sluid
		return u
	}
	tasks := func(list string, value int) Update {
		u := site(Plain(9), value)
		u.Tasks = list
		return u
	}
	for _, c := range []struct{ got, want string }{
		{send(), ""},
		{send(site(Plain(1), 5), site(Plain(2), 5)), "update JobId=1,2 SiteFactor=5"},
		{send(site(Plain(1), 5), site(Plain(2), 6), site(Plain(3), 5)), "update JobId=1,3 SiteFactor=5\nupdate JobId=2 SiteFactor=6\n"},
		{send(site(JobID{9, 3}, 5), site(JobID{9, 1}, 5), tasks("4-6,8", 5)), "update JobId=9_[1,3-6,8] SiteFactor=5"},
		{send(site(JobID{9, 3}, 5), tasks("4-8:2", 6)), "update JobId=9_3 SiteFactor=5\nupdate JobId=9_[4,6,8] SiteFactor=6\n"},
		{send(Update{Job: Plain(12), HetID: 11, HetOffset: 1, Lever: nice, Value: Number(3)}), "update JobId=11+1 Nice=3"},
		{send(as("5", 1, 4), as("", 2, 4), as("5", 3, 4)), "--uid=5update JobId=1 NumCPUs=4\nupdate JobId=3 NumCPUs=4\n|update JobId=2 NumCPUs=4"},
		{send(as("5", 1, 4), as("0", 2, 5)), "--uid=5 update JobId=1 NumCPUs=4|--uid=0 update JobId=2 NumCPUs=5"},
		{send(size(JobID{9, 3}), size(JobID{9, 1}), size(Plain(4))), "update JobId=9_3 NumCPUs=2\nupdate JobId=9_1 NumCPUs=2\nupdate JobId=4 NumCPUs=2\n"},
		{send(pin(Plain(1)), pin(Plain(2)), pin(JobID{9, 1}), pin(JobID{9, 2})), "update JobId=1 ReqNodeList=\nupdate JobId=2 ReqNodeList=\nupdate JobId=9_1 ReqNodeList=\nupdate JobId=9_2 ReqNodeList=\n"},
		{send(of(one, site(Plain(1), 5)), of(two, site(Plain(2), 5))), "update JobId=" + one + "," + two + " SiteFactor=5"},
		{send(of(one, site(JobID{9, 3}, 5)), of(two, site(JobID{9, 4}, 6))), "update JobId=" + one + " SiteFactor=5\nupdate JobId=" + two + " SiteFactor=6\n"},
		{send(of(one, site(JobID{9, 3}, 5)), of(two, site(JobID{9, 4}, 5))), "update JobId=9_[3-4] SiteFactor=5"},
		{send(of(one, Update{Job: JobID{9, 3}, Lever: Features}), of(two, Update{Job: JobID{9, 4}, Lever: Features})), "update JobId=" + one + "," + two + " Features="},
		{send(of(one, tasks("4-6,8", 5))), "update JobId=9_[4-6,8] SiteFactor=5"},
		{send(of(one, pin(JobID{9, 1})), pin(JobID{9, 2})), "update JobId=" + one + " ReqNodeList=\nupdate JobId=9_2 ReqNodeList=\n"},
		{send(of("s1 Nice=5", site(Plain(1), 5)), of("17", site(Plain(1), 5)), of("s1\nrelease 5", site(Plain(2), 5))), ""},
		{send(as("games", 1, 4), as("-1", 2, 5), as("4294967294", 3, 5)), ""}, // scontrol looks names up, and takes NO_VAL for none
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestLongLists(t *testing.T) {
	const n = 60_000
	updates := make([]Update, n)
	for i := range updates {
		updates[i] = site(Plain(uint32(4_000_000_000+i)), 5) // more than one line's worth
	}
	var sparse []int32
	for i := range int32(50_000) {
		sparse = append(sparse, 2*i)
	}
	updates = append(updates, Update{Job: Plain(5), Tasks: CompactTasks(sparse), Lever: SiteFactor, Value: Number(5)}) // longer than an argument
	scontrol := &fakeScontrol{wrote: map[string]string{}}
	c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
		for _, a := range cmd.Args {
			if len(a) >= 128*1024 {
				t.Errorf("an argument of %d bytes", len(a))
			}
		}
		if len(cmd.Stdin) > 0 && len(cmd.Stdin) < maxLine {
			return scontrol.run(cmd)
		}
		if len(cmd.Stdin) > 0 { // the one long list
			return Output{Stdout: []byte("scontrol: \r<,99998] SiteFactor=5\nscontrol: \n")}, nil
		}
		return scontrol.run(cmd)
	}), Options{WritesPerSecond: 1e9})
	for _, r := range c.Update(t.Context(), updates) {
		if r.Status != Applied {
			t.Fatalf("%s: %s %s", r.Job, r.Status, r.Message)
		}
	}
	if len(scontrol.wrote) != n || scontrol.calls > n/maxSession+2 {
		t.Errorf("%d written in %d calls", len(scontrol.wrote), scontrol.calls)
	}
}

// What a real scontrol answered (testdata/record.sh), replayed.
func TestRecordedReplies(t *testing.T) { eachVersion(t, testRecordedReplies) }

func testRecordedReplies(t *testing.T, version string) {
	for name, want := range map[string][]string{
		"update-list":    {"applied", "raced Invalid job id specified", "applied"},
		"update-array":   {"applied", "raced Invalid job id specified", "raced Invalid job id specified"},
		"update-lines":   {"applied", "raced Invalid job id specified", "applied", "raced Invalid job id specified", "applied", "applied", "applied", "raced Invalid job id specified"},
		"update-held":    {"raced Job is in held state, pending scheduler release", "applied"},
		"update-feature": {"refused Invalid feature specification", "applied"},
		"update-field":   {"refused Update of this parameter is not supported: NoSuchField=x; Request aborted", "refused Update of this parameter is not supported: NoSuchField=y; Request aborted"},
		"update-down":    {"unknown Unexpected message received", "unknown Unexpected message received"},
		"update-begun":   {"applied tasks 0-1: Job is no longer pending execution"},
	} {
		in, out := recordingOf(t, version, name+".in"), recordingOf(t, version, name+".out")
		updates := updatesIn(t, in)
		c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
			if cmd.Name == "sdiag" {
				return Output{Stdout: []byte(quietDiag)}, nil
			}
			if sent := strings.Join(cmd.Args, " ") + string(cmd.Stdin); sent != in {
				t.Errorf("%s: sent %q, recorded %q", name, sent, in)
			}
			return Output{Stdout: []byte(out)}, &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1}
		}), Options{Abilities: &Abilities{ArrayUnique: version == "22.05"}})
		var got []string
		for _, r := range c.Update(t.Context(), updates) {
			got = append(got, strings.TrimSpace(string(r.Status)+" "+r.Message))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// updatesIn reads the updates that a recorded scontrol was given; list items
// that differ in their outcome stand alone.
func updatesIn(t *testing.T, in string) []Update {
	var updates []Update
	for line := range strings.Lines(in) {
		line = strings.TrimSpace(line)
		lever, value, list := Lever(""), "", line
		if rest, ok := strings.CutPrefix(line, "update JobId="); ok {
			var assignment string
			list, assignment, _ = strings.Cut(rest, " ")
			name, v, _ := strings.Cut(assignment, "=")
			lever, value = Lever(name), v
		}
		for more := true; more; {
			var item string
			item, list, more = cutList(list)
			u := Update{Lever: lever, Value: lever.Value(value)}
			job, tasks, isArray := strings.Cut(item, "_")
			job, offset, isHet := strings.Cut(job, "+")
			id, err := ParseJobID(job)
			if err != nil {
				t.Fatal(err)
			}
			u.Job = id
			if isHet {
				fmt.Sscan(offset, &u.HetOffset)
				u.HetID = id.ID
			}
			if !isArray {
				updates = append(updates, u)
				continue
			}
			all, err := ExpandTasks(tasks)
			if err != nil {
				t.Fatal(err)
			}
			var even, odd []int32 // the recorded arrays have even tasks
			for _, task := range all {
				if lever != Features && (task%2 == 1 || task >= 98) {
					odd = append(odd, task)
				} else {
					even = append(even, task)
				}
			}
			if len(even) > 1 {
				u.Tasks = CompactTasks(even)
				updates = append(updates, u)
			} else if len(even) == 1 {
				updates = append(updates, Update{Job: JobID{u.Job.ID, even[0]}, Lever: lever, Value: lever.Value(value)})
			}
			for _, task := range odd {
				updates = append(updates, Update{Job: JobID{u.Job.ID, task}, Lever: lever, Value: lever.Value(value)})
			}
		}
	}
	return updates
}

func TestArrayReplies(t *testing.T) {
	array := func(list string) Update {
		return Update{Job: Plain(50), Tasks: list, Lever: SiteFactor, Value: Number(9)}
	}
	for name, c := range map[string]struct {
		updates []Update
		out     string
		want    []string
	}{
		"started meanwhile": {
			[]Update{array("0-5")}, "50_0-1: Job is no longer pending execution\n50_2-5: No error\n",
			[]string{"applied tasks 0-1: Job is no longer pending execution"},
		},
		"all started": {[]Update{array("0-5")}, "50_0-5: Job is no longer pending execution\n", []string{"raced Job is no longer pending execution"}},
		"one refused": {
			[]Update{array("0-5")}, "50_0-4: No error\n50_5: Access/permission denied\n", []string{"refused tasks 5: Access/permission denied"},
		},
		"each its own": {
			[]Update{site(JobID{50, 1}, 9), site(JobID{50, 2}, 9), array("4-6")}, "50_1: Job has already finished\n50_2,4-6: No error\n",
			[]string{"raced Job has already finished", "applied", "applied"},
		},
		"one list cut off": {
			[]Update{array("0-60:2"), site(JobID{50, 99}, 9)}, "50_0,2,4,6,8,10,12,14,16,18,2...: No error\n50_99: Invalid job id specified\n",
			[]string{"applied", "raced Invalid job id specified"},
		},
		"two cut off, one meaning": {
			[]Update{array("0-60:2"), array("1-61:2")}, "50_0,2,4,6,8,10,12,14,16,18,2...: Job has already finished\n50_1,3,5,7,9,11,13,15,17,19,2...: Invalid job id specified\n",
			[]string{"raced Job has already finished", "raced tasks 0,2,4,6,8,10,12,14,16,18: Job has already finished; tasks 1,3,5,7,9,11,13,15,17,19: Invalid job id specified"},
		},
		"two cut off, two meanings": {
			[]Update{array("0-60:2"), site(JobID{50, 61}, 9)}, "50_0,2,4,6,8,10,12,14,16,18,2...: No error\n50_1,3,5,7,9,11,13,15,17,19,2...: Invalid job id specified\n",
			[]string{"unknown Slurm did not say what became of 21 tasks", "unknown Slurm did not say what became of 1 tasks"},
		},
		"the whole request": {[]Update{array("0-5")}, "Invalid user id for job 50_0-5\n", []string{"refused Invalid user id"}},
		"tried too early": {
			[]Update{array("0-5")}, "Job update not available right now, the DB index is being set, try again in a bit for job 50_0-5\n",
			[]string{"postponed Job update not available right now, the DB index is being set, try again in a bit"},
		},
		"a bare array": {[]Update{site(Plain(50), 9)}, "50_0-1: Job has already finished\n50_2: No error\n", []string{"applied tasks 0-1: Job has already finished"}},
		"only failures are named": {
			[]Update{array("0-5"), site(JobID{50, 9}, 9)}, "50_1: Job has already finished\n", []string{"applied tasks 1: Job has already finished", "applied"},
		},
		"in brackets": {
			[]Update{array("0-5"), site(JobID{50, 9}, 9)}, "50_[0-1,9]: Job has already finished\n",
			[]string{"applied tasks 0-1,9: Job has already finished", "raced Job has already finished"},
		},
		"the whole request in brackets": {[]Update{array("0-5")}, "Invalid user id for job 50_[0-5]\n", []string{"refused Invalid user id"}},
		"nothing said":                  {[]Update{site(Plain(50), 9)}, "", []string{"unknown scontrol: exit status 1"}},
		"a run that is over": {
			[]Update{{Job: Plain(7), SLUID: "s4C5M81FV4NT00", Lever: nice, Value: Number(1)}, {Job: Plain(8), SLUID: "s4C5M81FV4NT01", Lever: nice, Value: Number(1)}},
			"Invalid job id specified for job s4C5M81FV4NT00\n", []string{"raced Invalid job id specified", "applied"},
		},
		"nonsense":    {[]Update{site(Plain(50), 9)}, "scontrol: error: plugin trouble\n", []string{"unknown error: plugin trouble"}},
		"another job": {[]Update{site(Plain(50), 9)}, "Access/permission denied for job 51\n", []string{"unknown Access/permission denied for job 51"}},
	} {
		results := replayed(t, c.updates, c.out, &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1})
		for i, r := range results {
			if got := strings.TrimSpace(string(r.Status) + " " + r.Message); got != c.want[i] {
				t.Errorf("%s: %q, want %q", name, got, c.want[i])
			}
		}
	}
}

// Of a Slurm that names failed tasks only, nothing is sure of those that may stand in
// the rest of a list that it cut off.
func TestCutOffListOfFailures(t *testing.T) {
	array := Update{Job: Plain(50), Tasks: "0-80", Lever: SiteFactor, Value: Number(9)}
	c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
		if cmd.Name == "sdiag" {
			return Output{Stdout: []byte(quietDiag)}, nil
		}
		return Output{Stdout: []byte("50_1,5,9,13,17,21,25,29,33,37,...: Job has already finished\n")}, &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1}
	}), Options{Abilities: &Abilities{}})
	want := []Status{Unknown, Unknown, Applied, Raced}
	for i, r := range c.Update(t.Context(), []Update{array, site(JobID{50, 99}, 9), site(JobID{50, 3}, 9), site(JobID{50, 5}, 9)}) {
		if r.Status != want[i] {
			t.Errorf("%s: %s %s, want %s", r.Target(), r.Status, r.Message, want[i])
		}
	}
}

// replayed sends updates to a scontrol that gives one answer.
func replayed(t *testing.T, updates []Update, out string, err error) []Result {
	c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
		if cmd.Name == "sdiag" {
			return Output{Stdout: []byte(quietDiag)}, nil
		}
		return Output{Stdout: []byte(out)}, err
	}), Options{})
	return c.Update(t.Context(), updates)
}

func TestKilledInTheMiddle(t *testing.T) {
	updates := []Update{site(Plain(1), 1), site(Plain(2), 2), site(Plain(3), 3), site(Plain(4), 4)}
	echo := "scontrol: update JobId=1 SiteFactor=1\nAccess/permission denied for job 1\nscontrol: update JobId=2 SiteFactor=2\nscontrol: \r<pdate JobId=3 SiteFactor=3\n"
	for name, c := range map[string]struct {
		out  string
		err  error
		want string
	}{
		"timed out":       {echo, &CommandError{Command: "scontrol", Kind: ErrTimeout}, "refused applied unknown postponed"},
		"killed":          {echo, &CommandError{Command: "scontrol", Kind: ErrExit, Status: -1}, "refused applied unknown postponed"},
		"without an echo": {"", &CommandError{Command: "scontrol", Kind: ErrTimeout}, "unknown unknown unknown unknown"},
		"not found":       {"", &CommandError{Command: "scontrol", Kind: ErrNotFound}, "postponed postponed postponed postponed"},
		"fatal":           {"scontrol: fatal: Unable to process configuration file\n", &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1}, "unknown unknown unknown unknown"},
		"unknown user":    {"scontrol: error: --uid=\"54321\" invalid\n", nil, "refused refused refused refused"}, // seen on 22.05.8: exit status 0
		"to its end":      {echo + "scontrol: update JobId=4 SiteFactor=4\nscontrol: \n", &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1}, "refused applied applied applied"},
	} {
		var got []string
		for _, r := range replayed(t, updates, c.out, c.err) {
			got = append(got, string(r.Status))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
}

func TestWritingStops(t *testing.T) {
	var updates []Update
	for i := range uint32(2500) {
		updates = append(updates, site(Plain(i+1), int(i)))
	}
	diag := func(agent, dbd int) string {
		return fmt.Sprintf("Server thread count: 3\nAgent queue size: %d\nDBD Agent queue size: %d\nRemote Procedure Call statistics by user\n", agent, dbd)
	}
	for name, c := range map[string]struct {
		opts    Options
		run     func(call int, cmd Command) (Output, error)
		applied int
		message string
		cause   Cause
	}{
		"agent queue": {Options{WritesPerSecond: 1e9}, func(_ int, cmd Command) (Output, error) { return Output{Stdout: []byte(diag(201, 0))}, nil }, 0, "agent queue holds 201", ForAgentQueue},
		"queue to slurmdbd grows": {Options{WritesPerSecond: 1e9}, func(call int, cmd Command) (Output, error) {
			return Output{Stdout: []byte(diag(0, 4000*call))}, nil // the first call is sdiag's, then come sessions
		}, 2000, "slurmdbd holds", ForDBDQueue},
		"sdiag fails": {Options{}, func(int, Command) (Output, error) {
			return Output{}, &CommandError{Command: "sdiag", Kind: ErrExit, Status: 255, Message: "slurm_get_statistics: Unable to contact slurm controller (connect failure)"}
		}, 0, "Unable to contact", ForAnswer},
		"rate": {Options{WritesPerSecond: 1, Burst: 1000, MaxWait: time.Minute}, nil, 1000, "no more than 1 updates a second", ForPace},
		"slurmctld dies": {Options{WritesPerSecond: 1e9}, func(call int, cmd Command) (Output, error) {
			if cmd.Name == "scontrol" && call > 2 {
				return Output{}, &CommandError{Command: "scontrol", Kind: ErrTimeout}
			}
			return Output{Stdout: []byte(quietDiag)}, nil
		}, 500 * 2, "slurmctld did not answer", ForAnswer},
	} {
		call := -1
		if c.run == nil {
			c.run = func(int, Command) (Output, error) { return Output{Stdout: []byte(quietDiag)}, nil }
		}
		client := NewClient(runnerFunc(func(cmd Command) (Output, error) {
			call++
			return c.run(call, cmd)
		}), c.opts)
		counts := map[Status]int{}
		last := ""
		for _, r := range client.Update(t.Context(), updates) {
			counts[r.Status]++
			if r.Status == Postponed {
				last = r.Message
			}
		}
		if counts[Applied] != c.applied || !strings.Contains(last, c.message) || !strings.HasPrefix(last, "not sent: ") || CauseOf(last) != c.cause {
			t.Errorf("%s: %v, %q, %s", name, counts, last, CauseOf(last))
		}
	}
	if cause := CauseOf(laterTexts[0]); cause != ForJob {
		t.Errorf("Slurm's own word: %s", cause)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range NewClient(runnerFunc(nil), Options{}).Update(ctx, updates[:2]) {
		if r.Status != Postponed {
			t.Errorf("%+v", r)
		}
	}
}

func TestUpdatesThatAreNotSent(t *testing.T) {
	c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
		t.Errorf("%s %q was run", cmd.Name, cmd.Args)
		return Output{}, nil
	}), Options{})
	for _, r := range c.Update(t.Context(), []Update{{Job: Plain(1), Lever: SiteFactor, Value: SiteFactor.Value("x")}, {Job: Plain(0), Lever: Features}}) {
		if r.Status != Refused || r.Message == "" {
			t.Errorf("%+v", r)
		}
	}
	twice := replayed(t, []Update{site(Plain(1), 1), site(Plain(1), 2)}, "", nil)
	if twice[0].Status != Applied || twice[1].Status != Refused {
		t.Errorf("%+v", twice)
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPace(10, 20)
	if d := p.delay(20, now); d != 0 {
		t.Error(d)
	}
	p.take(20)
	if d := p.delay(5, now); d != 500*time.Millisecond {
		t.Error(d)
	}
	if d := p.delay(5, now.Add(time.Second)); d != 0 {
		t.Error(d)
	}
	p.take(5)
	if d := p.delay(1000, now.Add(time.Hour)); d != 0 { // more than the burst: when it is full
		t.Error(d)
	}
	p.take(1000)
	if d := p.delay(1, now.Add(time.Hour)); d != 98*time.Second+100*time.Millisecond {
		t.Error(d)
	}
}

func TestRateLimit(t *testing.T) {
	conf := func(version, params string) RateLimit {
		return Config{map[string]string{"SLURM_VERSION": version, "SlurmctldParameters": params, "SlurmUser": "slurm(64030)"}}.RateLimit()
	}
	exempt := os.Geteuid() == 0
	if l := conf("22.05.8", "rl_enable"); l.Enabled {
		t.Errorf("22.05: %+v", l)
	}
	if l := conf("24.11.5", "idle_on_node_suspend"); l.Enabled {
		t.Errorf("switched off: %+v", l)
	}
	if l, want := conf("24.11.5", "a,RL_ENABLE"), (RateLimit{true, exempt, 30, 2, time.Second}); l != want {
		t.Errorf("defaults: %+v", l)
	}
	l := conf("26.05.5", "rl_enable,rl_bucket_size=100,rl_refill_rate=50,rl_refill_period=10")
	if want := (RateLimit{true, exempt, 100, 50, 10 * time.Second}); l != want || !strings.Contains(l.String(), "100 requests at once and 50 more each 10s") {
		t.Errorf("%+v, %s", l, l)
	}
}

// However a process spends its budget, slurmctld's bucket never runs dry: that one is
// refilled at the end of each period (slurmctld/rate_limit.c).
func TestBudgetStaysBelowTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := RateLimit{
			Enabled: true, Bucket: rapid.IntRange(4, 200).Draw(t, "bucket"), Refill: rapid.IntRange(1, 300).Draw(t, "rate"),
			Period: time.Duration(rapid.IntRange(1, 60).Draw(t, "period")) * time.Second,
		}
		var b budget
		b.set(l)
		now := time.Unix(1_000_000, int64(rapid.IntRange(0, 999_999_999).Draw(t, "from")))
		tokens, last := l.Bucket, now.Unix()/int64(l.Period.Seconds())
		for range 300 {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
			n := rapid.IntRange(1, 3).Draw(t, "requests")
			now = now.Add(b.pace.delay(n, now))
			b.pace.delay(n, now)
			b.pace.take(n)
			period := now.Unix() / int64(l.Period.Seconds())
			tokens, last = min(l.Bucket, tokens+int(period-last)*l.Refill), period
			if tokens -= n; tokens < 0 {
				t.Fatalf("%d requests too many at %s of %+v", -tokens, now, l)
			}
		}
	})
}

// A read that slurmctld refuses for its rate is repeated, and a write is left for later.
func TestRefusedForTheRate(t *testing.T) {
	refused := &CommandError{Command: "squeue", Kind: ErrExit, Status: 1, Message: "slurm_load_jobs error: Rate limit exceeded, please retry later"}
	calls := 0
	c := NewClient(runnerFunc(func(Command) (Output, error) {
		if calls++; calls == 1 {
			return Output{}, refused
		}
		return Output{Stdout: []byte(quietDiag)}, nil
	}), Options{})
	if _, err := c.Diag(t.Context()); err != nil || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
	results := replayed(t, []Update{site(Plain(1), 9)}, "Rate limit exceeded, please retry momentarily for job 1\n", &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1})
	if r := results[0]; r.Status != Postponed {
		t.Errorf("%s %s", r.Status, r.Message)
	}
	if !errors.Is(refused, ErrRate) || errors.Is(refused, ErrController) {
		t.Error(refused)
	}
}

// What slurmctld refuses for no reason of the job's is sent again at once, and only that; where it goes on, it is left for later.
func TestRefusedForNothing(t *testing.T) {
	for stale, want := range map[int]string{0: "applied applied raced", 1: "applied applied raced", maxTries: "applied postponed raced"} {
		var sent []string
		c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
			if cmd.Name == "sdiag" {
				return Output{Stdout: []byte(quietDiag)}, nil
			}
			sent = append(sent, strings.Join(cmd.Args, " "))
			said := ""
			if len(sent) == 1 {
				said = "Job has already started for job 3\n"
			}
			if len(sent) <= stale {
				said += "Resource temporarily unavailable for job 2\n"
			}
			if said == "" {
				return Output{}, nil
			}
			return Output{Stdout: []byte(said)}, &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1}
		}), Options{})
		var got []string
		for _, r := range c.Update(t.Context(), []Update{
			{Job: Plain(1), Lever: PartitionList, Value: Text("a")}, {Job: Plain(2), Lever: PartitionList, Value: Text("a")}, {Job: Plain(3), Lever: PartitionList, Value: Text("a")},
		}) {
			got = append(got, string(r.Status))
		}
		again := slices.Repeat([]string{"update JobId=2 Partition=a"}, min(stale, maxTries-1))
		if all := append([]string{"update JobId=1,2,3 Partition=a"}, again...); strings.Join(got, " ") != want || !slices.Equal(sent, all) {
			t.Errorf("refused %d times: %s, sent %q", stale, got, sent)
		}
	}
}

// What there is no turn for under the rate limit is left, and the reason said; what
// comes first is sent first.
func TestWritesUnderTheRateLimit(t *testing.T) {
	c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
		return Output{Stdout: []byte(quietDiag)}, nil
	}), Options{MaxWait: time.Second})
	c.budget.set(RateLimit{Enabled: true, Bucket: 40, Refill: 1, Period: time.Minute})
	var updates []Update
	for i := range uint32(100) {
		updates = append(updates, site(Plain(i+1), int(i)))
	}
	results := c.Update(t.Context(), updates)
	sent := slices.IndexFunc(results, func(r Result) bool { return r.Status == Postponed })
	if sent < 10 || sent >= 40 {
		t.Errorf("%d sent", sent)
	}
	for _, r := range results[sent:] {
		if r.Status != Postponed || !strings.HasPrefix(r.Message, NotSent+"slurmctld's rate limit: an account may make 40 requests at once and 1 more each 1m") || CauseOf(r.Message) != ForRate {
			t.Fatalf("%s %s", r.Status, r.Message)
		}
	}
}

func FuzzReplies(f *testing.F) {
	for _, name := range []string{"update-list", "update-array", "update-lines", "update-sparse", "update-field", "update-down"} {
		f.Add(recording(f, name+".out"), true)
	}
	f.Fuzz(func(t *testing.T, out string, failed bool) {
		updates := []Update{site(Plain(1), 1), site(JobID{2, 3}, 1), {Job: Plain(4), Tasks: "1-9", Lever: SiteFactor, Value: Number(2)}}
		var err error
		if failed {
			err = &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1}
		}
		for i, r := range replayed(t, updates, out, err) {
			if r.Update != updates[i] || severity[r.Status] == 0 && r.Status != Raced {
				t.Fatalf("%+v", r)
			}
			if failed && out == "" && r.Status == Applied {
				t.Fatalf("%+v after a failure that nothing explains", r)
			}
		}
	})
}

// nice is a field without a rule of its own.
const nice Lever = "Nice"
