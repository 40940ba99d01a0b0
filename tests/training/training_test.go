package training

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTakesAsLongAsItsCurveSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		curve, err := ParseCurves("a100:1x0.3-3x1-9x2,t4:1x1", "a100-2")
		if err != nil {
			t.Fatal(err)
		}
		for cpus, speed := range map[float64]float64{0.5: 0.3, 1: 0.3, 2: 0.65, 3: 1, 6: 1.5, 9: 2, 64: 2} {
			began := time.Now()
			var out strings.Builder
			train := Training{Curve: curve, Rate: 20, Steps: 100, Every: 25, Warmup: time.Second}
			if err := train.Run(&out, cpus); err != nil {
				t.Fatal(err)
			}
			if took, want := time.Since(began).Seconds(), 100/(20*speed)+0.5; math.Abs(took-want) > 0.1*want || strings.Count(out.String(), "step ") != 4 {
				t.Errorf("%v CPUs: %v s, want %v\n%s", cpus, took, want, &out)
			}
		}
	})
}

func TestCPUsFromTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		cpus, gpus string
		want       float64
	}{{"12", "4", 3}, {"12", "", 12}, {"", "1", 0}, {"x", "1", 0}} {
		env := map[string]string{"SLURM_CPUS_ON_NODE": c.cpus, "SLURM_GPUS_ON_NODE": c.gpus}
		if got, err := CPUs(func(k string) string { return env[k] }); got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCurves("a100:1x1", "v100-1"); err == nil {
		t.Error("found a curve for another type")
	}
}
