package slurmplug

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Unlimited is a time limit that Slurm calls UNLIMITED.
const Unlimited time.Duration = -1

// NoLimit is what Slurm writes as the time limit of a job that starts without one
// (YEAR_MINUTES).
const NoLimit = 365 * 24 * time.Hour

const day = 24 * time.Hour

// ParseTimeLimit reads a span of time as Slurm writes it: "30" (minutes),
// "30:15", "3:30:15", "2-12", "2-12:30", "2-12:30:15", "UNLIMITED". A span that
// is not set ("NONE", "Partition_Limit", ...) is 0.
func ParseTimeLimit(s string) (time.Duration, error) {
	switch {
	case s == "Partition_Limit", s == "NOT_SET", s == "INVALID", isUnset(s):
		return 0, nil
	case s == "-1", strings.EqualFold(s, "UNLIMITED"), strings.EqualFold(s, "INFINITE"):
		return Unlimited, nil
	}
	rest := s
	total := time.Duration(0)
	units := []time.Duration{time.Minute, time.Second} // of "30" and "30:15"
	if d, clock, hasDays := strings.Cut(s, "-"); hasDays {
		n, err := strconv.ParseUint(d, 10, 32)
		if err != nil || n > maxDays {
			return 0, notSpan(s)
		}
		total, rest = time.Duration(n)*day, clock
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	} else if strings.Count(s, ":") == 2 {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	fields := strings.Split(rest, ":")
	if len(fields) > len(units) {
		return 0, notSpan(s)
	}
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 32)
		if err != nil || n > uint64((maxDays*day)/units[i]) {
			return 0, notSpan(s)
		}
		total += time.Duration(n) * units[i]
	}
	if total > maxDays*day {
		return 0, notSpan(s)
	}
	return total, nil
}

// maxDays is the longest span; a time.Duration holds more (292 years).
const maxDays = 36500

func notSpan(s string) error {
	return fmt.Errorf("time span %.40q: want minutes, MM:SS, HH:MM:SS, D-HH[:MM[:SS]] or UNLIMITED", s)
}

// FormatTimeLimit writes a span as Slurm reads it: "2-12:30:15", "UNLIMITED".
func FormatTimeLimit(d time.Duration) string {
	if d < 0 {
		return "UNLIMITED"
	}
	seconds := int64(d / time.Second)
	s := fmt.Sprintf("%02d:%02d:%02d", seconds/3600%24, seconds/60%60, seconds%60)
	if days := seconds / 86400; days > 0 {
		return strconv.FormatInt(days, 10) + "-" + s
	}
	return s
}

// parseEpoch reads a time that Slurm printed with SLURM_TIME_FORMAT=%s. A time
// that is not set is the zero Time.
func parseEpoch[T string | []byte](s T) (time.Time, error) {
	n, ok := decimal(s, math.MaxInt64/2)
	switch {
	case ok && n == 0:
		return time.Time{}, nil
	case ok:
		return time.Unix(int64(n), 0).UTC(), nil
	case isUnset(string(s)):
		return time.Time{}, nil
	}
	return time.Time{}, fmt.Errorf("%.40q is no time in seconds", s)
}

// parseUint reads decimal digits and nothing else, up to limit.
func parseUint[T string | []byte](s T, limit uint64) (uint64, error) {
	n, ok := decimal(s, limit)
	if !ok {
		return 0, fmt.Errorf("%.40q is no number from 0 to %d", s, limit)
	}
	return n, nil
}

// decimal is parseUint without the cost of an error.
func decimal[T string | []byte](s T, limit uint64) (n uint64, ok bool) {
	if len(s) == 0 || len(s) > 19 {
		return 0, false
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return n, n <= limit
}
