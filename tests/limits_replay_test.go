package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// Jobs of two users and two accounts under limits of their QOS, of a partition's QOS and of associations, as accounting recorded them,
// and their replay without priod, which reads the limits from Slurm: the mean wait is that which was, within 10 %.
func TestLimitsReplay(t *testing.T) {
	longOnly(t)
	s := newDivided(t, "", "SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=100000,bf_interval=4", "AccountingStoreFlags=job_comment,job_script")
	sacctmgr := func(words string) { s.slurm("sacctmgr", append([]string{"--immediate"}, strings.Fields(words)...)...) }
	sacctmgr("add qos many,group,part")
	for _, limit := range []string{
		"qos many set MaxTRESPerUser=gres/gpu=3", "qos group set GrpTRES=gres/gpu=4", "qos part set MaxTRESPerAccount=gres/gpu=4 MaxJobsPerUser=3",
		"account " + lab.Biology + " set GrpTRES=gres/gpu=5", "user " + lab.OtherUser + " account=" + lab.Physics + " set MaxJobs=3",
		"account " + lab.Physics + "," + lab.Biology + " set qos+=many,group",
	} {
		sacctmgr("modify " + limit)
	}
	s.slurm("scontrol", "update", "PartitionName=v100", "QoS=part")
	const jobs, every = 45, 2500 * time.Millisecond
	r := rand.New(rand.NewPCG(51, 1))
	from := func(list ...string) string { return list[r.IntN(len(list))] }
	for range jobs {
		user := s.lab.As(from(lab.PlainUser, lab.OtherUser))
		out, err := user.Run(t.Context(), "sbatch", "--output=/dev/null", "--chdir=/", "--time=5", "--mem=100", "--account="+from(lab.Physics, lab.Biology), "--qos="+from("normal", "many", "group"),
			"--partition="+from("a100", "v100", "v100", "v100,a100"), fmt.Sprintf("--gres=gpu:%d", 1+r.IntN(2)), "--wrap", fmt.Sprintf("sleep %d", 20+r.IntN(40)))
		if err != nil {
			t.Fatal(err, out)
		}
		s.sleep(time.Duration(r.Float64() * 2 * float64(every)))
	}
	reasons := map[string]bool{}
	for left := jobs; left > 0; {
		before := left
		s.wait("a job to end", func() bool {
			rows := strings.Fields(s.slurm("squeue", "--noheader", "--format=%r"))
			for _, reason := range rows {
				reasons[reason] = true
			}
			left = len(rows)
			return left < before || left == 0
		})
	}
	for _, want := range []string{"QOSMaxGRESPerUser", "QOSGrpGRES", "AssocGrpGRES"} {
		if !reasons[want] {
			t.Errorf("no job waited for %s: %v", want, reasons)
		}
	}
	s.wait("accounting to know all jobs", func() bool {
		rows := s.slurm("sacct", "-X", "-n", "-P", "-a", "--state=COMPLETED", "-S", "now-1hours", "-E", "now", "--format=JobID")
		return strings.Count(rows, "\n")+1 >= jobs
	})
	t.Logf("%v\n%s", reasons, s.slurm("sacct", "-X", "-P", "-a", "-S", "now-1hours", "-E", "now", "--format=JobID,Submit,Start,End,User,Account,QOS,Partition,AllocTRES"))
	var both struct {
		Runs []struct {
			Figures struct {
				Jobs int     `json:"jobs"`
				Wait float64 `json:"mean_wait_s"`
			} `json:"figures"`
		} `json:"runs"`
	}
	s.json(&both, "simulate", "--from-slurm", "--since", "1h", "--compare")
	was, replayed := both.Runs[0].Figures, both.Runs[1].Figures
	t.Logf("the mean wait was %.1f s, %.1f s in the replay, %.1f s with priod", was.Wait, replayed.Wait, both.Runs[2].Figures.Wait)
	if was.Jobs != jobs || replayed.Jobs != jobs || math.Abs(replayed.Wait-was.Wait) > 0.1*was.Wait {
		t.Errorf("the mean wait was %.1f s of %d jobs, and is %.1f s of %d in the replay", was.Wait, was.Jobs, replayed.Wait, replayed.Jobs)
	}
}
