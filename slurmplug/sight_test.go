package slurmplug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sightOutput is a recorded queue as squeue prints it with the columns of a Sight.
func sightOutput(t testing.TB, own ...string) string {
	t.Helper()
	s := RecordedSeparators
	var out strings.Builder
	for record := range strings.SplitSeq(recording(t, "squeue.out"), s.end+"\n") {
		if record != "" {
			out.WriteString(strings.Join(own, s.field) + s.field + record + s.end + "\n")
		}
	}
	return out.String()
}

func TestSights(t *testing.T) {
	jobs, err := parseJobs([]byte(recording(t, "squeue.out")), RecordedSeparators)
	if err != nil {
		t.Fatal(err)
	}
	var cmd Command
	out := sightOutput(t, "25353", "1", "0", "n[1-2]") // 99 << 8 | 9
	c := NewClient(runnerFunc(func(c Command) (Output, error) { cmd = c; return Output{Stdout: []byte(out)}, nil }), Options{Abilities: &Abilities{}})
	UseRecordedSeparators(c)
	sights, err := c.Sights(context.Background(), 17)
	if err != nil || len(sights) != len(jobs) {
		t.Fatalf("%d of %d: %v", len(sights), len(jobs), err)
	}
	for i, s := range sights {
		if s.ID != jobs[i].ID || s.Comment != jobs[i].Comment || !s.Requeue || s.Batch || s.ReqNodes != "n[1-2]" || s.ExitCode != 99 || s.Signal != 9 {
			t.Fatalf("%+v", s)
		}
	}
	if !slices.Contains(cmd.Args, "--jobs=17") || !slices.Contains(cmd.Args, "--states=all") {
		t.Errorf("%q", cmd.Args)
	}
	if n := strings.Count(cmd.Args[slices.Index(cmd.Args, "-O")+1], RecordedSeparators.field); n != len(jobColumns)+len(sightColumns)-1 {
		t.Errorf("%d separators", n)
	}
}

// A job cancelled before it started has no number of tasks: squeue prints NO_VAL.
func TestCancelledEarly(t *testing.T) {
	p := newJobParser(Abilities{})
	p.fields[colNumTasks] = []byte(noVal)
	if n := p.count(colNumTasks); n != 0 || p.err != nil {
		t.Errorf("%d, %v", n, p.err)
	}
}

func TestSightsDoubted(t *testing.T) {
	whole := sightOutput(t, "0", "1", "1", "")
	for name, out := range map[string]string{
		"cut off": whole[:len(whole)-3], "no status": sightOutput(t, "none", "1", "1", ""), "too few": recording(t, "squeue.out"),
	} {
		if sights, err := answering(out, "", nil).Sights(context.Background(), 1); !errors.Is(err, ErrDoubtful) {
			t.Errorf("%s: %d, %v", name, len(sights), err)
		}
	}
	gone := &CommandError{Command: "squeue", Kind: ErrExit, Status: 1, Message: "slurm_load_jobs error: Invalid job id specified"}
	if sights, err := answering("", "", gone).Sights(context.Background(), 1); sights != nil || err != nil {
		t.Errorf("of a job that Slurm forgot: %v, %v", sights, err)
	}
	down := &CommandError{Command: "squeue", Kind: ErrExit, Status: 1, Message: "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"}
	if _, err := answering("", "", down).Sights(context.Background(), 1); !errors.Is(err, ErrController) {
		t.Errorf("while slurmctld is down: %v", err)
	}
}

func TestTelling(t *testing.T) {
	task := JobID{ID: 17, Task: 4}
	for _, c := range []struct {
		do   func(*Client) Result
		want string
	}{
		{func(c *Client) Result { return c.Signal(context.Background(), RunID{Job: task}, "USR1", Script) }, "scancel --verbose --signal=USR1 --batch 17_4"},
		{func(c *Client) Result { return c.Signal(context.Background(), RunID{Job: Plain(17)}, "USR2", Steps) }, "scancel --verbose --signal=USR2 17"},
		{func(c *Client) Result { return c.Signal(context.Background(), RunID{Job: Plain(17)}, "TERM", Whole) }, "scancel --verbose --signal=TERM --full 17"},
		{func(c *Client) Result {
			return c.Signal(context.Background(), RunID{task, "s4C5M81FV4NT00"}, "TERM", Whole)
		}, "scancel --verbose --signal=TERM --full s4C5M81FV4NT00"},
		{func(c *Client) Result { return c.Requeue(context.Background(), RunID{Job: task}) }, "scontrol requeue 17_4"},
		{func(c *Client) Result { return c.Requeue(context.Background(), RunID{task, "s4C5M81FV4NT00"}) }, "scontrol requeue s4C5M81FV4NT00"},
		{func(c *Client) Result { return c.DeleteReservation(context.Background(), "priod_1") }, "scontrol delete ReservationName=priod_1"},
	} {
		for said, status := range map[string]Status{
			"": Applied, "Job/step already completing or completed": Raced, "Invalid user id": Refused, "Unable to contact slurm controller": Unknown,
		} {
			ran := ""
			client := NewClient(runnerFunc(func(cmd Command) (Output, error) {
				if ran == "" {
					ran = strings.Join(append([]string{cmd.Name}, cmd.Args...), " ")
				}
				if said == "" {
					return Output{}, nil
				}
				return Output{Stdout: []byte(fmt.Sprintf("scancel: error: Kill job error on job id 17: %s\n", said))}, &CommandError{Kind: ErrExit, Status: 1}
			}), Options{})
			if r := c.do(client); r.Status != status || ran != c.want {
				t.Errorf("%s: %+v after %q", ran, r, said)
			}
		}
	}
}

