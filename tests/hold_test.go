package tests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// heldBack submits a job where the site lets those begin later that may be steered.
func (s *site) heldBack(hold string, args ...string) (id string) {
	s.Helper()
	args = append([]string{"--parsable", "--output=/dev/null", "--time=30", "--mem=100", "--gres=gpu:1", "--prio-speed=a100:1,v100:1,t4:8"}, args...)
	cmd := s.lab.Command(s.Context(), filepath.Join(bin, "sbatchwrap"), append(args, "--wrap", "sleep 600")...)
	cmd.Env = append(cmd.Env, "SBATCHWRAP_HOLD="+hold)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// starts waits until Slurm runs a job and returns the type of its node, and
// whether it had to begin later than it was submitted.
func (s *site) starts(id string) (gpuType string, later bool) {
	s.Helper()
	if err := s.lab.WaitJob(s.Context(), id, "RUNNING"); err != nil {
		s.Fatal(err)
	}
	f := strings.Fields(s.slurm("squeue", "--noheader", "--jobs="+id, "--Format=NodeList: ,SubmitTime: ,EligibleTime: "))
	gpuType, _, _ = strings.Cut(f[0], "-")
	return gpuType, f[2] > f[1]
}

// begins waits until priod has given a job that is held back a type, lets it begin, and checks that it starts there.
func (s *site) begins(id, gpuType string) {
	s.Helper()
	if times := strings.Fields(s.slurm("squeue", "--noheader", "--jobs="+id, "--Format=SubmitTime: ,EligibleTime: ")); times[1] <= times[0] {
		s.Errorf("job %s is not held back: %v", id, times)
	}
	(&bindable{s}).boundTo(id, gpuType)
	s.slurm("scontrol", "update", "JobId="+id, "StartTime=now")
	if on, _ := s.starts(id); on != gpuType {
		s.Errorf("job %s runs on %s", id, on)
	}
}

// Where every GPU is free, a job that is held back starts on the type that the
// allocation wants for it, and a TE job at once. Without priod each starts by
// itself, where Slurm alone puts it.
func TestHold(t *testing.T) {
	s := newOwnSite(t, steering)
	first, later := s.starts(s.heldBack("3s"))
	if first == "t4" || !later {
		t.Errorf("without priod it starts on %s, later: %t", first, later)
	}
	s.clear()
	d := s.daemon()
	d.waitLog("started")
	held := s.heldBack("60s")
	if _, later := s.starts(s.heldBack("60s", "--prio-type=te")); later {
		t.Error("the TE job had to wait")
	}
	s.begins(held, "t4")
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// What the wrapper holds back is what priod would steer, but for what only the
// nodes can tell.
func TestHoldMeansSteerable(t *testing.T) {
	for i := range forms {
		f := &forms[i]
		cmd := exec.Command(filepath.Join(bin, "sbatchwrap"), append([]string{"--prio-print", "--prio-speed=a100:4,v100:2,t4:1", "--wrap=true"}, f.args...)...)
		cmd.Env = []string{"SBATCHWRAP_SBATCH=/bin/true", "SBATCHWRAP_HOLD=20s"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if held := strings.Contains(string(out), " --begin=now+20"); held != (f.why == "" || f.why == "leaves one GPU type") {
			t.Errorf("%s: held back: %t\n%s", f, held, out)
		}
	}
}
