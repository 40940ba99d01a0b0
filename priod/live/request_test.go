package live

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// shows is a slurmctld with one waiting job, whose constraint it shows whatever is
// written.
type shows struct {
	state    string // "" for PENDING
	later    string // its state when scontrol shows it, after squeue has; "" for state
	nodes    string // of it, as scontrol shows them; "" for 1
	features string

	partitions, reason string // "" for none and Resources
	writes             []string
}

func (f *shows) Run(_ context.Context, c slurmplug.Command) (slurmplug.Output, error) {
	state := cmp.Or(f.state, "PENDING")
	if words := strings.Join(c.Args, " "); strings.Contains(words, "show job") {
		return slurmplug.Output{Stdout: []byte("JobId=7 JobName= UserId=ann(1000) JobState=" + cmp.Or(f.later, state) + " NumNodes=" + cmp.Or(f.nodes, "1") + " NumCPUs=3 NumTasks=1 CPUs/Task=3 MinCPUsNode=3 MinMemoryNode=64000M " +
			"ReqB:S:C:T=0:0:*:* Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* OverSubscribe=OK ReqNodeList=(null) ExcNodeList=(null) Command=x WorkDir=/ StdOut=/dev/null\n")}, nil
	}
	if slices.Equal(c.Args, []string{"show", "config"}) {
		return slurmplug.Output{Stdout: []byte("BOOT_TIME = 1762160000\nSLURM_VERSION = 24.11.5\nClusterName = c\nSlurmctldHost[0] = ctl1\n\nSlurmctld(primary) at ctl1 is UP\n")}, nil
	}
	if c.Name == "sdiag" {
		return slurmplug.Output{Stdout: []byte(idle)}, nil
	}
	if c.Name != "squeue" {
		f.writes = append(f.writes, string(c.Stdin))
		return slurmplug.Output{}, nil
	}
	values := map[string]string{
		"exit_code": "0", "requeue": "1", "BatchFlag": "1", "JobID": "7", "ArrayJobID": "7", "ArrayTaskID": "N/A", "HetJobID": "0", "HetJobOffset": "0",
		"UserID": "1000", "UserName": "ann", "State": state, "Reason": cmp.Or(f.reason, "Resources"), "Partition": f.partitions, "PriorityLong": "5", "Nice": "0", "RestartCnt": "0", "NumNodes": "1", "NumCPUs": "1",
		"NumTasks": "1", "Feature": f.features, "TimeLimit": "1:00:00", "SubmitTime": "1762164000", "EligibleTime": "1762164000",
		"StartTime": "N/A",
	}
	row := ""
	for column := range strings.SplitSeq(c.Args[len(c.Args)-1], ",") {
		name, separator, _ := strings.Cut(column, ":")
		row += values[name] + separator
	}
	return slurmplug.Output{Stdout: []byte(row + "\n")}, nil
}

// What a job shows after a write is the write, or somebody else's: a job_submit
// plugin's too. Then the user's own has to stay known, or the next write would be
// made from what stands there.
func TestConstraintIsReadBack(t *testing.T) {
	for shown, want := range map[string]slurmplug.Status{"ssd&a100": slurmplug.Applied, "ssd&a100&nvme": slurmplug.Unknown} {
		slurm := &shows{features: shown}
		a := plan.Action{Job: slurmplug.Plain(7), Lever: slurmplug.Features, Before: slurmplug.Text("ssd"), After: slurmplug.Text("ssd&a100"), Was: slurmplug.Text("ssd")}
		o := []plan.Outcome{{Action: a, Status: slurmplug.Applied}}
		New(slurmplug.NewClient(slurm, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}})).confirm(t.Context(), o)
		if o[0].Status != want || len(slurm.writes) != 0 {
			t.Errorf("%q: %+v, then %q", shown, o[0], slurm.writes)
		}
		if want == slurmplug.Unknown && !strings.Contains(o[0].Message, "nvme") {
			t.Errorf("%q", o[0].Message)
		}
	}
}

