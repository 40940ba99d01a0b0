package slurmplug

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseTimeLimit(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"30":              30 * time.Minute,
		"525600":          365 * day,
		"30:15":           30*time.Minute + 15*time.Second,
		"3:30:15":         3*time.Hour + 30*time.Minute + 15*time.Second,
		"2-12":            60 * time.Hour,
		"2-12:30":         60*time.Hour + 30*time.Minute,
		"2-03:04:05":      51*time.Hour + 4*time.Minute + 5*time.Second,
		"365-00:00:00":    365 * day,
		"00:00:30":        30 * time.Second,
		"UNLIMITED":       Unlimited,
		"INFINITE":        Unlimited,
		"infinite":        Unlimited,
		"Partition_Limit": 0,
		"NONE":            0,
		"N/A":             0,
		"NOT_SET":         0,
		"":                0,
	} {
		if got, err := ParseTimeLimit(s); got != want || err != nil {
			t.Errorf("ParseTimeLimit(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"x", "-", "1-", "-5", "1:2:3:4", "1-2:3:4:5", "99999999999", "1:-2", "1 2", "36501-0", "::"} {
		if got, err := ParseTimeLimit(s); err == nil {
			t.Errorf("ParseTimeLimit(%q) = %v, want an error", s, got)
		}
	}
}

func TestTimeLimitRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(-1, int64(maxDays*day/time.Second)-1).Draw(t, "seconds")) * time.Second
		if want < 0 {
			want = Unlimited
		}
		if got, err := ParseTimeLimit(FormatTimeLimit(want)); got != want || err != nil {
			t.Fatalf("%v: %q reads back as %v, %v", want, FormatTimeLimit(want), got, err)
		}
	})
}

func FuzzTimeLimit(f *testing.F) {
	for _, s := range []string{"2-03:04:05", "UNLIMITED", "30", "365-00:00:00", "10:00", "36500-61"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseTimeLimit(s)
		if err != nil || d == 0 {
			return
		}
		if back, err := ParseTimeLimit(FormatTimeLimit(d)); back != d || err != nil || d < Unlimited {
			t.Fatalf("%q is %v, which reads back as %v, %v", s, d, back, err)
		}
	})
}

func TestParseEpoch(t *testing.T) {
	for s, want := range map[string]time.Time{
		"1795229008": time.Unix(1795229008, 0).UTC(), "0": {}, "N/A": {}, "NONE": {}, "Unknown": {}, "": {}, "None": {},
	} {
		if got, err := parseEpoch(s); got != want || err != nil {
			t.Errorf("parseEpoch(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"2026-11-21T01:02:03", "-1", "1.5", "12345678901234567890", "now"} {
		if got, err := parseEpoch(s); err == nil {
			t.Errorf("parseEpoch(%q) = %v, want an error", s, got)
		}
	}
}
