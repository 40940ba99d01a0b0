// Command training runs a stand-in for a training in a Slurm job: see package
// training.
package main

import (
	"flag"
	"fmt"
	"os"

	"slurmprio/tests/training"
)

func main() {
	var t training.Training
	curves := flag.String("curve", "", "relative speed against CPUs for each GPU, as in --prio-cpu")
	flag.Float64Var(&t.Rate, "rate", 20, "steps a second at speed 1")
	flag.IntVar(&t.Steps, "steps", 0, "end after so many steps; 0: never")
	flag.DurationVar(&t.Warmup, "warmup", 0, "half the speed at first")
	flag.IntVar(&t.Every, "every", 1, "steps from report to report")
	flag.Parse()
	var err error
	if t.Curve, err = training.ParseCurves(*curves, os.Getenv("SLURMD_NODENAME")); err == nil {
		var cpus float64
		if cpus, err = training.CPUs(os.Getenv); err == nil {
			err = t.Run(os.Stdout, cpus)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "training:", err)
		os.Exit(1)
	}
}
