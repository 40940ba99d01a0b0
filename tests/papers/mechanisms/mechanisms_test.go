package mechanisms_test

import (
	"slices"
	"testing"

	"slurmprio/priod/size"
	"slurmprio/tests/papers/mechanisms"
	"slurmprio/tests/sizes"
)

// The worked example of Synergy's code on one server (research notes, 1.4), and
// what the other mechanisms make of it.
func TestOneServer(t *testing.T) {
	curve := sizes.Curves(t)
	hungryFirst := []string{"alexnet", "alexnet", "alexnet", "alexnet", "gnmt", "gnmt", "gnmt", "gnmt"}
	hungryLast := []string{"gnmt", "gnmt", "gnmt", "gnmt", "alexnet", "alexnet", "alexnet", "alexnet"}
	for _, c := range []struct {
		mechanism string
		models    []string
		want      []string
	}{
		{"proportional", hungryFirst, []string{"3x1", "3x1", "3x1", "3x1", "3x1", "3x1", "3x1", "3x1"}},
		{"greedy", hungryFirst, []string{"12x2.94", "12x2.94", "-", "-", "-", "-", "-", "-"}},
		{"tune", hungryFirst, []string{"3x1", "3x1", "3x1", "3x1", "1x1", "1x1", "1x1", "1x1"}},
		{"tune", hungryLast, []string{"1x1", "1x1", "1x1", "1x1", "3x1", "3x1", "3x1", "3x1"}},
		{"tune-best-fit", hungryFirst, []string{"3x1", "3x1", "3x1", "3x1", "1x1", "1x1", "1x1", "1x1"}},
		{"waterfill", hungryFirst, []string{"5x1.53", "5x1.53", "5x1.53", "5x1.53", "1x1", "1x1", "1x1", "1x1"}},
	} {
		var jobs []size.Job
		for _, m := range c.models {
			jobs = append(jobs, sizes.Job(curve(m), 1))
		}
		got := sizes.Words(len(jobs), pack(t, c.mechanism)(jobs, sizes.Servers(1)))
		if !slices.Equal(got, c.want) {
			t.Errorf("%v of %v: %v, want %v", c.mechanism, c.models, got, c.want)
		}
	}
}

func TestByName(t *testing.T) {
	if _, err := mechanisms.ByName("most"); err == nil {
		t.Error("no error")
	}
}

// pack is a mechanism.
func pack(t testing.TB, name string) mechanisms.Pack {
	p, err := mechanisms.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProperties(t *testing.T) {
	var ways []sizes.Way
	for _, name := range mechanisms.Names {
		ways = append(ways, sizes.Way{Name: name, New: func() func([]size.Job, []size.Node) []size.Grant { return pack(t, name) }, Passes: name == "greedy"})
	}
	sizes.Check(t, ways)
}
