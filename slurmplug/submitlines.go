package slurmplug

import (
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

func parseSubmitLines(out []byte, s separators) (map[uint32]string, error) {
	lines := map[uint32]string{}
	var fields [2][]byte
	err := s.rows(out, fields[:], func() error {
		raw, err := parseUint(fields[0], math.MaxUint32)
		lines[uint32(raw)] = string(fields[1])
		return err
	})
	if err != nil {
		return nil, err
	}
	return lines, nil
}
