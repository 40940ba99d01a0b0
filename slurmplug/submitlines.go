package slurmplug

import (
	"bytes"
	"context"
	"math"
	"time"
)

// SubmitLines reads from the accounting the command lines by which the jobs
// that were pending or running between since and until (zero: now) were submitted,
// by raw id (sacct's SubmitLine, from Slurm 21.08 on). They are text of users, and
// sacct has lost their quotes.
func (c *Client) SubmitLines(ctx context.Context, since, until time.Time) (map[uint32]string, error) {
	s := c.nonce()
	out, err := c.read(ctx, "sacct", "--noheader", "--parsable", "--allocations", "--allusers",
		"--delimiter="+s.end, "--starttime="+sacctTime(since), "--endtime="+sacctEnd(until), "--format=JobIDRaw,SubmitLine")
	if err != nil {
		return nil, err
	}
	return parseSubmitLines(out, s)
}

// parseSubmitLines reads records of two fields, as parseRuns does its own.
func parseSubmitLines(out []byte, s separators) (map[uint32]string, error) {
	lines := map[uint32]string{}
	for len(out) > 0 {
		id, rest, ok1 := bytes.Cut(out, []byte(s.end))
		line, rest, ok2 := bytes.Cut(rest, []byte(s.end+"\n"))
		raw, err := parseUint(id, math.MaxUint32)
		if !ok1 || !ok2 || err != nil || bytes.Contains(line, []byte(s.end)) {
			return nil, doubtful("sacct", "record %d (%q) is not a JobIDRaw and a SubmitLine", len(lines)+1, clip(id))
		}
		lines[uint32(raw)], out = string(line), rest
	}
	return lines, nil
}
