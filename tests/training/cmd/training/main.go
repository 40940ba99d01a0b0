// Command training runs a stand-in for a training in a Slurm job: see package
// training.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"slurmprio/tests/training"
)

func main() {
	var t training.Training
	curves := flag.String("curve", "", "relative speed against CPUs for each GPU, as in --prio-cpu")
	flag.Float64Var(&t.Rate, "rate", 20, "steps a second at speed 1")
	flag.IntVar(&t.Steps, "steps", 0, "end after so many steps; 0: never")
	flag.DurationVar(&t.Warmup, "warmup", 0, "half the speed at first")
	flag.IntVar(&t.Every, "every", 1, "steps from report to report")
	var work training.Work
	flag.Float64Var(&work.Seconds, "work", 0, "in place of steps: so many seconds at speed 1, with checkpoints; told to leave it goes on until it is killed")
	flag.StringVar(&work.File, "checkpoint", "", "of -work")
	flag.DurationVar(&work.Every, "save", 0, "time between checkpoints of -work")
	flag.Parse()
	var err error
	if t.Curve, err = training.ParseCurves(*curves, os.Getenv("SLURMD_NODENAME")); err == nil {
		var cpus float64
		if cpus, err = training.CPUs(os.Getenv); err == nil {
			if work.Seconds > 0 {
				signal.Ignore(syscall.SIGTERM)
				err = work.Run(training.Speed(t.Curve, cpus))
			} else {
				err = t.Run(os.Stdout, cpus)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "training:", err)
		os.Exit(1)
	}
}