// Slurm may answer a write with an error and have done it, where one of the job's partitions does not admit it or is
// INACTIVE. A feature has no part in that and stands, unless no node satisfies it; a list of partitions is taken back,
// but for its user's own.
func TestDoneWithAnError(t *testing.T) {
	const words = "Requested partition configuration not available now"
	for _, c := range []struct {
		lever                      slurmplug.Lever
		before, after, shown, told string // told: its reason
		want                       slurmplug.Status
		writes                     int
	}{
		{slurmplug.Features, "ssd", "ssd&a100", "ssd&a100", "", slurmplug.Applied, 0}, {slurmplug.Features, "ssd", "ssd&a100", "ssd", "", slurmplug.Refused, 0},
		{slurmplug.Features, "ssd&v100", "ssd&a100", "ssd&a100", "PartitionInactive", slurmplug.Applied, 0},
		{slurmplug.Features, "ssd&v100", "ssd&a100", "ssd&a100", "BadConstraints", slurmplug.Refused, 1},
		{slurmplug.Features, "ssd&a100", "ssd", "ssd", "", slurmplug.Applied, 0}, {slurmplug.Features, "ssd&a100", "ssd", "ssd&a100", "", slurmplug.Refused, 0},
		{slurmplug.PartitionList, "a100,v100", "v100", "v100", "", slurmplug.Refused, 1}, {slurmplug.PartitionList, "v100", "a100,v100", "a100,v100", "", slurmplug.Applied, 0},
	} {
		slurm, own := &shows{reason: c.told}, "ssd"
		if c.lever == slurmplug.Features {
			slurm.features = c.shown
		} else {
			slurm.partitions, own = c.shown, "a100,v100"
		}
		o := []plan.Outcome{{Action: plan.Action{Job: slurmplug.Plain(7), Lever: c.lever, Before: slurmplug.Text(c.before), After: slurmplug.Text(c.after), Was: slurmplug.Text(own)}, Status: slurmplug.Refused, Message: words}}
		New(slurmplug.NewClient(slurm, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "26.05.5"}})).confirm(t.Context(), o)
		if o[0].Status != c.want || len(slurm.writes) != c.writes {
			t.Errorf("%s after %s, shown %s: %+v, then %q", c.after, c.before, c.shown, o[0], slurm.writes)
		}
	}
}

// A job that starts while its size is written was too fast, whatever words Slurm has
// for that: of a running one it says "Invalid node name specified" (seen on 22.05.8).
func TestSizeOfAJobThatStarts(t *testing.T) {
	for state, want := range map[string]slurmplug.Status{"PENDING": slurmplug.Refused, "RUNNING": slurmplug.Raced} {
		slurm := &shows{state: state}
		own := "CPUsPerTask=3 MinCPUsNode=3 NumCPUs=3 MinMemoryNode=64000 ReqNodeList="
		a := plan.Action{Job: slurmplug.Plain(7), Lever: slurmplug.Size, Before: slurmplug.Size.Value(own), After: slurmplug.Size.Value(strings.ReplaceAll(own, "=3", "=6")), Was: slurmplug.Size.Value(own)}
		o := []plan.Outcome{{Action: a, Status: slurmplug.Refused, Message: "Invalid node name specified"}}
		c := New(slurmplug.NewClient(slurm, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}}))
		c.jobs = []slurmplug.Job{{ID: slurmplug.Plain(7), RawID: 7, TresPerNode: "gres:gpu:1"}}
		c.confirm(t.Context(), o)
		if o[0].Status != want || len(slurm.writes) != 0 {
			t.Errorf("%s: %+v, then %q", state, o[0], slurm.writes)
		}
	}
}

// A job that waits when squeue is asked and runs when scontrol shows it shows the nodes that it
// runs on: that is no refusal, and nothing is taken back (TestOpenJobWaitsForItsNode, once).
func TestNodeCountOfAJobThatStartsAmidTheReadBack(t *testing.T) {
	for _, c := range []struct {
		later, nodes string
		want         slurmplug.Status
	}{
		{"RUNNING", "2", slurmplug.Applied},
		{"PENDING", "1-3", slurmplug.Applied},
		{"PENDING", "1-1", slurmplug.Refused},
	} {
		slurm := &shows{later: c.later, nodes: c.nodes}
		a := plan.Action{Job: slurmplug.Plain(7), Lever: slurmplug.NumNodes, Before: slurmplug.Text("1-1"), After: slurmplug.Text("1-3"), Was: slurmplug.Text("1-3")}
		o := []plan.Outcome{{Action: a, Status: slurmplug.Applied}}
		cl := New(slurmplug.NewClient(slurm, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}}))
		cl.jobs = []slurmplug.Job{{ID: slurmplug.Plain(7), RawID: 7, Nodes: 1, Submit: time.Unix(1762164000, 0)}}
		cl.confirm(t.Context(), o)
		if o[0].Status != c.want || (len(slurm.writes) > 0) != (c.want == slurmplug.Refused) {
			t.Errorf("%s, %s: %+v, then %q", c.later, c.nodes, o[0], slurm.writes)
		}
	}
}

