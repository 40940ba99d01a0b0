package slurmplug

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// Diag reads sdiag: how busy slurmctld is.
func (c *Client) Diag(ctx context.Context) (Diag, error) {
	out, err := c.readLines(ctx, "sdiag")
	if err != nil {
		return Diag{}, err
	}
	return parseDiag(string(out))
}

// parseDiag reads "Key: number" under headings, and the table of RPCs.
func parseDiag(out string) (Diag, error) {
	var d Diag
	section := ""
	need := map[string]bool{"Server thread count": true, "Agent queue size": true, "DBD Agent queue size": true, "RPCs": true}
	for line := range strings.Lines(out) {
		text := strings.TrimSpace(line)
		if name, rest, ok := strings.Cut(text, "("); ok && strings.Contains(rest, "count:") {
			if err := d.rpc(strings.TrimSpace(name), rest); err != nil {
				return d, doubtful("sdiag", "%.80q: %w", text, err)
			}
			continue
		}
		key, value, ok := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(text, "Main schedule statistics"), strings.HasPrefix(text, "Backfilling stats"):
			section, _, _ = strings.Cut(text, " ")
			continue
		case strings.HasPrefix(text, "Remote Procedure Call statistics by user"):
			delete(need, "RPCs") // stands near the end
		case strings.HasPrefix(text, "Data since"):
			d.Since = sinceTime(text)
		case !ok:
			continue
		}
		var err error
		switch section + "/" + key {
		case "/Server thread count":
			d.ServerThreads, err = diagCount(value)
		case "/Agent queue size":
			d.AgentQueue, err = diagCount(value)
		case "/DBD Agent queue size":
			d.DBDAgentQueue, err = diagCount(value)
		case "Main/Last cycle":
			d.LastCycle, err = microseconds(value)
		case "Backfilling/Last cycle":
			d.BackfillCycle, err = microseconds(value)
		}
		if err != nil {
			return d, doubtful("sdiag", "%.80q: %w", text, err)
		}
		delete(need, key)
	}
	for key := range need {
		return d, doubtful("sdiag", "%s is missing", key)
	}
	return d, nil
}

// rpc takes in "REQUEST_JOB_INFO ( 2003) count:4 ave_time:285 total_time:1140".
func (d *Diag) rpc(name, rest string) error {
	var count *int64
	var avg *time.Duration
	switch name {
	case "REQUEST_JOB_INFO":
		count, avg = &d.JobInfoCount, &d.JobInfoAvg
	case "REQUEST_UPDATE_JOB":
		count, avg = &d.JobUpdateCount, &d.JobUpdateAvg
	default:
		return nil
	}
	for word := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(word, ":")
		n, err := parseUint(value, math.MaxInt64/1000)
		switch {
		case key != "count" && key != "ave_time":
		case err != nil:
			return err
		case key == "count":
			*count = int64(n)
		default:
			*avg = time.Duration(n) * time.Microsecond
		}
	}
	return nil
}

func diagCount(s string) (int, error) {
	n, err := parseUint(s, math.MaxInt32)
	return int(n), err
}

func microseconds(s string) (time.Duration, error) {
	n, err := parseUint(s, math.MaxInt64/1000)
	if err != nil {
		return 0, fmt.Errorf("microseconds: %w", err)
	}
	return time.Duration(n) * time.Microsecond, nil
}

// sinceTime reads the seconds in brackets at the end of "Data since ... (1795226472)".
func sinceTime(text string) time.Time {
	_, tail, _ := strings.Cut(text, "(")
	t, _ := parseEpoch(strings.TrimSuffix(tail, ")"))
	return t
}
