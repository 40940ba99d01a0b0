package tests

import (
	"encoding/csv"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// ownStep is a moment of a run: a job ends, others come, and then these run.
type ownStep struct {
	end, submit, run string
}

// ownJob is a job of such a run, as its name says: its account's first letter, a number, its GPUs; those of guests may be requeued.
type ownJob struct {
	name, account string
	gpus          int
	came          int // steps
	from, to      int
}

// stepLength is the time from one step to the next, s.
const stepLength = 1000

// What accounts own, as Slurm has it without priod: GrpTRES, and partitions of owners that preempt. The same jobs start and leave as
// in the simulator.
func TestSharesAsSlurmHasThem(t *testing.T) {
	t.Parallel()
	for order, c := range map[string]struct {
		options  lab.Options
		biology  int // GPUs; of physics 4
		steps    []ownStep
		requeued string
	}{
		"quotas": {
			biology: 6,
			steps: []ownStep{ // GPUs are free at all times
				{"", "p1x4 p2x2 b1x4 b2x2 b3x2 p3x2", "b1x4 b2x2 p1x4"}, {"p1x4", "", "b1x4 b2x2 p2x2 p3x2"},
				{"b2x2", "", "b1x4 b3x2 p2x2 p3x2"}, {"p2x2", "p4x4", "b1x4 b3x2 p3x2"}, {"p3x2", "", "b1x4 b3x2 p4x4"},
			},
		},
		"owners": {
			biology: 8,
			options: lab.Options{
				Partitions: []string{
					guests + " Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=2",
					lab.Biology + " Nodes=a100-[1-2] MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF",
					lab.Physics + " Nodes=a100-3 MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF",
				},
				ExtraConf: []string{"PreemptType=preempt/partition_prio"}, RequeueDelay: 1,
			},
			steps: []ownStep{
				{"", "g1x4", "g1x4"}, {"", "g2x4", "g1x4 g2x4"}, {"", "g3x4", "g1x4 g2x4 g3x4"},
				{"", "p1x4", "g1x4 g2x4 p1x4"}, {"", "p2x2", "g1x4 g2x4 p1x4"}, // its nodes are full
				{"p1x4", "", "g1x4 g2x4 p2x2"}, {"p2x2", "", "g1x4 g2x4 g3x4"},
			},
			requeued: "g3x4",
		},
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			c.options.Nodes = []lab.NodeSpec{{Count: 3, GPUType: "a100", GPUs: 4}}
			s := newSiteOn(t, lab.ForTest(t, c.options), fmt.Sprintf("[[share]]\naccount = %q\ngpus = %d\n[[share]]\naccount = %q\ngpus = 4\n", lab.Biology, c.biology, lab.Physics))
			me, err := user.Current()
			if err != nil {
				t.Fatal(err)
			}
			s.slurm("sacctmgr", "--immediate", "add", "account", guests, "cluster=lab", "qos=normal,te,be")
			s.slurm("sacctmgr", "--immediate", "add", "user", me.Username, "cluster=lab", "account="+guests)
			if order == "quotas" {
				for account, gpus := range map[string]int{lab.Biology: c.biology, lab.Physics: 4} {
					s.slurm("sacctmgr", "--immediate", "modify", "account", account, "set", fmt.Sprint("GrpTRES=gres/gpu=", gpus))
				}
			}
			jobs := s.playOwned(c.steps, order == "owners", c.requeued)
			s.simulateOwned(order, jobs, c.requeued)
		})
	}
}

// playOwned plays the steps on Slurm, and returns the jobs.
func (s *site) playOwned(steps []ownStep, partitions bool, requeued string) (jobs []*ownJob) {
	s.Helper()
	ids, all := map[string]string{}, map[string]*ownJob{}
	for at, step := range steps {
		if step.end != "" {
			s.slurm("scancel", ids[step.end])
			all[step.end].to = at
		}
		for name := range strings.FieldsSeq(step.submit) {
			j := &ownJob{name: name, account: map[byte]string{'p': lab.Physics, 'b': lab.Biology, 'g': guests}[name[0]], came: at, from: -1, to: len(steps) + 100}
			j.gpus, _ = strconv.Atoi(name[len(name)-1:])
			args := []string{"--account=" + j.account, "--job-name=" + name, fmt.Sprintf("--gres=gpu:a100:%d", j.gpus), "--time=600", "--requeue", "--wrap", "sleep 3600"}
			if partitions {
				args = slices.Insert(args, 0, "--partition="+j.account)
			}
			ids[name], all[name] = s.submit(args...), j
			jobs = append(jobs, j)
		}
		var run []string
		defer func() {
			if s.Failed() {
				s.Logf("step %d: %s run", at, run)
			}
		}()
		s.wait(fmt.Sprintf("step %d: %s to run", at, step.run), func() bool {
			run = strings.Fields(s.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%j"))
			slices.Sort(run)
			return slices.Equal(run, strings.Fields(step.run))
		})
		for _, name := range run {
			if j := all[name]; j.from < 0 {
				j.from = at
			}
		}
	}
	for name, id := range ids {
		if n := strings.Count(requeued, name); all[name].to > len(steps) && field(s.slurm("scontrol", "show", "job", id), "Restarts") != strconv.Itoa(n) {
			s.Errorf("job %s was not requeued %d times", name, n)
		}
	}
	return jobs
}

// simulateOwned compares the simulator with what Slurm did.
func (s *site) simulateOwned(order string, jobs []*ownJob, requeued string) {
	s.Helper()
	text := "job_id,submit_s,gpus,duration_s,limit_s,type,grace_s,ckpt_s,user,account\n"
	for i, j := range jobs {
		class := "untagged,,"
		if j.account == guests {
			class = "be,60,1800"
		}
		text += fmt.Sprintf("%s,%d,%d,%d,600000,%s,u,%s\n", j.name, j.came*stepLength+i, j.gpus, (j.to-j.from)*stepLength, class, j.account)
	}
	trace, out := filepath.Join(s.dir, "trace.csv"), filepath.Join(s.dir, "jobs.csv")
	if err := os.WriteFile(trace, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	s.must("simulate", "--order", order, "--backfill", "easy", "--trace", trace, "--nodes", "3:a100:4:16:65536", "--jobs-out", out)
	f, err := os.Open(out)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != len(jobs)+1 {
		s.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		value := func(name string) float64 {
			x, _ := strconv.ParseFloat(row[slices.Index(rows[0], name)], 64)
			return x
		}
		name := row[slices.Index(rows[0], "job_id")]
		j := jobs[slices.IndexFunc(jobs, func(j *ownJob) bool { return j.name == name })]
		if step := int(value("start_s")) / stepLength; step != j.from || int(value("preemptions")) != strings.Count(requeued, name) {
			s.Errorf("job %s starts in step %d and leaves %g times in the simulator, in step %d and %d times on Slurm", name, step, value("preemptions"), j.from, strings.Count(requeued, name))
		}
	}
}
