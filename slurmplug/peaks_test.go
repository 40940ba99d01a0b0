package slurmplug

import (
	"maps"
	"testing"
)

// The lines are those of 22.05.8, 24.11.5 and 26.05.5, with and without --noconvert.
func TestPeaks(t *testing.T) {
	got, err := parsePeaks("1.extern||1\n1.batch|329421824|1\n1.0|104857600|2\n7.batch|321672K|1\n8.batch|1.50M|0\n9.extern||0\n", new(table))
	if want := map[uint32]int64{1: 315 + 200, 7: 315, 8: 2}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	// What a step of a job uses may not have been measured yet.
	if got, err := parsePeaks("1.extern||1\n1.batch|329421824|1\n1.0||2\n2.batch||1\n3.batch|1048576|1\n", new(table)); err != nil || !maps.Equal(got, map[uint32]int64{3: 1}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, out := range []string{"1.batch|1\n", "x.batch|1|1\n", "1|2|3|4\n"} {
		if got, err := parsePeaks(out, new(table)); err == nil {
			t.Errorf("%q is believed: %v", out, got)
		}
	}
	for _, odd := range []string{"1.batch|-1|1\n", "1.batch|1e99|1\n", "1.batch|NaN|1\n", "1.batch|1|many\n"} { // costs its job
		if got, err := parsePeaks(odd+"1.0|1048576|1\n2.batch|1048576|1\n", new(table)); err != nil || !maps.Equal(got, map[uint32]int64{2: 1}) {
			t.Errorf("%q: %v, %v", odd, got, err)
		}
	}
	if got, err := parsePeaks("", new(table)); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzPeaks(f *testing.F) {
	f.Add("1.extern||1\n1.batch|329421824|1\n1.0|104857600|2\n7.batch|321672K|1\n")
	f.Fuzz(func(t *testing.T, out string) {
		peaks, err := parsePeaks(out, new(table))
		if err != nil && peaks != nil {
			t.Fatal("peaks beside an error")
		}
	})
}
