package slurmplug

import (
	"context"
	"math"
	"strings"
)

// Diag reads how busy slurmctld is: from its metrics where UseMetrics found them, else
// or when they do not answer from sdiag.
func (c *Client) Diag(ctx context.Context) (Diag, error) {
	c.mu.Lock()
	address := c.metrics
	c.mu.Unlock()
	if address != "" {
		if d, err := c.diagByMetrics(ctx, address); err == nil {
			return d, nil
		}
	}
	out, err := c.readLines(ctx, "sdiag")
	if err != nil {
		return Diag{}, err
	}
	return parseDiag(string(out))
}

// parseDiag reads "Key: number". The heading of the last table says that the
// output is whole.
func parseDiag(out string) (d Diag, err error) {
	err = readCounts("sdiag", out, ":", map[string]*int{"Agent queue size": &d.AgentQueue, "DBD Agent queue size": &d.DBDAgentQueue})
	if err == nil && !strings.Contains(out, "Remote Procedure Call statistics by user") {
		err = doubtful("sdiag", "cut off before the statistics by user")
	}
	if err != nil {
		return Diag{}, err
	}
	return d, nil
}

// readCounts reads the numbers that are needed from lines of a name and a number.
func readCounts(source, text, sep string, need map[string]*int) error {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), sep)
		count, wanted := need[key]
		if !wanted {
			continue
		}
		n, err := parseUint(strings.TrimSpace(value), math.MaxInt32)
		if err != nil {
			return doubtful(source, "%s: %w", key, err)
		}
		*count = int(n)
		delete(need, key)
	}
	for key := range need {
		return doubtful(source, "%s is missing", key)
	}
	return nil
}
