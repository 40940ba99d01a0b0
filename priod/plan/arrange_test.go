package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// bruteForce returns the most jobs that can keep their value, by trying every
// value of the band for every tier.
func bruteForce(tiers []Tier, b Band) int {
	best := map[int64]int{b.Hi + b.Step: 0} // highest kept count with the last tier at this value
	for _, t := range tiers {
		next := map[int64]int{}
		for v := b.Lo; v <= b.Hi; v++ {
			own := 0
			for _, now := range t {
				if now == v {
					own++
				}
			}
			for above, kept := range best {
				if above-v >= b.Step {
					if old, ok := next[v]; !ok || kept+own > old {
						next[v] = kept + own
					}
				}
			}
		}
		best = next
	}
	most := 0
	for _, kept := range best {
		most = max(most, kept)
	}
	return most
}

func drawTiers(t *rapid.T, b Band, most int) []Tier {
	n := rapid.IntRange(1, min(most, b.Capacity())).Draw(t, "n")
	tiers := make([]Tier, n)
	for i := range tiers {
		tiers[i] = rapid.SliceOfN(rapid.Int64Range(b.Lo-3, b.Hi+3), 0, 3).Draw(t, fmt.Sprint("tier", i))
	}
	return tiers
}

func kept(tiers []Tier, values []int64) int {
	n := 0
	for i, t := range tiers {
		for _, v := range t {
			if v == values[i] {
				n++
			}
		}
	}
	return n
}

func checkOrder(t interface{ Fatalf(string, ...any) }, values []int64, b Band) {
	for i, v := range values {
		if v < b.Lo || v > b.Hi {
			t.Fatalf("value %d of tier %d leaves the band [%d,%d]: %v", v, i, b.Lo, b.Hi, values)
		}
		if i > 0 && values[i-1]-v < b.Step {
			t.Fatalf("tiers %d and %d are closer than %d: %v", i-1, i, b.Step, values)
		}
	}
}

func TestArrangeKeepsOrderBandAndMostValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.Int64Range(1, 4).Draw(t, "step")
		b := Band{Lo: rapid.Int64Range(-5, 5).Draw(t, "lo"), Step: step}
		b.Hi = b.Lo + rapid.Int64Range(0, 30).Draw(t, "width")
		tiers := drawTiers(t, b, 8)
		values, renumbered := Arrange(tiers, b)
		checkOrder(t, values, b)
		if got, want := kept(tiers, values), bruteForce(tiers, b); got != want {
			t.Fatalf("%d jobs keep their value, %d could: tiers %v values %v", got, want, tiers, values)
		}
		if renumbered < 0 {
			t.Fatalf("renumbered %d", renumbered)
		}
	})
}

func TestArrangeIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Band{Lo: 10, Hi: 10 + 10*rapid.Int64Range(20, 1000).Draw(t, "width"), Step: 10}
		values, _ := Arrange(drawTiers(t, b, 20), b)
		again := make([]Tier, len(values))
		for i, v := range values {
			again[i] = Tier{v}
		}
		second, renumbered := Arrange(again, b)
		if fmt.Sprint(second) != fmt.Sprint(values) || renumbered != 0 {
			t.Fatalf("arranging %v again gives %v", values, second)
		}
	})
}

// A queue that is served at the head and fed at the tail needs one write for
// each arrival, and renumbers so rarely that this costs little more.
func TestArrangeQueueRenumbersRarely(t *testing.T) {
	b := Band{Lo: 1000, Hi: 2_000_000, Step: 1000}
	rnd := rand.New(rand.NewPCG(1, 2))
	var queue []int64
	const unset = -1
	arrivals, writes, renumberings := 0, 0, 0
	for range 20000 {
		for range rnd.IntN(3) {
			queue = append(queue, unset)
			arrivals++
		}
		for range rnd.IntN(3) {
			if len(queue) > 0 {
				queue = queue[1:]
			}
		}
		if len(queue) > 500 {
			queue = queue[len(queue)-500:]
		}
		tiers := make([]Tier, len(queue))
		for i, v := range queue {
			if v != unset {
				tiers[i] = Tier{v}
			}
		}
		values, renumbered := Arrange(tiers, b)
		checkOrder(t, values, b)
		writes += len(queue) - kept(tiers, values)
		renumberings += renumbered
		queue = values
	}
	if extra := writes - arrivals; extra > arrivals/2 {
		t.Fatalf("%d arrivals cost %d writes, %d of them renumberings", arrivals, writes, renumberings)
	}
	t.Logf("%d arrivals, %d writes, %d renumbered", arrivals, writes, renumberings)
}

func TestArrangeCountsRenumbering(t *testing.T) {
	b := Band{Lo: 10, Hi: 30, Step: 10}
	// 30 and 20 are in order, but a newcomer between them has no room.
	values, renumbered := Arrange([]Tier{{30}, {}, {20}}, b)
	if fmt.Sprint(values) != "[30 20 10]" || renumbered != 1 {
		t.Fatal(values, renumbered)
	}
}

func TestArrangeNothing(t *testing.T) {
	if values, renumbered := Arrange(nil, Band{1, 10, 1}); values != nil || renumbered != 0 {
		t.Fatal(values, renumbered)
	}
}
