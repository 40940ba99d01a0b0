package curve

import (
	"math"
	"strings"
)

// Bar draws a part of a whole, 0 to 1, as a bar at most width columns long: in
// eighths of a column, or, for a terminal without Unicode, in whole ones.
func Bar(part float64, width int, unicode bool) string {
	if !(part > 0) {
		return ""
	}
	part = min(part, 1)
	if !unicode {
		return strings.Repeat("#", max(1, int(math.Round(part*float64(width)))))
	}
	eighths := max(1, int(math.Round(part*float64(width)*8)))
	bar := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		bar += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return bar
}
