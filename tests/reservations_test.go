package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// The nodes that priod keeps by reservations, for a claim and for TE jobs to come, are reserved against all
// users: also the one for whom room is made can start no other job there, whatever reservation it names, and
// the TE jobs start there all the same. Nor do jobs stay on their nodes that withdraw, while they run, what they agreed to.
func TestReservationsLetNoJobIn(t *testing.T) {
	t.Parallel()
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Prefix: "n", Count: 4, GPUType: "a100", GPUs: 4}}})
	const settings = quick + "[preemption]\nenabled = true\nheadroom = true\nheadroom_interval = \"5s\"\nmin_run = \"0s\"\nmin_gain = \"0s\"\nurgency = 100000.0\nreserve_for = \"20s\"\n[te_budget.user]\ngpus = 0\n"
	e := evictableOn(t, newSiteOn(t, l, settings))
	user := l.Client
	if os.Geteuid() == 0 {
		e.become(lab.OperatorUser, settings)
		user = l.As(lab.PlainUser)
		t.Cleanup(func() { e.slurm("scancel", "--user="+lab.PlainUser) })
	}
	state := func(id string) string {
		return strings.TrimSpace(e.slurm("squeue", "--noheader", "--states=all", "--format=%T", "--job="+id))
	}
	reservation := func(prefix string) (name string) {
		e.wait("a reservation "+prefix, func() bool {
			for f := range strings.FieldsSeq(e.slurm("scontrol", "--oneliner", "show", "reservation")) {
				if rest, is := strings.CutPrefix(f, "ReservationName="+prefix); is {
					name = prefix + rest
					return true
				}
			}
			return false
		})
		return name
	}
	var thieves []string
	steal := func(name string) {
		out, err := user.Run(t.Context(), "sbatch", "--parsable", "--output=/dev/null", "--reservation="+name, "--gres=gpu:4", "--time=1-0", "--wrap", "sleep 600")
		if err == nil {
			thieves = append(thieves, strings.TrimSpace(out))
		} else if !strings.Contains(err.Error()+out, "Access denied") {
			t.Errorf("a job that names %s: %v %s", name, err, out)
		}
	}
	robbed := func() {
		for _, id := range thieves {
			if s := state(id); s != "PENDING" {
				t.Errorf("a job that names priod's reservation is %s:\n%s", s, e.slurm("scontrol", "show", "job", id))
			}
			e.slurm("scancel", id)
		}
		thieves = nil
	}
	var workers []string
	for _, name := range []string{"w0", "w1", "w2"} {
		workers = append(workers, e.worker(name, "a100:4", endless, 8, "save"))
	}
	workers = append(workers, e.worker("late", "a100:4", endless, 8, "ignore"))
	e.begun("w0", "w1", "w2", "late")
	d := e.daemon()
	for i, id := range workers { // what they change of their tags while they run does not count
		e.wait("a cycle to see job "+id, func() bool { _, _, status := e.priod("explain", id); return status == 0 })
		e.slurm("scontrol", "update", "JobId="+id, "Comment="+[]string{"prio:grace=86400&type=be&v=1", "prio:type=te&v=1", "prio:type=none&v=1", "prio:what=7"}[i])
	}
	ended := filepath.Join(openDir(t, 0o755), "ended")
	out, err := user.Run(t.Context(), filepath.Join(bin, "sbatchwrap"), "--parsable", "--output=/dev/null", "--prio-type=te", "--gres=gpu:a100:4", "--nodes=4", "--time=5", "--wrap", "while [ ! -e "+ended+" ]; do sleep 0.2; done")
	if err != nil {
		t.Fatal(err)
	}
	trial := strings.TrimSpace(out)
	claim := reservation("priod_1_")
	steal(claim)
	steal(claim)
	e.wait("the first victim to leave", func() bool { return strings.Contains(e.log("w0"), "signal") })
	e.sleep(2 * time.Second)
	robbed()
	e.runs(trial)
	steal(reservation("priod_headroom")) // a busy machine may not look for nodes to keep before a short trial has ended
	if err := os.WriteFile(ended, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	e.completes(trial)
	e.sleep(3 * time.Second)
	robbed()
	next, err := user.Run(t.Context(), filepath.Join(bin, "sbatchwrap"), "--parsable", "--output=/dev/null", "--prio-type=te", "--gres=gpu:a100:4", "--time=5", "--wrap", "sleep 1")
	if err != nil {
		t.Fatal(err)
	}
	e.completes(strings.TrimSpace(next))
	d.stop()
}
