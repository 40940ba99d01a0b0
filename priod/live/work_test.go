package live

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/policy/speed"
	"slurmprio/slurmplug"
)

// Text of users: whatever it is, it gives a number of steps or none.
func TestStepsInACommandLine(t *testing.T) {
	steps := regexp.MustCompile(`--(?:num_)?steps[ =]([0-9.e+-]+)`)
	for line, want := range map[string]float64{
		"sbatch train.sh --num_steps 2931": 2931, "sbatch --gres=gpu:1 train.sh --steps=1.5e3": 1500,
		"sbatch train.sh": 0, "": 0, "sbatch train.sh --steps 0": 0, "sbatch train.sh --steps -5": 0,
		"sbatch train.sh --steps 1e999": 0, "sbatch train.sh --steps e": 0, "sbatch train.sh --steps 5 --steps 7": 5,
	} {
		if got := stepsIn(line, steps); got != want {
			t.Errorf("%q has %v steps, want %v", line, got, want)
		}
	}
}

// Rows of sacct: who counts, and for how long.
func TestCompletedJobs(t *testing.T) {
	row := func(id uint32, start, end int64, state, gpuType, comment string) stay {
		r := &slurmplug.Run{RawID: id, User: "ann", Name: "train", State: state, Comment: comment}
		if start > 0 {
			r.Start = time.Unix(start, 0)
		}
		if end > 0 {
			r.End = time.Unix(end, 0)
		}
		return stay{Run: r, gpuType: gpuType, gpus: 2}
	}
	const saves = "prio:ckpt=600&steps=500&v=1&workload=lm"
	for name, c := range map[string]struct {
		rows []stay
		want []speed.Run
	}{
		"one run": {
			[]stay{row(1, 100, 400, "COMPLETED", "a100", "my words")},
			[]speed.Run{{Program: speed.Program{User: "ann", Name: "train", GPUs: 2}, Seconds: map[string]float64{"a100": 300}}},
		},
		"a job that saves its state": {
			[]stay{row(1, 900, 1000, "COMPLETED", "v100", saves), row(1, 100, 400, "PREEMPTED", "a100", saves)},
			[]speed.Run{{Program: speed.Program{Workload: "lm", GPUs: 2}, Seconds: map[string]float64{"a100": 300, "v100": 100}, Work: 500}},
		},
		"a job that begins anew": {
			[]stay{row(1, 100, 400, "PREEMPTED", "a100", ""), row(1, 900, 1000, "COMPLETED", "v100", "")},
			[]speed.Run{{Program: speed.Program{User: "ann", Name: "train", GPUs: 2}, Seconds: map[string]float64{"v100": 100}}},
		},
		"an id that came again": {
			[]stay{row(1, 100, 400, "FAILED", "a100", saves), row(1, 900, 1000, "COMPLETED", "v100", saves)},
			[]speed.Run{{Program: speed.Program{Workload: "lm", GPUs: 2}, Seconds: map[string]float64{"v100": 100}, Work: 500}},
		},
		"what did not complete": {rows: []stay{
			row(1, 100, 400, "FAILED", "a100", ""), row(2, 100, 400, "TIMEOUT", "a100", ""), row(3, 100, 400, "CANCELLED", "a100", ""),
			row(4, 100, 0, "RUNNING", "a100", ""), row(5, 0, 0, "PENDING", "", ""), row(6, 100, 400, "OUT_OF_MEMORY", "a100", ""),
		}},
		"nobody knows where":     {rows: []stay{row(1, 100, 400, "COMPLETED", "", "")}},
		"nobody knows all of it": {rows: []stay{row(1, 100, 400, "PREEMPTED", "", saves), row(1, 900, 1000, "COMPLETED", "v100", saves)}},
		"too short":              {rows: []stay{row(1, 100, 159, "COMPLETED", "a100", "")}},
		"a tag that is not valid": {
			[]stay{row(1, 100, 400, "COMPLETED", "a100", "prio:steps=many&v=1")},
			[]speed.Run{{Program: speed.Program{User: "ann", Name: "train", GPUs: 2}, Seconds: map[string]float64{"a100": 300}}},
		},
	} {
		if d := cmp.Diff(c.want, completed(c.rows, time.Minute, nil)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
