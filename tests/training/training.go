// Package training is a stand-in for a training whose speed depends on the CPUs
// that it got. It models one thing: a step takes as long as a given curve says
// for the CPUs that Slurm gave to each GPU of the job or step
// (SLURM_CPUS_ON_NODE over SLURM_GPUS_ON_NODE), the first steps longer. It
// sleeps that long and burns nothing, because the nodes of a lab claim CPUs that
// the machine does not have; so two trainings on one node never disturb each
// other, as they would where memory bandwidth or a disk is shared.
package training

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"slurmprio/slurmplug/jobtag"
)

// Training is one run.
type Training struct {
	Curve  jobtag.Curve  // relative speed against CPUs for each GPU
	Rate   float64       // steps a second at speed 1
	Steps  int           // 0: for ever
	Warmup time.Duration // at half the speed
	Every  int           // steps from report to report
}

// CPUs for each GPU that Slurm gave, by the job's environment.
func CPUs(getenv func(string) string) (float64, error) {
	cpus, err := strconv.Atoi(getenv("SLURM_CPUS_ON_NODE"))
	if err != nil || cpus < 1 {
		return 0, fmt.Errorf("SLURM_CPUS_ON_NODE=%q: want a number; run it as a job", getenv("SLURM_CPUS_ON_NODE"))
	}
	gpus, err := strconv.Atoi(getenv("SLURM_GPUS_ON_NODE"))
	if err != nil || gpus < 1 {
		gpus = 1
	}
	return float64(cpus) / float64(gpus), nil
}

// ParseCurves reads curves as a tag holds them, "a100:3x1-9x2.4,v100:2x1", and
// picks the one of the node: in a lab a node is named after its GPU type.
func ParseCurves(text, node string) (jobtag.Curve, error) {
	var tag jobtag.Tag
	if err := tag.Set("cpu", text); err != nil {
		return nil, err
	}
	for gpuType, curve := range tag.CPU {
		if strings.HasPrefix(node, gpuType) {
			return curve, nil
		}
	}
	return nil, fmt.Errorf("no curve for node %q in %q", node, text)
}

// Speed is that of the curve: linear between its points, level outside.
func Speed(c jobtag.Curve, cpus float64) float64 {
	for i, p := range c {
		if cpus > p.Amount {
			continue
		}
		if i == 0 {
			return p.Speed
		}
		before := c[i-1]
		return before.Speed + (p.Speed-before.Speed)*(cpus-before.Amount)/(p.Amount-before.Amount)
	}
	return c[len(c)-1].Speed
}

// Run trains with so many CPUs for each GPU and reports to w. Steps are kept to
// the clock, so that what sleeping takes too long is made up for.
func (t *Training) Run(w io.Writer, cpus float64) error {
	step := time.Duration(float64(time.Second) / (t.Rate * Speed(t.Curve, cpus)))
	next, began := time.Now(), time.Now()
	for n := 1; t.Steps == 0 || n <= t.Steps; n++ {
		if next = next.Add(step); time.Since(began) < t.Warmup {
			next = next.Add(step)
		}
		time.Sleep(time.Until(next))
		if n%max(1, t.Every) == 0 || n == t.Steps {
			if _, err := fmt.Fprintf(w, "step %d/%d, %g CPUs for each GPU\n", n, t.Steps, cpus); err != nil {
				return err
			}
		}
	}
	return nil
}
