package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

type advised struct {
	At   time.Time
	Jobs []struct {
		Slurm  string
		Advice struct {
			Types []struct {
				GPUType string   `json:"gpu_type"`
				Start   *float64 `json:"start_s"`
				Run     *float64 `json:"run_s"`
				Why     string
			}
			Best   string
			Behind int
			Submit []string
		}
	}
}

// start is when the first job would start on a type.
func (a *advised) start(t *testing.T, gpuType string) time.Time {
	t.Helper()
	for _, x := range a.Jobs[0].Advice.Types {
		if x.GPUType == gpuType && x.Start != nil {
			return a.At.Add(time.Duration(*x.Start * float64(time.Second)))
		}
	}
	t.Fatalf("no start on %s: %+v", gpuType, a)
	return time.Time{}
}

// advise asks for a job that is not submitted, with options of sbatch.
func (s *site) advise(args ...string) *advised {
	s.Helper()
	out := s.must(append([]string{"eta", "--slurm", "--json", "--"}, args...)...)
	a := &advised{}
	if err := json.Unmarshal([]byte(out), a); err != nil {
		s.Fatal(err)
	}
	return a
}

// begin is squeue's start time of a job.
func (s *site) begin(job string) time.Time {
	s.Helper()
	text := strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+job, "--format=%S"))
	at, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local)
	if err != nil {
		s.Fatal(err)
	}
	return at
}

func near(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if off := got.Sub(want).Abs(); off > 3*time.Second {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// One type is full until a known end: the start there is that end, as Slurm
// itself expects; what is advised is submitted as printed and starts at once, as
// was said; and who waits before is taken into account.
func TestAdvise(t *testing.T) {
	s := profileSite(t, sharedLab(t))
	hold := func(minutes int, command string) string {
		return s.submit("--gres=gpu:a100:4", "--time="+strconv.Itoa(minutes), "--wrap", command)
	}
	limits := []int{30, 20, 40}
	var full []string
	for _, minutes := range limits {
		full = append(full, hold(minutes, "sleep 600"))
	}
	s.wait("three running jobs", func() bool { return strings.Count(s.slurm("squeue", "--noheader", "--states=RUNNING"), "\n") == 3 })
	var ends []time.Time
	for i, job := range full {
		ends = append(ends, s.begin(job).Add(time.Duration(limits[i])*time.Minute))
	}
	script := s.script("train.sh", "#!/bin/bash\n#SBATCH --gres=gpu:1 --time=10 --output=/dev/null\n#PRIO --prio-speed a100:1,v100:0.5,t4:0.1\nsleep 60\n")

	typed := s.advise("--gres=gpu:a100:4", script)
	near(t, "the start on the full type", typed.start(t, "a100"), ends[1])
	slurm, _, _ := strings.Cut(strings.TrimPrefix(typed.Jobs[0].Slurm, "would start it at "), " ")
	expected, err := time.ParseInLocation("2006-01-02T15:04:05", slurm, time.Local)
	if err != nil {
		t.Fatalf("Slurm expects %q", typed.Jobs[0].Slurm)
	}
	near(t, "Slurm's own start", expected, ends[1])

	open := s.advise("-c", "2", script)
	near(t, "the start on the full type, left open", open.start(t, "a100"), ends[1])
	if best := open.Jobs[0].Advice.Best; best != "v100" || open.start(t, "v100").After(open.At) {
		t.Fatalf("best is %s: %+v", best, open)
	}
	words := open.Jobs[0].Advice.Submit
	out, err := s.client().Run(t.Context(), filepath.Join(bin, words[0]), append([]string{"--parsable"}, words[1:]...)...)
	if err != nil {
		t.Fatal(err)
	}
	job := strings.TrimSpace(out)
	defer s.slurm("scancel", job)
	if err := s.lab.WaitJob(s.Context(), job, "RUNNING"); err != nil {
		t.Fatalf("advised to run now, and does not: %v", err)
	}
	if node := s.slurm("squeue", "--noheader", "--jobs="+job, "--format=%N"); !strings.HasPrefix(node, "v100-") {
		t.Errorf("it runs on %s", node)
	}

	hold(50, "sleep 600") // waits, and takes the node that is free first
	if a := s.advise("--gres=gpu:a100:4", script); a.Jobs[0].Advice.Behind != 1 {
		t.Errorf("behind %d jobs", a.Jobs[0].Advice.Behind)
	} else {
		near(t, "the start behind another", a.start(t, "a100"), ends[0])
	}
	if _, errs, status := s.priod("eta", "--", "--gres=gpu:a100:64", script); status != 1 || errs != "" {
		t.Errorf("a job that fits nowhere: exit status %d, %s", status, errs)
	}
	if _, errs, status := s.priod("eta", "--", "--no-such-option", script); status != 2 || !strings.Contains(errs, "--no-such-option") {
		t.Errorf("a wrong option: exit status %d, %s", status, errs)
	}
}

// A site that hides jobs or nodes: what is not known is said, never made up.
func TestAdviseOnAClosedSite(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs a second user")
	}
	for _, c := range []struct {
		private string
		status  int
		want    []string
	}{
		{"jobs", 0, []string{"not known: not before jobs end that you may not see", "4 GPUs are held by jobs that squeue does not show you", "Best: leave the type open, Slurm starts it on v100"}},
		{"nodes", 1, []string{"this site shows its nodes to operators only (PrivateData=nodes in slurm.conf): ask them"}},
	} {
		l := lab.ForTest(t, lab.Options{NoAccounting: true, ExtraConf: []string{"PrivateData=" + c.private}, Nodes: []lab.NodeSpec{
			{Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}}})
		s := profileSite(t, l)
		job := s.submit("--gres=gpu:a100:4", "--time=10", "--wrap", "sleep 600")
		s.wait("the job to run", func() bool {
			return strings.Contains(s.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i"), job)
		})
		out, errs, status := s.priod("eta", s.script("train.sh", "#!/bin/bash\n#SBATCH --gres=gpu:1 --time=10\n"))
		for _, want := range c.want {
			if status != c.status || !strings.Contains(out+errs, want) {
				t.Errorf("PrivateData=%s: exit status %d\n%s%s; want %q", c.private, status, out, errs, want)
			}
		}
	}
}

// The start that was said comes true at the end of a time limit.
func TestAdvisedStartComesTrue(t *testing.T) {
	longOnly(t)
	s := profileSite(t, sharedLab(t))
	for range 3 {
		s.submit("--gres=gpu:a100:4", "--time=1", "--wrap", "sleep 59")
	}
	s.wait("three running jobs", func() bool { return strings.Count(s.slurm("squeue", "--noheader", "--states=RUNNING"), "\n") == 3 })
	script := s.script("train.sh", "#!/bin/bash\nsleep 60\n")
	args := []string{"--gres=gpu:a100:1", "--time=10", script}
	said := s.advise(args...).start(t, "a100")
	job := s.submit(args...)
	if err := s.lab.WaitJob(s.Context(), job, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	if off := s.begin(job).Sub(said).Abs(); off > 30*time.Second {
		t.Errorf("started %v from what was said", off)
	}
}
