package tests

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/plan"
	reports "slurmprio/priod/view"
)

// told is what explain and report say of waits.
type told struct {
	Waits []struct {
		Submit time.Time `json:"submit"`
		Until  time.Time `json:"until"`
		Ended  string    `json:"ended"`
		Spans  []struct {
			Wait  float64    `json:"wait_s"`
			Cause plan.Cause `json:"cause"`
			What  string     `json:"what"`
			Words string     `json:"words"`
		} `json:"spans"`
	} `json:"waits"`
}

// waitsFor waits until explain names a cause of a job's wait now.
func (s *site) waitsFor(job string, cause plan.Cause, what, words string) {
	s.Helper()
	last := ""
	s.wait(fmt.Sprintf("job %s to wait for %s (%s)", job, cause, what), func() bool {
		out, _, status := s.priod("explain", job, "--json")
		if status != 0 || out == "" {
			return false
		}
		var t told
		if err := json.Unmarshal([]byte(out), &t); err != nil {
			s.Fatal(err)
		}
		if len(t.Waits) == 0 || len(t.Waits[0].Spans) == 0 {
			return false
		}
		spans := t.Waits[0].Spans
		now := spans[len(spans)-1]
		if said := fmt.Sprint(now.Cause, " ", now.What, " ", now.Words); said != last {
			last = said
			s.Logf("job %s: %s", job, said)
		}
		return now.Cause == cause && now.What == what && strings.Contains(now.Words, words)
	})
}

