package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// together turns everything on, with short times.
const together = quick + `
[te_budget.user]
gpus = 0
[allocation]
policy = "max-min"
[steering]
enabled = true
[sizing]
enabled = true
start_timeout = "8s"
[rounds]
enabled = true
length = "10s"
min_gain_ratio = 1.0
finish_bonus = "0s"
[preemption]
enabled = true
min_run = "2s"
max_evictions = 0
max_per_hour = 0
min_gain = "0s"
urgency = 0.0
grace = "5s"
reserve_for = "10s"
retry_after = "1s"
restart = "0s"
`

// request is what a waiting job asks for, as far as priod writes there.
type request struct{ nodes, features, cpus string }

func (s *site) requests() map[string]request {
	s.Helper()
	all := map[string]request{}
	for line := range strings.Lines(s.slurm("squeue", "--noheader", "--states=PENDING", "--Format=JobID:|,ReqNodes:|,Feature:|,NumCPUs:|")) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) >= 4 {
			all[f[0]] = request{f[1], strings.TrimSuffix(f[2], "(null)"), f[3]}
		}
	}
	return all
}

// Steering, sizing, rounds and preemption at once, on the same jobs, and priod killed
// in between: no job is lost, and in the end reset leaves what the users wrote.
func TestAllTogether(t *testing.T) {
	longOnly(t)
	e := evictableOn(t, newOwnSite(t, together))
	e.slurm("scontrol", "update", "NodeName=a100-[2-3],v100-[2-3],t4-2", "State=DRAIN", "Reason=together") // more jobs than GPUs
	r := rand.New(rand.NewPCG(1, 5))
	d := e.daemon()
	d.waitLog("started")
	own := map[string]string{} // CPUs
	steered, sized, pinned := 0, 0, 0
	begun := time.Now()
	for i := 0; time.Since(begun) < time.Minute; i++ {
		curve := []string{"1x1-8x6", "1x1-3x1.2", "2x1-6x2"}[r.IntN(3)]
		cpus := []string{"1", "2", "8", "12"}[r.IntN(4)]
		args := []string{"-c", cpus, "--mem=2000", fmt.Sprintf("--prio-cpu=a100:%s,v100:%[1]s,t4:%[1]s", curve), "--prio-mem=a100:500x1-4000x1.5",
			"--prio-speed=" + []string{"a100:4,v100:1,t4:1", "a100:1,v100:1,t4:1", "a100:2,v100:1.5,t4:1"}[r.IntN(3)]}
		gpus := fmt.Sprint(1 + r.IntN(4))
		if r.IntN(5) == 0 {
			own[e.trial(gpus, args...)] = cpus
		} else {
			own[e.worker(fmt.Sprint("w", i), gpus, 10+r.IntN(90), 5, "save", append(args, "--prio-steps=100000")...)] = cpus
		}
		for id, now := range e.requests() {
			if now.features != "" {
				steered++
			}
			if now.nodes != "" {
				pinned++
			}
			if now.cpus != own[id] {
				sized++
			}
		}
		e.sleep(time.Duration(200+r.IntN(900)) * time.Millisecond)
		if i == 30 {
			d.kill()
			d = e.daemon()
		}
	}
	e.must("pause", "--why", "a victim that leaves while priod is away waits until it is back")
	evicted := len(e.settled())
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	t.Logf("%d jobs; seen steered %d times, with another size %d, on a node %d; %d evictions", len(own), steered, sized, pinned, evicted)
	if steered == 0 || sized == 0 || pinned == 0 || evicted == 0 {
		t.Error("not everything was at work")
	}
	e.must("reset")
	left := e.requests()
	if len(left) == 0 {
		t.Error("nobody waits")
	}
	for id, now := range left {
		if want := (request{"", "", own[id]}); now != want {
			t.Errorf("reset leaves job %s with %+v, want %+v\n%s", id, now, want, e.must("explain", "--history", id))
		}
	}
	for line := range strings.Lines(e.slurm("sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State")) {
		if _, state, _ := strings.Cut(strings.TrimSpace(line), "|"); state != "COMPLETED" && state != "PENDING" && state != "RUNNING" && state != "REQUEUED" {
			t.Errorf("lost: %s", line)
		}
	}
}
