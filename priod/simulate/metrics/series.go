package metrics

// Point is the state of the cluster at one time.
type Point struct {
	At     float64 `json:"at_s"`
	GPUs   int     `json:"gpus"`  // in use
	Queued int     `json:"queue"` // jobs that wait
}

// maxPoints bounds a series: enough for a plot as wide as a page.
const maxPoints = 4096

// Series keeps the last state of each of evenly spaced moments and doubles
// their distance when they become too many.
type Series struct {
	points []Point
	every  float64
}

func (s *Series) Add(p Point) {
	if n := len(s.points); n > 0 && (p.At == s.points[n-1].At || s.slot(p) == s.slot(s.points[n-1]) && n > 1) {
		s.points[n-1] = p
		return
	}
	s.points = append(s.points, p)
	if len(s.points) < maxPoints {
		return
	}
	s.every = max(2*s.every, 2*(p.At-s.points[0].At)/maxPoints)
	old := s.points
	s.points = s.points[:1]
	for _, q := range old[1:] {
		s.Add(q)
	}
}

func (s *Series) slot(p Point) int64 {
	if s.every == 0 {
		return -1 - int64(p.At*1e6)
	}
	return int64((p.At - s.points[0].At) / s.every)
}

// Points returns what the series kept.
func (s *Series) Points() []Point { return s.points }
