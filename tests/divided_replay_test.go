package tests

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// A load of jobs on a divided cluster, a quarter of which name one partition, a quarter two and half of them three,
// on the command line or in the script, as accounting recorded it, and its replay without priod: the mean wait is that
// which was, within 10 % of what replays have whose jobs are submitted and end at other parts of the seconds that accounting
// knows, which no two weeks of a real Slurm have in common.
func TestDividedReplay(t *testing.T) {
	longOnly(t)
	s := newDivided(t, "", "AccountingStoreFlags=job_comment,job_script")
	const jobs, every = 100, 6 * time.Second // far longer than slurmctld takes to notice a free node
	r := rand.New(rand.NewPCG(51, 0))
	lists := []string{"a100", "v100", "t4", "a100,v100", "v100,t4", "t4,a100", "a100,v100,t4", "v100,t4,a100", "t4,a100,v100", "a100,v100,t4", "t4,v100,a100", "v100,a100,t4"}
	past := make([]trace.Job, jobs)
	for i := range jobs {
		past[i].Partition = lists[r.IntN(len(lists))]
		list, gres, sleep := "--partition="+past[i].Partition, fmt.Sprintf("--gres=gpu:%d", []int{1, 1, 2, 4}[r.IntN(4)]), fmt.Sprintf("sleep %d", 20+r.IntN(120))
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
	low, high := s.shaken(past)
	t.Logf("replays at other parts of seconds: %.1f to %.1f s", low, high)
	for _, wait := range []float64{was.Wait, replayed.Wait} {
		if was.Jobs != jobs || replayed.Jobs != jobs || wait < 0.9*low || wait > 1.1*high {
			t.Errorf("the mean wait was %.1f s of %d jobs, and is %.1f s of %d in the replay; others have %.1f to %.1f s", was.Wait, was.Jobs, replayed.Wait, replayed.Jobs, low, high)
		}
	}
}

// shaken is between what the mean waits, s, of replays are whose jobs, of these lists of partitions, are submitted and end at other
// parts of the seconds of accounting.
func (s *site) shaken(jobs []trace.Job) (low, high float64) {
	rows := strings.Split(strings.TrimSpace(s.slurm("sacct", "-X", "-n", "-P", "-a", "--state=COMPLETED", "-S", "now-1hours", "-E", "now", "--format=Submit,Start,End,ReqTRES")), "\n")
	c := trace.Cluster{}
	for _, name := range anyType {
		c.Nodes = append(c.Nodes, trace.NodeGroup{Count: 2, GPUType: name, GPUs: 4, Partitions: []string{name}})
	}
	conf, err := slurmplug.NewClient(slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: s.lab.Conf()}), slurmplug.Options{}).Config(s.Context())
	if err != nil || len(rows) != len(jobs) {
		s.Fatal(len(rows), err)
	}
	opt := virtual.Options{Placement: placement.Packed, Backfill: virtual.Conservative, Own: virtual.Own{First: conf.BackfillFirst(), ByNode: conf.PlansByNode()}}
	for i, row := range rows {
		var at [3]time.Time
		for k, text := range strings.SplitN(row, "|", 4)[:3] {
			if at[k], err = time.ParseInLocation("2006-01-02T15:04:05", text, time.Local); err != nil {
				s.Fatal(err)
			}
		}
		if i == 0 {
			opt.Origin = at[0]
		}
		_, gpus, _ := strings.Cut(row, "gres/gpu=")
		jobs[i].Nodes, jobs[i].GPUs, jobs[i].Limit = 1, int(gpus[0]-'0'), 300
		jobs[i].Submit, jobs[i].Duration = at[0].Sub(opt.Origin).Seconds(), at[2].Sub(at[1]).Seconds()
	}
	low = math.Inf(1)
	for draw := range uint64(30) {
		r, moved, wait := rand.New(rand.NewPCG(51, draw)), slices.Clone(jobs), 0.0
		for i := range moved {
			moved[i].Submit, moved[i].Duration = moved[i].Submit+r.Float64(), moved[i].Duration+r.Float64()-0.5
		}
		slices.SortStableFunc(moved, func(a, b trace.Job) int { return cmp.Compare(a.Submit, b.Submit) })
		result, err := virtual.Run(s.Context(), c, trace.Each(moved), opt)
		if err != nil {
			s.Fatal(err)
		}
		for i, o := range result.Outcomes {
			wait += (o.Start - moved[i].Submit) / float64(len(jobs))
		}
		low, high = min(low, wait), max(high, wait)
	}
	return low, high
}