// So it does when reset takes back the nodes of a job that starts or ends meanwhile
// (TestAllTogether on 26.05.5).
func TestNodesOfAJobThatStarts(t *testing.T) {
	for state, want := range map[string]slurmplug.Status{"PENDING": slurmplug.Refused, "RUNNING": slurmplug.Raced, "COMPLETED": slurmplug.Raced} {
		a := plan.Action{Job: slurmplug.Plain(7), Lever: slurmplug.ReqNodeList, Before: slurmplug.Text("t4-1"), After: slurmplug.Value{}}
		o := []plan.Outcome{{Action: a, Status: slurmplug.Refused, Message: "Invalid node name specified"}}
		c := New(slurmplug.NewClient(&shows{state: state}, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}}))
		c.jobs = []slurmplug.Job{{ID: slurmplug.Plain(7), RawID: 7}}
		c.confirm(t.Context(), o)
		if o[0].Status != want {
			t.Errorf("%s: %+v", state, o[0])
		}
	}
}

// idle is what sdiag says of a slurmctld with little to do.
const idle = "Server thread count: 1\nAgent queue size: 0\nDBD Agent queue size: 0\nRemote Procedure Call statistics by user\n"

// denying is a slurmctld that refuses updates, and then shows no job.
type denying struct{}

func (denying) Run(_ context.Context, c slurmplug.Command) (slurmplug.Output, error) {
	if c.Name == "sdiag" {
		return slurmplug.Output{Stdout: []byte(idle)}, nil
	}
	out := "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
	if len(c.Args) > 0 && c.Args[0] == "update" {
		out = "Requested node configuration is not available for job 17\n"
	}
	return slurmplug.Output{Stdout: []byte(out)}, &slurmplug.CommandError{Command: c.Name, Kind: slurmplug.ErrExit, Status: 1, Message: out}
}

// Slurm may have taken some fields of a size before it refused one. Where the job
// cannot be read back, that is not known, and not forgotten as a refusal is.
func TestRefusedSizeNotSeen(t *testing.T) {
	a := plan.Action{Job: slurmplug.Plain(17), Lever: slurmplug.Size, Before: slurmplug.Size.Value("NumCPUs=3"), After: slurmplug.Size.Value("NumCPUs=6"), Was: slurmplug.Size.Value("NumCPUs=3")}
	got := New(slurmplug.NewClient(denying{}, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}})).Apply(t.Context(), []plan.Action{a})
	if got[0].Status != slurmplug.Unknown {
		t.Errorf("%s: %s", got[0].Status, got[0].Message)
	}
}

// counting is a slurmctld that knows no job, and counts what it is asked.
type counting struct {
	mu       sync.Mutex
	commands []string
}

func (c *counting) Run(_ context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands = append(c.commands, strings.Join(cmd.Args, " "))
	return slurmplug.Output{}, nil
}

// Many jobs are read back by one squeue, a few each by its own, small request.
func TestOneSqueueForManyWrites(t *testing.T) {
	for n, want := range map[uint32]int{1: 1, 4: 4, 5: 1, 100: 1} {
		slurm := &counting{}
		var o []plan.Outcome
		for id := range n {
			a := plan.Action{Job: slurmplug.Plain(id + 1), Lever: slurmplug.Features, After: slurmplug.Text("a100")}
			o = append(o, plan.Outcome{Action: a, Status: slurmplug.Applied})
		}
		New(slurmplug.NewClient(slurm, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}})).confirm(t.Context(), o)
		if len(slurm.commands) != want {
			t.Errorf("%d writes are read back by %d commands, want %d", n, len(slurm.commands), want)
		}
		for _, o := range o {
			if o.Status != slurmplug.Unknown {
				t.Errorf("a job that nobody saw again: %+v", o)
			}
		}
	}
}
