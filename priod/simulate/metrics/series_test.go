package metrics

import "testing"

func TestSeriesIsBoundedAndKeepsItsEnd(t *testing.T) {
	var s Series
	for i := range 100_000 {
		s.Add(Point{At: float64(i), GPUs: i})
	}
	if len(s.points) >= maxPoints || len(s.points) < maxPoints/4 || s.points[len(s.points)-1].GPUs != 99_999 {
		t.Fatal(len(s.points), s.points[len(s.points)-1])
	}
	for i := 1; i < len(s.points); i++ {
		if s.points[i].At <= s.points[i-1].At {
			t.Fatal("not in order")
		}
	}
}
