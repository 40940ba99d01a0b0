package slurmplug

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// QOS reads every quality of service. Without slurmdbd it is an error.
func (c *Client) QOS(ctx context.Context) ([]QOS, error) {
	out, err := c.readLines(ctx, "sacctmgr", "--noheader", "--parsable2", "show", "qos",
		"format=Name,Priority,GraceTime,Preempt,PreemptMode,Flags")
	if err != nil {
		return nil, err
	}
	return parseQOS(string(out))
}

func parseQOS(out string) ([]QOS, error) {
	var all []QOS
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		q, err := qos(strings.Split(strings.TrimSuffix(line, "\n"), "|"))
		if err != nil {
			return nil, doubtful("sacctmgr show qos", "%q: %w", firstLine([]byte(line)), err)
		}
		if seen[q.Name] {
			return nil, doubtful("sacctmgr show qos", "%.40q comes twice", q.Name)
		}
		seen[q.Name] = true
		all = append(all, q)
	}
	return all, nil
}

func qos(f []string) (q QOS, err error) {
	if len(f) != 6 || f[0] == "" {
		return q, fmt.Errorf("%d fields, want 6, the first not empty", len(f))
	}
	priority, err := parseUint(f[1], math.MaxUint32)
	if err != nil {
		return q, fmt.Errorf("field Priority: %w", err)
	}
	q = QOS{Name: f[0], Priority: int64(priority), PreemptMode: f[4], Preempt: listOf(f[3]), Flags: listOf(f[5])}
	if q.GraceTime, err = ParseTimeLimit(f[2]); err != nil {
		return q, fmt.Errorf("field GraceTime: %w", err)
	}
	return q, nil
}

// listOf splits at commas; nil for "".
func listOf(s string) []string {
	if isUnset(s) {
		return nil
	}
	return strings.Split(s, ",")
}
