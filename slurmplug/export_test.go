package slurmplug

import "context"

// RecordedSeparators stand between the fields of the recordings in testdata.
var RecordedSeparators = separators{field: "\x1f" + "AbCdEf", end: "\x1e" + "0123456789AbCdEfGhIjKl"}

// UseRecordedSeparators makes c ask for the separators of the recordings.
func UseRecordedSeparators(c *Client) { c.nonce = func() separators { return RecordedSeparators } }

// RightsOf is OwnRights of another user.
func RightsOf(ctx context.Context, c *Client, conf Config, uid int) (Rights, error) {
	return c.rightsOf(ctx, conf, uid)
}

func parseJobs(out []byte, s separators) ([]Job, error) {
	return parseJobsInto(nil, out, s, Abilities{})
}
