package tests

import (
	"encoding/json"
	"testing"

	"slurmprio/tests/lab"
)

// A trial is charged what Slurm allocates to it: nodes that it has for itself, by --exclusive or its partition, and by all
// of their memory. Trials without a GPU that take whole nodes do not all go before that of another account.
func TestTrialsAreChargedWhatTheyTake(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{
		Nodes:      []lab.NodeSpec{{Count: 5, GPUType: "t4", GPUs: 4, CPUs: 16, MemoryMB: 65536}},
		Partitions: []string{"gpu Nodes=ALL Default=YES State=UP MaxTime=INFINITE", "whole Nodes=ALL State=UP MaxTime=INFINITE OverSubscribe=EXCLUSIVE"},
	})
	s := bareSite(t, l)
	s.partitions = []string{"gpu", "whole"}
	s.configure(quick + "[te_budget.user]\ngpus = 0\n[te_budget.account]\ngpus = 12\n")
	t.Cleanup(s.clear)
	e := evictableOn(t, s)
	e.blocker("t4:1", "--nodelist=t4-3")
	trial := func(account string, args ...string) string {
		return e.submit(append([]string{"--prio-type=te", "--time=10", "--account=" + account, "--wrap", "sleep 600"}, args...)...)
	}
	takes := map[string]float64{
		trial(lab.Physics, "--exclusive", "--nodes=2", "--gres=gpu:1", "--nodelist=t4-[1-2]"): 8,
		trial(lab.Physics, "--mem=0", "--gres=gpu:1", "--nodelist=t4-4"):                      4,
		trial(lab.Physics, "--partition=whole", "--nodelist=t4-5"):                            4,
	}
	for id := range takes {
		e.runs(id)
	}
	for range 5 {
		trial(lab.Physics, "--exclusive", "--nodes=3")
	}
	other := trial(lab.Biology, "--gres=gpu:4")
	e.once(6, 2)
	for id, want := range takes {
		var v struct {
			Intervals []struct {
				Charged float64 `json:"charged_gpus"`
			}
		}
		if e.json(&v, "explain", id); len(v.Intervals) != 1 || v.Intervals[0].Charged != want {
			t.Errorf("job %s is charged %+v, want %g", id, v.Intervals, want)
		}
	}
	var v struct {
		Place int `json:"te_place"`
	}
	if e.json(&v, "explain", other); v.Place != 1 {
		t.Errorf("the other account's trial has place %d among the TE jobs", v.Place)
	}
	e.wait("the other account's trial to stand first", func() bool { return e.order()[0] == other })
	e.wait("a report of more than the GPUs that jobs hold", func() bool { // slurmdbd is some seconds behind
		var u struct {
			GPUHours  float64 `json:"gpu_h"`
			ByAccount []struct {
				Name     string
				GPUHours float64 `json:"gpu_h"`
				Charged  float64 `json:"charged_gpu_h"`
			} `json:"by_account"`
		}
		if err := json.Unmarshal([]byte(e.must("report", "usage", "--since=1h", "--json")), &u); err != nil {
			t.Fatal(err)
		}
		return len(u.ByAccount) > 0 && u.ByAccount[0].Name == lab.Physics && u.ByAccount[0].Charged > u.ByAccount[0].GPUHours
	})
}
