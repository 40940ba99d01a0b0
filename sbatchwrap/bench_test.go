package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// BenchmarkAdded measures what the wrapper adds to the real sbatch, side by
// side: pairs of submissions of the same script, in turns. added-ms is the
// difference of the medians.
func BenchmarkAdded(b *testing.B) {
	l := lab.Shared(b)
	program(b, wrapperOnce)
	script := writeFile(b, built+"/bench.sh", "#!/bin/sh\n#SBATCH --comment=mine\n#PRIO --prio-type te --prio-grace 5\ntrue\n")
	for _, c := range []struct {
		name string
		args []string // beyond what both get
	}{
		{"tagged", []string{"--prio-workload=resnet50"}},
		{"untagged", []string{"--wrap=true"}},
		{"abbreviated", []string{"--part=gpu"}}, // has to ask the installed sbatch
	} {
		b.Run(c.name, func(b *testing.B) {
			run := func(name string, args ...string) float64 {
				cmd := l.As("").Command(context.Background(), name, args...)
				start := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%s: %v: %s", name, err, out)
				}
				return float64(time.Since(start)) / 1e6
			}
			common := []string{"-Q", "-H", "-N1"}
			target := []string{script}
			if c.name == "untagged" {
				target = nil
			}
			var direct, wrapped []float64
			for b.Loop() {
				for range 50 {
					own := c.args
					if c.name == "tagged" {
						own = nil
					}
					direct = append(direct, run("sbatch", slices.Concat(common, own, target)...))
					wrapped = append(wrapped, run(wrapper(), slices.Concat(common, c.args, target)...))
				}
			}
			slices.Sort(direct)
			slices.Sort(wrapped)
			median := func(v []float64) float64 { return (v[(len(v)-1)/2] + v[len(v)/2]) / 2 }
			b.ReportMetric(median(direct), "sbatch-ms")
			b.ReportMetric(median(wrapped), "wrapper-ms")
			b.ReportMetric(median(wrapped)-median(direct), "added-ms")
			b.ReportMetric(0, "ns/op")
			l.Run(context.Background(), "scancel", "--state=PENDING", "--quiet", "--partition=gpu")
		})
	}
}

func wrapper() string { path, _ := wrapperOnce(); return path }
