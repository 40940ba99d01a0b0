package live

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// forgetful is a slurmctld that knows no job, beside accounting that does.
type forgetful struct {
	runs []string // fields of sacct's, joined by |
	err  error
}

func (f forgetful) Run(_ context.Context, c slurmplug.Command) (slurmplug.Output, error) {
	if c.Name != "sacct" {
		return slurmplug.Output{}, &slurmplug.CommandError{Command: c.Name, Kind: slurmplug.ErrExit, Status: 1, Message: "slurm_load_jobs error: Invalid job id specified"}
	}
	delimiter := ""
	for _, a := range c.Args {
		if text, ok := strings.CutPrefix(a, "--delimiter="); ok {
			delimiter = text
		}
	}
	out := ""
	for _, r := range f.runs {
		out += strings.ReplaceAll(r, "|", delimiter) + delimiter + "\n"
	}
	return slurmplug.Output{Stdout: []byte(out)}, f.err
}

// noted is a Slurm that does as it is told, and notes it.
type noted struct{ told []string }

func (n *noted) Run(_ context.Context, c slurmplug.Command) (slurmplug.Output, error) {
	if c.Name == "sdiag" {
		return slurmplug.Output{Stdout: []byte("Agent queue size: 0\nDBD Agent queue size: 0\nRemote Procedure Call statistics by user\n")}, nil
	}
	n.told = append(n.told, c.Name+" "+strings.Join(c.Args, " "))
	return slurmplug.Output{}, nil
}

// Who has to wait for the claim on its place gets its begin time at once: Slurm's own
// delay after a requeue may be a second. A command names the run that was seen.
func TestDo(t *testing.T) {
	const run = "s4C5M81FV4NT00"
	for want, cmd := range map[string]plan.Command{
		"scontrol requeue 17": {Kind: plan.Requeue},
		"scontrol requeue " + run + "|scontrol update JobId=" + run + " StartTime=now+120": {Kind: plan.Requeue, SLUID: run, Value: slurmplug.Delay(2 * time.Minute)},
		"scancel --verbose --signal=USR1 --batch " + run:                                   {Kind: plan.Signal, SLUID: run, Value: slurmplug.Text("B:USR1")},
		"scontrol update JobId=" + run + " StartTime=now+2":                                {Kind: plan.Begin, SLUID: run, Value: slurmplug.Delay(2 * time.Second)},
		"scontrol update JobId=" + run + " ReqNodeList=":                                   {Kind: plan.Unpin, SLUID: run},
	} {
		var slurm noted
		cmd.Job = slurmplug.Plain(17)
		r := New(slurmplug.NewClient(&slurm, slurmplug.Options{})).Do(t.Context(), []plan.Command{cmd})
		if got := strings.Join(slurm.told, "|"); got != want || r[0].Status != slurmplug.Applied {
			t.Errorf("%s: %q, want %q", r[0].Status, got, want)
		}
	}
}

// A job that slurmctld has forgotten is what accounting says of its last run, and
// gone without a word when that does not say how it ended.
func TestLookAtForgottenJobs(t *testing.T) {
	run := func(id, state, submit, start, end string) string {
		return id + "|17|ann|a|gpu|normal|" + state + "|99:0|" + submit + "|" + submit + "|" + start + "|" + end + "|60|cpu=1|n1|job|cpu=1|"
	}
	first, second := run("17", "REQUEUED", "100", "200", "300"), run("17", "FAILED", "300", "400", "500")
	for name, c := range map[string]struct {
		slurm forgetful
		final string
	}{
		"two runs":         {forgetful{runs: []string{second, first}}, "FAILED"},
		"requeued":         {forgetful{runs: []string{first}}, ""},
		"runs":             {forgetful{runs: []string{first, run("17", "RUNNING", "300", "400", "Unknown")}}, ""},
		"tasks of that id": {forgetful{runs: []string{run("17_4", "FAILED", "300", "400", "500")}}, ""},
		"no accounting":    {forgetful{err: &slurmplug.CommandError{Command: "sacct", Kind: slurmplug.ErrExit, Status: 1, Message: "Slurm accounting storage is disabled"}}, ""},
	} {
		id := slurmplug.Plain(17)
		sights, err := New(slurmplug.NewClient(c.slurm, slurmplug.Options{Abilities: &slurmplug.Abilities{Release: "24.11.5"}})).Look(t.Context(), []plan.Target{{Job: id, RawID: 17}})
		s := sights[id]
		if err != nil || !s.Gone || s.Final != c.final {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if c.final != "" && (s.User != "ann" || !s.Start.Equal(time.Unix(400, 0)) || !s.End.Equal(time.Unix(500, 0)) || s.ExitCode != 99 || s.NodeList != "n1") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Several jobs are looked at at once, each for itself: the first form of this shared
// what it remembered of requests, and died of it. It means most with -race.
func TestSightsBesideEachOther(t *testing.T) {
	c := New(nil)
	var g errgroup.Group
	g.SetLimit(parallelReads)
	for i := range 20_000 {
		g.Go(func() error {
			r := slurmplug.Sight{}
			r.ID, r.State, r.Nodes = slurmplug.Plain(uint32(i)), "RUNNING", 1
			r.TresPerNode, r.Comment = fmt.Sprintf("gres:gpu:%d", i%5000), fmt.Sprintf("prio:type=te&grace=%d&v=1", i%3000)
			s, _ := c.sight(r.ID, []slurmplug.Sight{r})
			if s.GPUs != i%5000 || s.Tag.Grace != time.Duration(i%3000)*time.Second {
				return fmt.Errorf("job %d has %d GPUs and a grace of %s", i, s.GPUs, s.Tag.Grace)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
