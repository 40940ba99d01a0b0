package slurmplug

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEnds(t *testing.T) {
	got, err := parseEnds("17|1:0|||1\n17.batch|1:0|329421824|1|1\n17.extern||100|1|1\n17.0||104857600|4|2\n18|0:9|||2\n19||||1\n", new(table))
	want := map[uint32]End{17: {StepCode: 1, PeakMB: 315}, 18: {StepSignal: 9}, 19: {}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, bad := range []string{"17|1:0\n", "x|1:0|||1\n"} {
		if _, err := parseEnds(bad, new(table)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	for _, odd := range []string{"17|1|||1\n", "17.0|0:0|lots|1|1\n", "17.0|0:0|1|x|1\n"} { // costs its own line
		got, err := parseEnds(odd+"18|0:9|||2\n", new(table))
		if diff := cmp.Diff(map[uint32]End{18: {StepSignal: 9}}, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", odd, err, diff)
		}
	}
}

func TestPathOfOutput(t *testing.T) {
	for _, x := range []struct {
		w    Written
		want string
	}{
		{Written{Dir: "/home/a"}, "/home/a/slurm-17.out"},
		{Written{Dir: "/home/a", Array: "16", Task: "3"}, "/home/a/slurm-16_3.out"},
		{Written{Dir: "/home/a", Stdout: "out.txt"}, "/home/a/out.txt"},
		{Written{Dir: "/home/a", Stdout: "out.txt", Stderr: "/x/%x-%5j-%u.err", Name: "n", User: "ann"}, "/x/n-00017-ann.err"},
		{Written{Dir: "/home/a", Stdout: "%%a"}, "/home/a/%a"},
		{Written{Dir: "/home/a", Stdout: "%t"}, ""},
		{Written{Dir: "/home/a", Stdout: "%"}, ""},
		{Written{Dir: "relative", Stdout: "x"}, ""},
		{Written{Dir: "/home/a", Stdout: strings.Repeat("x", 5000)}, ""},
		{Written{Dir: "/home/a", Stdout: "a\x00b"}, ""},
		{Written{Dir: "/home/a", Stdout: "%9999999999999999999999j"}, ""},
	} {
		if got, err := x.w.Path(17); got != x.want || (err == nil) != (x.want != "") {
			t.Errorf("%+v: %q, %v; want %q", x.w, got, err, x.want)
		}
	}
}
