package slurmplug

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseMemory reads an amount of memory, "62.50G", "100M", "3072" (MB), and
// returns MB, rounded up: Slurm counts memory in whole MB.
func ParseMemory(s string) (int64, error) {
	mb, err := parseUnits(s, 'M')
	if err != nil {
		return 0, fmt.Errorf("memory %.40q: %w", s, err)
	}
	return int64(math.Ceil(mb)), nil
}

// parseCount reads a number that Slurm may have shortened: "2048", "2K",
// "1.50M". Units are powers of 1024 (slurm_protocol_api.c, convert_num_unit).
func parseCount(s string) (int64, error) {
	if n, ok := decimal(s, math.MaxInt64); ok {
		return int64(n), nil
	}
	n, err := parseUnits(s, 0)
	return int64(math.Round(n)), err
}

// units are the suffixes of Slurm's numbers; each is 1024 times the one before.
const units = "KMGTPE"

// parseUnits reads a number with a unit and returns it counted in the unit of,
// 0 for ones. A number without a unit is in that unit already.
func parseUnits(s string, of byte) (float64, error) {
	exponent := 0
	digits := s
	if n := len(s); n > 0 && !isDigit(s[n-1]) {
		if exponent = strings.IndexByte(units, s[n-1]); exponent < 0 {
			return 0, fmt.Errorf("%.40q is no number with a unit of %s", s, units)
		}
		exponent -= strings.IndexByte(units, of) // -1 for ones
		digits = s[:n-1]
	}
	for i := range len(digits) {
		if c := digits[i]; !isDigit(c) && (c != '.' || i == 0) { // nor signs, exponents, inf
			return 0, fmt.Errorf("%.40q is no number", s)
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no number", s)
	}
	if n *= math.Pow(1024, float64(exponent)); n >= math.MaxInt64 {
		return 0, fmt.Errorf("%.40q is out of range", s)
	}
	return n, nil
}