// The nodes of a reservation are written over where there is one, else it is created, for root alone, or where Slurm
// refuses that for the account that calls. Without nodes it is deleted.
func TestReserve(t *testing.T) {
	me := strconv.Itoa(os.Geteuid())
	const refused = "Invalid account or account/partition combination specified"
	for _, c := range []struct {
		there, nodes, said string
		want               []string
		status             Status
	}{
		{"ReservationName=r StartTime=x Nodes=n1 NodeCnt=1", "n[1-2]", "", []string{"update ReservationName=r Nodes=n[1-2] EndTime=now+15minutes Users=root"}, Applied},
		{"ReservationName=r2 StartTime=x Nodes=n1 NodeCnt=1", "n[1-2]", "", []string{"create reservation ReservationName=r Nodes=n[1-2] StartTime=now EndTime=now+15minutes Users=root Flags=IGNORE_JOBS,OVERLAP"}, Applied},
		{"No reservations in the system", "n1", refused, []string{
			"create reservation ReservationName=r Nodes=n1 StartTime=now EndTime=now+15minutes Users=root Flags=IGNORE_JOBS,OVERLAP",
			"create reservation ReservationName=r Nodes=n1 StartTime=now EndTime=now+15minutes Users=" + me + " Flags=IGNORE_JOBS,OVERLAP",
		}, Refused},
		{"ReservationName=r StartTime=x Nodes=n1 NodeCnt=1", "", "", []string{"delete ReservationName=r"}, Applied},
		{"No reservations in the system", "", "", nil, Applied},
		{"", "n1 Users=eve", "", nil, Refused},
		{"Unable to contact slurm controller", "n1", "", nil, Unknown},
	} {
		var ran []string
		client := NewClient(runnerFunc(func(cmd Command) (Output, error) {
			if slices.Contains(cmd.Args, "show") {
				if strings.HasPrefix(c.there, "Unable") {
					return Output{Stderr: []byte(c.there)}, &CommandError{Kind: ErrExit, Status: 1}
				}
				return Output{Stdout: []byte(c.there + "\n")}, nil
			}
			ran = append(ran, strings.Join(cmd.Args, " "))
			if c.said != "" {
				return Output{Stdout: []byte("Error creating the reservation: " + c.said + "\n")}, &CommandError{Kind: ErrExit, Status: 1}
			}
			return Output{}, nil
		}), Options{})
		if r := client.Reserve(t.Context(), "r", c.nodes, 15*time.Minute); r.Status != c.status || !slices.Equal(ran, c.want) {
			t.Errorf("beside %s: %+v after %q", c.there, r, ran)
		}
	}
}

// FuzzSights: what a job's own columns hold moves nothing in the others, and
// what is no output of squeue is refused as a whole.
func FuzzSights(f *testing.F) {
	f.Add("25353", "1", "n[1-2]", []byte("x"))
	f.Add("0", "0", "a"+RecordedSeparators.field+"b", []byte("0\x1f1"))
	f.Add("4294967295", "", RecordedSeparators.end+"\n", []byte(nil))
	jobs, err := parseJobs([]byte(recording(f, "squeue.out")), RecordedSeparators)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, exit, requeue, nodes string, raw []byte) {
		if sights, err := parseSights(raw, RecordedSeparators, Abilities{}); err != nil && sights != nil {
			t.Fatal("records beside an error")
		}
		own := exit + "|" + requeue + "|" + nodes
		if strings.Contains(own, RecordedSeparators.field) || strings.Contains(own, RecordedSeparators.end) {
			return // new for each read
		}
		sights, err := parseSights([]byte(sightOutput(t, exit, requeue, "1", nodes)), RecordedSeparators, Abilities{})
		if err != nil {
			return
		}
		if len(sights) != len(jobs) {
			t.Fatalf("%d records of %d", len(sights), len(jobs))
		}
		for i, s := range sights {
			if s.ID != jobs[i].ID || s.Comment != jobs[i].Comment || s.Requeue != (requeue == "1") || s.ReqNodes != nodes && s.ReqNodes != "" || s.ExitCode > 255 || s.Signal > 127 {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// What limits an array is read before the words of users.
func TestTasksAtOnce(t *testing.T) {
	for out, want := range map[string]int{
		"JobId=18 ArrayJobId=17 ArrayTaskId=0 ArrayTaskThrottle=2 JobName=x UserId=u(1)\n":     2,
		"JobId=17 ArrayJobId=17 ArrayTaskId=1-4%3 ArrayTaskThrottle=3 JobName=x UserId=u(1)\n": 3,
		"JobId=18 ArrayJobId=17 ArrayTaskId=0 JobName=x ArrayTaskThrottle=5 JobName=y\n":       0,
		"JobId=18 ArrayJobId=17 ArrayTaskId=0 ArrayTaskThrottle=2x JobName=x UserId=u(1)\n":    -1,
	} {
		var cmd Command
		c := NewClient(runnerFunc(func(c Command) (Output, error) { cmd = c; return Output{Stdout: []byte(out)}, nil }), Options{Abilities: &Abilities{}})
		n, err := c.TasksAtOnce(t.Context(), JobID{ID: 17, Task: 0})
		if want < 0 && !errors.Is(err, ErrDoubtful) || want >= 0 && (err != nil || n != want) {
			t.Errorf("%q: %d, %v", out, n, err)
		}
		if cmd.Args[len(cmd.Args)-1] != "17_0" {
			t.Errorf("%q", cmd.Args)
		}
	}
}
