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
func parseDiag(out string) (Diag, error) {
	var d Diag
	need := map[string]*int{"Agent queue size": &d.AgentQueue, "DBD Agent queue size": &d.DBDAgentQueue}
	whole := false
	for line := range strings.Lines(out) {
		text := strings.TrimSpace(line)
		whole = whole || strings.HasPrefix(text, "Remote Procedure Call statistics by user")
		key, value, _ := strings.Cut(text, ":")
		count, wanted := need[key]
		if !wanted {
			continue
		}
		n, err := parseUint(strings.TrimSpace(value), math.MaxInt32)
		if err != nil {
			return Diag{}, doubtful("sdiag", "%.80q: %w", text, err)
		}
		*count = int(n)
		delete(need, key)
	}
	for key := range need {
		return Diag{}, doubtful("sdiag", "%s is missing", key)
	}
	if !whole {
		return Diag{}, doubtful("sdiag", "cut off before the statistics by user")
	}
	return d, nil
}
