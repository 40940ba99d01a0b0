package growth

import (
	"math/rand/v2"
	"testing"
)

func TestGrowthIsSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	const perHour = 1200 // jobs that end
	series := func(step, noise float64) []float64 {
		var all []float64
		for hour := range 24 {
			all = append(all, 3000+float64(hour)*step+noise*r.Float64())
		}
		return all
	}
	sawtooth := make([]float64, 24)
	for i := range sawtooth {
		sawtooth[i] = float64(1000 + 311*(i%7))
	}
	for _, c := range []struct {
		name  string
		q     Quantity
		grows bool
	}{
		{"still", Quantity{Judged: true, Margin: 0.1, Values: series(0, 0)}, false},
		{"noise", Quantity{Judged: true, Margin: 0.1, Values: series(0, 900)}, false},
		{"one record for each job", Quantity{Judged: true, Margin: 0.1, Values: series(perHour, 900)}, true},
		{"one record for each tenth job", Quantity{Judged: true, Margin: 0.1, Values: series(perHour/10, 300)}, true},
		{"a file each hour", Quantity{Judged: true, Slack: 2, Values: series(1, 0)}, true},
		{"falling", Quantity{Judged: true, Values: series(-50, 10)}, false},
		{"a sawtooth", Quantity{Judged: true, Margin: 0.1, Values: sawtooth}, false},
		{"too high", Quantity{Most: 2000, Values: sawtooth}, true},
		{"not judged", Quantity{Values: series(perHour, 0)}, false},
	} {
		c.q.Name = c.name
		if why := c.q.grown(); (why != "") != c.grows {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
