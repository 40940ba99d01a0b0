package slurmplug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runColumns are sacct's names for what a Run holds, in the order in which
// runParser.run reads them.
var runColumns = [...]string{
	"JobID", "JobIDRaw", "User", "Account", "Partition", "QOS", "State", "ExitCode",
	"Submit", "Eligible", "Start", "End", "TimelimitRaw", "AllocTRES", "NodeList", "JobName", "ReqTRES", "Comment",
}

// History reads from the accounting every run of every job, earlier runs of
// requeued ones too, that was pending or running at some time between since
// and until (zero: now). Read again from an overlapping since, rows come again:
// RawID, Submit and Start tell a run from others. What is not yet eligible may
// be missing, and slurmdbd is some seconds behind slurmctld. The range should be
// hours or days, not years: it comes at once. A run that cannot be read comes with Unread set.
func (c *Client) History(ctx context.Context, since, until time.Time) ([]Run, error) {
	return c.runs(ctx, "--starttime="+sacctTime(since), "--endtime="+sacctEnd(until))
}

// RunsOf reads from the accounting every run of one job, earlier runs of a
// requeued one too, in the order of their submission.
func (c *Client) RunsOf(ctx context.Context, job JobID) ([]Run, error) {
	runs, err := c.runs(ctx, "--jobs="+job.String(), "--starttime="+sacctTime(time.Time{}))
	runs = slices.DeleteFunc(runs, func(r Run) bool { return r.ID != job }) // "17" stands for all tasks of an array
	slices.SortStableFunc(runs, func(a, b Run) int { return a.Submit.Compare(b.Submit) })
	return runs, err
}

func (c *Client) runs(ctx context.Context, which ...string) ([]Run, error) {
	s := c.nonce()
	args := append([]string{"--noheader", "--parsable", "--allocations", "--duplicates", "--allusers",
		"--delimiter=" + s.end, "--format=" + strings.Join(runColumns[:], ",")}, which...)
	out, err := c.read(ctx, "sacct", args...)
	if err != nil {
		return nil, err
	}
	runs, err := parseRuns(out, s)
	t := table{name: accounting}
	for i := range runs {
		if r := &runs[i]; r.Unread != "" {
			t.row(strconv.FormatUint(uint64(r.RawID), 10), errors.New(r.Unread))
		}
	}
	c.leave(&t, err)
	return runs, err
}

// accounting is what sacct reads, for people.
const accounting = "accounting"

// sacctTime is a time in sacct's notation that depends on no time zone
// (parse_time.c). It knows none before the twelfth day of Unix.
func sacctTime(t time.Time) string { return fmt.Sprintf("uts%d", max(t.Unix(), 1_000_000)) }

// sacctEnd is sacctTime, now for no time.
func sacctEnd(t time.Time) string {
	if t.IsZero() {
		return "now"
	}
	return sacctTime(t)
}

func parseRuns(out []byte, s separators) ([]Run, error) {
	p := runParser{strings: interner{}}
	runs := make([]Run, 0, bytes.Count(out, []byte(s.end))/len(runColumns))
	err := s.rows(out, p.fields[:], func() error {
		runs = append(runs, Run{})
		r := &runs[len(runs)-1]
		if err := p.run(r); err != nil {
			*r = Run{ID: r.ID, RawID: r.RawID, Unread: fmt.Sprintf("%v (job %q)", err, clip(p.fields[0]))}
		}
		return nil
	})
	if err == nil {
		err = mostlyRead(runs, func(r *Run) string { return r.Unread })
	}
	if err != nil {
		return nil, doubtful("sacct", "%w", err)
	}
	return runs, nil
}

type runParser struct {
	fields  [len(runColumns)][]byte
	strings interner
}

func (p *runParser) run(r *Run) error {
	f := &p.fields
	raw, err := parseUint(f[1], math.MaxUint32)
	if err != nil {
		return fmt.Errorf("JobIDRaw: %w", err)
	}
	r.RawID = uint32(raw)
	if r.ID, err = runID(f[0], r.RawID); err != nil {
		return err
	}
	get := p.strings.value
	r.User, r.Account, r.Partition, r.QOS = get(f[2]), get(f[3]), get(f[4]), get(f[5])
	state, _, _ := bytes.Cut(f[6], []byte(" "))
	if r.State = get(state); r.State == "" {
		return errors.New("no State")
	}
	if err := exitCode(r, f[7]); err != nil {
		return err
	}
	for i, t := range []*time.Time{&r.Submit, &r.Eligible, &r.Start, &r.End} {
		if *t, err = parseEpoch(f[8+i]); err != nil {
			return fmt.Errorf("%s: %w", runColumns[8+i], err)
		}
	}
	if r.TimeLimit, err = ParseTimeLimit(get(f[12])); err != nil {
		return err
	}
	r.AllocTRES = get(f[13])
	if list := string(f[14]); !isUnset(list) {
		r.NodeList = list
	}
	r.Name, r.ReqTRES, r.Comment = string(f[15]), get(f[16]), string(f[17])
	return nil
}

// runID reads sacct's JobID: "17", "17_4", "17_[1-9%3]" for what is left of an
// array, "17+1" for a component of a heterogeneous job, which is named by its
// raw id.
func runID(text []byte, raw uint32) (JobID, error) {
	if bytes.IndexByte(text, '+') >= 0 {
		return Plain(raw), nil
	}
	if array, _, ok := bytes.Cut(text, []byte("_[")); ok {
		id, err := ParseJobID(string(array))
		return Plain(id.ID), err
	}
	return ParseJobID(string(text))
}

func exitCode(r *Run, text []byte) error {
	code, signal, ok := bytes.Cut(text, []byte(":"))
	c, err1 := parseUint(code, math.MaxInt32)
	s, err2 := parseUint(signal, math.MaxInt32)
	if !ok || err1 != nil || err2 != nil {
		return fmt.Errorf("ExitCode: %q is not CODE:SIGNAL", clip(text))
	}
	r.ExitCode, r.Signal = int(c), int(s)
	return nil
}

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
		if raw, err := parseUint(fields[0], math.MaxUint32); err == nil { // an odd row costs itself
			lines[uint32(raw)] = string(fields[1])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lines, nil
}