// Each cause of waiting is made for real, and explain names it: a full cluster, one whose
// free GPUs lie scattered, CPUs that are short, a job before it, a limit, a hold, a
// dependency, a begin time, a requeue, a node that is drained. What a job waited is, to the second,
// what Slurm says.
func TestWaitsOfEachCause(t *testing.T) {
	s := newOwnSite(t, quick)
	run := func(args ...string) string {
		t.Helper()
		id := s.submit(append(args, "--wrap", "sleep 600")...)
		if err := s.lab.WaitJob(s.Context(), id, "RUNNING"); err != nil {
			t.Fatal(err)
		}
		return id
	}
	submit := func(args ...string) string { return s.submit(append(args, "--wrap", "sleep 600")...) }

	// a100: full. v100: two nodes full, half of the third free. t4: half of each free.
	for range 3 {
		run("--gres=gpu:a100:4", "--time=60")
	}
	run("--gres=gpu:v100:4", "--time=20", "--nodelist=v100-1")
	run("--gres=gpu:v100:4", "--time=20", "--nodelist=v100-2")
	run("--gres=gpu:v100:2", "--time=20", "--nodelist=v100-3")
	first := run("--gres=gpu:t4:2", "--time=60", "--nodelist=t4-1", "-c", "8")
	run("--gres=gpu:t4:2", "--time=60", "--nodelist=t4-2", "-c", "8")
	d := s.daemon()

	full := submit("--gres=gpu:a100:1", "--time=5")
	s.waitsFor(full, plan.Capacity, "", "requests 1 GPU; 0 are free; it would fit now on ")
	gang := submit("--gres=gpu:t4:4", "--time=5", "--nodes=1")
	s.waitsFor(gang, plan.Fragmentation, "shape", "4 are free on 2 nodes, at most 2 on one; it would fit now on 2 nodes")
	s.slurm("scancel", gang)
	cpus := submit("--gres=gpu:t4:1", "-c", "12", "--time=5")
	s.waitsFor(cpus, plan.Fragmentation, "cpus", "with 8 CPUs it would fit now")
	s.slurm("scancel", cpus)
	submit("--gres=gpu:v100:4", "--nodes=3", "--time=5", "--nice=-1000")
	small := submit("--gres=gpu:v100:1", "--time=120")
	s.waitsFor(small, plan.Precedence, "", "is ahead of it")

	s.slurm("sacctmgr", "-i", "modify", "qos", "te", "set", "MaxTRESPerUser=gres/gpu=1")
	limited := submit("--gres=gpu:t4:2", "--qos=te", "--time=5")
	s.waitsFor(limited, plan.AtLimit, "QOSMaxGRESPerUser", "the limit QOSMaxGRESPerUser")
	held := submit("--gres=gpu:t4:1", "--hold", "--time=5")
	s.waitsFor(held, plan.HeldBack, "JobHeldUser", "")
	after := submit("--gres=gpu:t4:1", "--dependency=afterok:"+full, "--time=5")
	s.waitsFor(after, plan.AfterJob, "Dependency", "")
	later := submit("--gres=gpu:t4:1", "--begin=now+1hour", "--time=5")
	s.waitsFor(later, plan.BeforeTime, "BeginTime", "")
	s.slurm("scontrol", "update", "NodeName=t4-2", "State=DRAIN", "Reason=test")
	drained := submit("--gres=gpu:t4:1", "--nodelist=t4-2", "--time=5")
	s.waitsFor(drained, plan.NoNode, "ReqNodeNotAvail", "")

	d.stop() // what waits is kept over a restart
	d = s.daemon()
	again := submit("--gres=gpu:t4:4", "--time=5", "--nodelist=t4-1")
	s.waitsFor(again, plan.Capacity, "", "requests 4 GPUs on one node; 2 are free")
	s.slurm("scancel", first)
	if err := s.lab.WaitJob(s.Context(), again, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	s.started(again)
	s.slurm("scancel", again)
	s.slurm("scontrol", "release", held)
	if err := s.lab.WaitJob(s.Context(), held, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	s.started(held)
	time.Sleep(time.Second)              // Slurm's times are whole seconds: else it began after it was requeued, perhaps
	s.slurm("scontrol", "requeue", held) // another wait, which begins with Slurm's delay
	s.waitsFor(held, plan.BeforeTime, "BeginTime", "")
	s.wait("Slurm to let the requeued job be changed", func() bool {
		_, err := s.lab.Run(s.Context(), "scontrol", "update", "JobId="+held, "StartTime=now")
		return err == nil
	})
	if err := s.lab.WaitJob(s.Context(), held, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	s.started(held)
	d.stop()

	var w reports.Waiting
	s.json(&w, "report", "waits", "--since=1h")
	for _, c := range plan.Causes {
		if w.All.Causes[c] == 0 && !slices.Contains([]plan.Cause{plan.NotObserved, plan.NoLicence, plan.BeyondShare, plan.ByOther, plan.Locality, plan.Starting}, c) {
			t.Errorf("nobody waited for %s: %+v", c, w.All)
		}
	}
}

// started holds what priod says that a running job waited against what Slurm says.
func (s *site) started(job string) {
	s.Helper()
	submitted, begun, _ := strings.Cut(strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+job, "--format=%V|%S")), "|")
	submit, err := time.ParseInLocation("2006-01-02T15:04:05", submitted, time.Local)
	if err != nil {
		s.Fatal(err)
	}
	start, err := time.ParseInLocation("2006-01-02T15:04:05", begun, time.Local)
	if err != nil {
		s.Fatal(err)
	}
	var said told
	s.wait("priod to see job "+job+" run", func() bool {
		s.json(&said, "explain", job)
		return len(said.Waits) > 0 && said.Waits[0].Ended == string(plan.Started) && said.Waits[0].Until.Equal(start)
	})
	w, sum := said.Waits[0], time.Duration(0)
	for _, x := range w.Spans {
		sum += time.Duration(math.Round(x.Wait * float64(time.Second))) // as floats, 1.582 and 0.418 make less than 2
	}
	if !w.Submit.Equal(submit) || !w.Until.Equal(start) || sum != start.Sub(submit) {
		s.Errorf("job %s waited from %v to %v, says Slurm; priod says %+v", job, submit, start, w)
	}
}
