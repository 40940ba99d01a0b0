package live

import (
	"regexp"
	"testing"
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
