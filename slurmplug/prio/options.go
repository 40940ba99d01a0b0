package prio

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/sbatch"
)

// Option is one --prio-* option that says something about a job.
type Option struct {
	Name  string // "prio-type"
	Arg   sbatch.Arg
	Value string // what the help calls its value
	Help  string

	// tagValue turns what the user wrote into the tag's own form. It returns
	// the key's value, or what is wanted instead.
	tagValue func(value string) (text, want string)
}

func (o *Option) key() string { return strings.TrimPrefix(o.Name, "prio-") }

// Variable is the environment variable that says the same.
func (o *Option) Variable() string {
	return variables + strings.ToUpper(strings.ReplaceAll(o.key(), "-", "_"))
}

// variables is what the names of all of them begin with.
const variables = "SBATCHWRAP_"

// Options in the order of the help.
var Options = []Option{
	{"prio-type", sbatch.Required, "te|be|none", "te: trial and error, runs first but within a budget; be: best effort, may be stopped for te; none: as --prio-none", lower},
	{optOut, sbatch.Optional, "yes|no", "priod does nothing to the job: it keeps Slurm's own order, whatever the site's rules say", yesNo},
	{"prio-grace", sbatch.Required, "TIME", "time that the job needs to save its state after the signal", seconds},
	{"prio-ckpt", sbatch.Required, "TIME", "time between the job's own checkpoints", seconds},
	{"prio-signal", sbatch.Required, "[B:]SIGNAL", "signal that asks the job to save its state (B: to the batch shell alone)", signal},
	{"prio-workload", sbatch.Required, "NAME", "name of a workload that the site knows", verbatim},
	{"prio-speed", sbatch.Required, "TYPE:X,...", "relative speed on each GPU type: a100:1,v100:0.45", verbatim},
	{"prio-cpu", sbatch.Required, "TYPE:NxX-NxX,...", "relative speed with N CPUs per GPU: a100:3x1-9x2.4", verbatim},
	{"prio-mem", sbatch.Required, "TYPE:NxX-NxX,...", "relative speed with N MB of memory per GPU", verbatim},
	{"prio-steps", sbatch.Required, "N", "total work of the job, in steps of its own", steps},
	{"prio-retry", sbatch.Required, "never|infra|always", "after which failures to requeue the job: none, those of the machine, or also those whose cause is not clear", lower},
}

// optOut is short for --prio-type=none.
const optOut = "prio-none"

// gone are removed options. They are still read, so that an error says what to do; the variable of one that had a value, too.
var gone = []Option{
	{Name: "prio-share", Arg: sbatch.Optional, Help: " and never did anything to a job: leave it out"},
	{Name: "prio-give-back", Arg: sbatch.Optional, Help: " and does nothing to a job: leave it out"},
	{Name: "prio-canary", Arg: sbatch.Required, Value: "TIME", Help: ": submit a short run of the script, and the job with --dependency=afterok on it (docs/users/canary.md)"},
}

// isGone reports whether an option is one of them.
func (o *Option) isGone() bool { return o.tagValue == nil }

// goneFrom is the error where it is still used; where is place and name.
func (o *Option) goneFrom(where string) error { return Errorf("%s is gone%s", where, o.Help) }

// find finds an option by its name, gone with them; nil when there is none.
func find(name string) *Option {
	for i := range Options {
		if Options[i].Name == name {
			return &Options[i]
		}
	}
	for i := range gone {
		if gone[i].Name == name {
			return &gone[i]
		}
	}
	return nil
}

// Exact are the options, gone with them, and more flags, for the parser of
// sbatch's command line.
func Exact(more ...string) []*sbatch.Option {
	var out []*sbatch.Option
	for _, o := range slices.Concat(Options, gone) {
		out = append(out, &sbatch.Option{Name: o.Name, Arg: o.Arg, Exact: true})
	}
	for _, name := range more {
		out = append(out, &sbatch.Option{Name: name, Exact: true})
	}
	return out
}

// apply puts a value into the tag, or says what is wanted instead.
func (o *Option) apply(tag *jobtag.Tag, value string) (want string) {
	text, want := o.tagValue(value)
	switch {
	case want != "":
		return want
	case o.Name == optOut:
		if tag.Type == jobtag.None {
			tag.Type = ""
		}
		if text != takenBack {
			tag.Type = jobtag.None
		}
		return ""
	}
	var bad *jobtag.Error
	if err := tag.Set(o.key(), text); errors.As(err, &bad) {
		return bad.Reason
	}
	return ""
}

func verbatim(value string) (string, string) { return value, "" }
func lower(value string) (string, string)    { return strings.ToLower(value), "" }

// signal takes "USR1", "SIGUSR1", "sigusr1", each with or without "B:".
func signal(value string) (string, string) {
	upper := strings.ToUpper(value)
	name, shell := strings.CutPrefix(upper, "B:")
	name = strings.TrimPrefix(name, "SIG")
	if shell {
		name = "B:" + name
	}
	return name, ""
}

// takenBack is the answer no. Of all that can be said, only --prio-none can be taken back.
const takenBack = "no"

func yesNo(value string) (string, string) {
	switch strings.ToLower(value) {
	case "", "yes", "true", "1":
		return "1", ""
	case "no", "false", "0":
		return takenBack, ""
	}
	return "", "want yes or no"
}

func steps(value string) (string, string) {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return "", "want a number, such as 50000 or 1e6"
	}
	return strconv.FormatFloat(n, 'f', -1, 64), ""
}

func seconds(value string) (string, string) {
	d, ok := parseTime(value)
	if !ok || d%time.Second != 0 || d < time.Second {
		return "", "want a time such as 5 (minutes), 5:00, 1-12:00:00, 90s or 1h30m; whole seconds, not 0"
	}
	return strconv.FormatInt(int64(d/time.Second), 10), ""
}

// parseTime reads a time as Slurm writes it ("minutes", "minutes:seconds",
// "hours:minutes:seconds", "days-hours", "days-hours:minutes",
// "days-hours:minutes:seconds") or as Go does ("90s", "1h30m"). A bare number
// is minutes, as everywhere in sbatch.
func parseTime(s string) (time.Duration, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	if strings.Trim(s, "0123456789:-") != "" {
		d, err := time.ParseDuration(s)
		return d, err == nil
	}
	units := []time.Duration{time.Minute}
	days, rest, hasDays := strings.Cut(s, "-")
	parts := strings.Split(rest, ":")
	switch {
	case hasDays:
		units = []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
		parts = append([]string{days}, parts...)
	default:
		parts = strings.Split(s, ":")
		switch len(parts) {
		case 2:
			units = []time.Duration{time.Minute, time.Second}
		case 3:
			units = []time.Duration{time.Hour, time.Minute, time.Second}
		}
	}
	if len(parts) > len(units) {
		return 0, false
	}
	var sum time.Duration
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 31) // 31 bits of days fit a Duration only up to 106,751
		if err != nil || time.Duration(n) > (1<<62)/units[i] {
			return 0, false
		}
		sum += time.Duration(n) * units[i]
	}
	return sum, sum >= 0
}
