package slurmplug

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
)

// Abilities are what the installed commands can do, found out by asking them and
// not by their version. All differences between the Slurms that priod knows which
// have to be known before a command is run stand here; what a command prints is
// read in every form that is known.
type Abilities struct {
	// Release is the commands' own version, "24.11.5".
	Release string `json:"release"`
	// ArrayUnique: squeue --array-unique prints each record of the queue once. It is
	// gone since 23.02 (squeue/opts.c); there --array prints a line for each task, and
	// the lines of one record, which share its id, are joined.
	// Only in such lines squeue shows how many tasks may run at a time ("1-9%3").
	ArrayUnique bool `json:"array_unique"`
	// SLUID: squeue prints a job's SLUID, and scontrol and scancel take it in the place
	// of the id, as the name of one run of the job (26.05).
	SLUID bool `json:"sluid"`
	// Exclusive: squeue has a column for jobs that want nodes for themselves. Before
	// 26.05 OverSubscribe says it, which is NO of all jobs since.
	Exclusive bool `json:"exclusive"`
}

// Abilities asks the installed commands what they can do, once. No question
// reaches slurmctld.
func (c *Client) Abilities(ctx context.Context) (Abilities, error) {
	c.mu.Lock()
	known := c.abilities
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	return c.AskAbilities(ctx)
}

// AskAbilities is Abilities, asked again: commands can be replaced while priod runs.
func (c *Client) AskAbilities(ctx context.Context) (a Abilities, err error) {
	if c.opts.Abilities != nil {
		return *c.opts.Abilities, nil
	}
	help, err := c.read(ctx, "squeue", "--help")
	if err != nil {
		return a, err
	}
	a.ArrayUnique = strings.Contains(string(help), "--array-unique")
	if strings.Contains(string(help), "--helpFormat") {
		columns, err := c.read(ctx, "squeue", "--helpFormat")
		if err != nil {
			return a, err
		}
		for name := range strings.FieldsSeq(string(columns)) {
			a.SLUID = a.SLUID || name == "SLUID"
			a.Exclusive = a.Exclusive || name == "Exclusive"
		}
	}
	version, err := c.readLines(ctx, "squeue", "--version")
	if err != nil {
		return a, err
	}
	if a.Release, err = parseRelease(string(version)); err != nil {
		return a, err
	}
	c.mu.Lock()
	c.abilities = &a
	c.mu.Unlock()
	return a, nil
}

// namesFailuresOnly reports whether a partly failed update of an array is answered with
// the tasks that failed alone: since 23.02, as the lack of squeue --array-unique (seen
// on 24.11.5 and 26.05.5; 22.05.8 names the others with "No error").
func (c *Client) namesFailuresOnly() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	able := cmp.Or(c.opts.Abilities, c.abilities)
	return able != nil && !able.ArrayUnique
}

// parseRelease reads "slurm 24.11.5" or, as Debian has it, "slurm-wlm 22.05.8".
func parseRelease(out string) (string, error) {
	words := strings.Fields(out)
	if len(words) == 2 {
		strange := strings.Trim(words[1], "0123456789abcdefghijklmnopqrstuvwxyz.-+~") != "" // such as the codes of a colour
		if _, _, ok := ReleaseOf(words[1]); ok && !strange {
			return words[1], nil
		}
	}
	return "", doubtful("squeue --version", "%q is no version: is squeue a wrapper that prints something of its own?", firstLine([]byte(out)))
}

// ReleaseOf is the release of a version: 24 and 11 of "24.11.5".
func ReleaseOf(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(strings.TrimFunc(parts[1], func(r rune) bool { return r < '0' || '9' < r }))
	return major, minor, err == nil
}

// forgetAbilities makes the next read ask anew after an error that says that a
// command does not know an option or a column: it was replaced meanwhile.
func (c *Client) forgetAbilities(err error) {
	var failed *CommandError
	replaced := errors.As(err, &failed) && strings.Contains(failed.Message, "unrecognized option") ||
		err != nil && strings.Contains(err.Error(), "Invalid job format specification")
	if !replaced {
		return
	}
	c.mu.Lock()
	c.abilities = nil
	c.mu.Unlock()
}
