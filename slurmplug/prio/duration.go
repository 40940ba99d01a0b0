package prio

import (
	"strconv"
	"strings"
	"time"
)

// parseTime reads a time as Slurm writes it ("minutes", "minutes:seconds",
// "hours:minutes:seconds", "days-hours", "days-hours:minutes",
// "days-hours:minutes:seconds") or as Go does ("90s", "1h30m"). A bare number
// is minutes, as everywhere in sbatch.
func parseTime(s string) (time.Duration, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	if strings.Trim(s, "0123456789:-") != "" {
		d, err := time.ParseDuration(s)
		return d, err == nil
	}
	units := []time.Duration{time.Minute}
	days, rest, hasDays := strings.Cut(s, "-")
	parts := strings.Split(rest, ":")
	switch {
	case hasDays:
		units = []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
		parts = append([]string{days}, parts...)
	default:
		parts = strings.Split(s, ":")
		switch len(parts) {
		case 2:
			units = []time.Duration{time.Minute, time.Second}
		case 3:
			units = []time.Duration{time.Hour, time.Minute, time.Second}
		}
	}
	if len(parts) > len(units) {
		return 0, false
	}
	var sum time.Duration
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 31) // 31 bits of days fit a Duration only up to 106,751
		if err != nil || time.Duration(n) > (1<<62)/units[i] {
			return 0, false
		}
		sum += time.Duration(n) * units[i]
	}
	return sum, sum >= 0
}
