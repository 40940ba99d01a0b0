package live

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// limited is a Slurm that enforces limits, whose slurmdbd may be down.
type limited struct {
	t    *testing.T
	down *bool
}

func (l limited) Run(_ context.Context, c slurmplug.Command) (slurmplug.Output, error) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "slurmplug", "testdata", "22.05", name))
		if err != nil {
			l.t.Fatal(err)
		}
		return string(b)
	}
	out, words := "", strings.Join(c.Args, " ")
	switch {
	case c.Name == "sacctmgr" && *l.down:
		return slurmplug.Output{}, &slurmplug.CommandError{Command: c.Name, Kind: slurmplug.ErrExit, Status: 1, Message: "Connection refused"}
	case c.Name == "sacctmgr" && strings.Contains(words, "show assoc"):
		out = read("limits-assoc.out")
	case c.Name == "sacctmgr":
		out = read("limits-qos.out")
	case strings.Contains(words, "show config"):
		out = read("config.out")
	case strings.Contains(words, "show partition"):
		out = read("partition.out")
	default:
		out = "JobState=PENDING NumNodes=1-1 NumCPUs=3 NumTasks=1 CPUs/Task=3 MinCPUsNode=3 MinMemoryNode=64000M TresPerNode=gres:gpu:1 " +
			"ReqB:S:C:T=0:0:*:* Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* OverSubscribe=OK ReqNodeList=(null) ExcNodeList=(null)\n"
	}
	return slurmplug.Output{Stdout: []byte(out)}, nil
}

// Without slurmdbd the limits that were read last count, because nobody can change
// them; with none read no job gets a new size. How jobs ask is read in any case: those
// with a size of priod's have to get theirs back.
func TestAskWithoutAccounting(t *testing.T) {
	for _, seen := range []bool{true, false} {
		down := !seen
		c := New(slurmplug.NewClient(limited{t, &down}, slurmplug.Options{}))
		job := cluster.Job{ID: slurmplug.Plain(17), User: "games", Account: "biology", QOS: "normal", Partition: "gpu", State: cluster.Pending}
		ask := func(at time.Time) error {
			if err := c.refreshConfig(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			job.Asked = nil
			return c.Ask(t.Context(), []*cluster.Job{&job})
		}
		if seen {
			if err := ask(time.Unix(1_000_000, 0)); err != nil || job.Asked == nil || job.Asked.Fixed != "" {
				t.Fatalf("%+v, %v", job.Asked, err)
			}
		}
		down = true
		if err := ask(time.Unix(2_000_000, 0)); err == nil || job.Asked == nil || (job.Asked.Fixed == "") != seen {
			t.Errorf("limits read before: %v: %+v, %v", seen, job.Asked, err)
		}
	}
}
