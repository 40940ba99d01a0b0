package tests

import (
	"strings"
	"testing"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// A trial whose tasks any update by this Slurm would set anew keeps its request: nothing is written to it, and explain
// says why. On the other Slurms it is ranked as any other, and keeps its tasks.
func TestFragileTrialIsLeftAlone(t *testing.T) {
	s := newSite(t, quick)
	s.fill()
	cases := map[string]struct{ tasks, says string }{
		"-n4 --ntasks-per-gpu=2":                 {"4", "would set its tasks from 4 to 2 (--ntasks-per-gpu=2)"},
		"-n3 --ntasks-per-node=4 --gres=gpu:1":   {"3", "would set its tasks from 3 to 4 (--ntasks-per-node=4)"},
		"-n4 --ntasks-per-node=4 --gres=gpu:2":   {"4", ""},
		"-n4 --gres=gpu:4":                       {"4", ""},
		"-N1 --gpus=4 --ntasks-per-gpu=1":        {"4", "would set its tasks from 4 to 1 (--ntasks-per-gpu=1)"},
		"--gpus-per-task=1 -n2 --cpus-per-gpu=2": {"2", ""},
	}
	if major, minor, _ := slurmplug.ReleaseOf(lab.Version()); 100*major+minor >= 2605 { // its sbatch refuses it
		delete(cases, "-n3 --ntasks-per-node=4 --gres=gpu:1")
	}
	ids := map[string]string{}
	for form := range cases {
		ids[form] = s.submit(append(strings.Fields("--prio-type=te --time=10 --partition=gpu "+form), "--wrap", "sleep 600")...)
	}
	s.must("run", "--once")
	for form, want := range cases {
		shown := s.slurm("scontrol", "show", "job", ids[form])
		if got := field(shown, "NumTasks"); got != want.tasks {
			t.Errorf("%s: %s tasks, want %s", form, got, want.tasks)
		}
		out := s.must("explain", ids[form])
		alone := want.says != "" && slurmplug.RewritesTasks(lab.Version())
		if alone != strings.Contains(out, "a write would break its request on this Slurm: left alone") || alone && !strings.Contains(out, want.says) {
			t.Errorf("%s, left alone %t:\n%s", form, alone, out)
		}
	}
}
