package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A load of jobs on a divided cluster, a quarter of which name one partition, a quarter two and half of them three,
// on the command line or in the script, as accounting recorded it, and its replay without priod: the mean wait is that
// which was, within 10 %. The parts of seconds that accounting lacks move the mean of this load by 2 % (standard deviation of
// replays), and of some others by 8 %.
func TestDividedReplay(t *testing.T) {
	longOnly(t)
	s := newDivided(t, "", "AccountingStoreFlags=job_comment,job_script", "SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=100000,bf_interval=4")
	const jobs, every = 100, 6500 * time.Millisecond // far longer than slurmctld takes to notice a free node
	r := rand.New(rand.NewPCG(51, 0))
	lists := []string{"a100", "v100", "t4", "a100,v100", "v100,t4", "t4,a100", "a100,v100,t4", "v100,t4,a100", "t4,a100,v100", "a100,v100,t4", "t4,v100,a100", "v100,a100,t4"}
	for i := range jobs {
		list, gres, sleep := "--partition="+lists[r.IntN(len(lists))], fmt.Sprintf("--gres=gpu:%d", []int{1, 1, 2, 4}[r.IntN(4)]), fmt.Sprintf("sleep %d", 20+r.IntN(120))
		submit := []string{"--output=/dev/null", gres, "--time=5", "--mem=100"}
		if script := filepath.Join(s.dir, "job.sh"); i%2 == 0 {
			if err := os.WriteFile(script, []byte("#!/bin/sh\n#SBATCH "+list+"\n"+sleep+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			submit = append(submit, script)
		} else {
			submit = append(submit, list, "--wrap", sleep)
		}
		s.slurm("sbatch", submit...)
		s.sleep(time.Duration(r.Float64() * 2 * float64(every)))
	}
	for left := jobs; left > 0; { // however slow the machine is
		before := left
		s.wait("a job to end", func() bool {
			left = strings.Count(s.slurm("squeue", "--noheader", "--format=%i")+"\n", "\n") - 1
			return left < before || left == 0
		})
	}
	var both struct {
		Runs []struct {
			Name    string `json:"name"`
			Figures struct {
				Jobs int     `json:"jobs"`
				Wait float64 `json:"mean_wait_s"`
				JCT  float64 `json:"mean_jct_s"`
			} `json:"figures"`
		} `json:"runs"`
	}
	s.wait("accounting to know all jobs", func() bool {
		rows := s.slurm("sacct", "-X", "-n", "-P", "-a", "--state=COMPLETED", "-S", "now-1hours", "-E", "now", "--format=JobID")
		return strings.Count(rows, "\n")+1 >= jobs
	})
	if _, notes, _ := s.priod("simulate", "--from-slurm", "--since", "1h"); strings.Contains(notes, "list of partitions is not known") {
		t.Error(notes)
	}
	s.json(&both, "simulate", "--from-slurm", "--since", "1h", "--compare")
	for _, run := range both.Runs {
		t.Logf("%s: %d jobs, mean wait %.1f s, mean completion %.1f s", run.Name, run.Figures.Jobs, run.Figures.Wait, run.Figures.JCT)
	}
	for i, order := range []string{"", "priod"} {
		one := both.Runs[0].Figures
		if s.json(&one, "simulate", "--from-slurm", "--since", "1h", "--order", order); one != both.Runs[i+1].Figures {
			t.Errorf("simulate --order %q has %+v, --compare %+v", order, one, both.Runs[i+1].Figures)
		}
	}
	was, replayed := both.Runs[0].Figures, both.Runs[1].Figures
	if was.Jobs != jobs || replayed.Jobs != jobs || math.Abs(replayed.Wait-was.Wait) > 0.1*was.Wait {
		t.Errorf("the mean wait was %.1f s of %d jobs, and is %.1f s of %d in the replay", was.Wait, was.Jobs, replayed.Wait, replayed.Jobs)
	}
}
