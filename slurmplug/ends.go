package slurmplug

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// End is what accounting has of the end of a job's last run, beside its own exit status.
type End struct {
	StepCode, StepSignal int   // the highest of its steps: Slurm's derived exit code
	PeakMB               int64 // the most memory that its steps used on one node, as far as it was measured; 0: not known
}

// Ends reads the ends of the last runs of jobs by Slurm's own ids of records. slurmdbd is
// some seconds behind: a job that it does not know yet is missing.
func (c *Client) Ends(ctx context.Context, raw []uint32) (map[uint32]End, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return rowsOf(ctx, c, accounting, parseEnds, "sacct", "--noheader", "--parsable2", "--allusers", "--noconvert", "--jobs="+idList(raw),
		"--starttime="+sacctTime(time.Time{}), "--format=JobIDRaw,DerivedExitCode,MaxRSS,NTasks,NNodes")
}

// parseEnds reads a line for each job and each of its steps: "17|1:0|||1",
// "17.batch|1:0|329421824|1|1". The batch step has a derived exit code of its own, its
// exit status.
func parseEnds(out string, t *table) (map[uint32]End, error) {
	ends := map[uint32]End{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		t.row(f[0], addEnd(ends, f))
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	return ends, nil
}

// addEnd adds what one line says.
func addEnd(ends map[uint32]End, f []string) error {
	if len(f) != 5 {
		return fmt.Errorf("%d fields, want 5", len(f))
	}
	id, step, isStep := strings.Cut(f[0], ".")
	job, err := parseUint(id, math.MaxUint32)
	if err != nil {
		return fmt.Errorf("JobIDRaw: %w", err)
	}
	end := ends[uint32(job)]
	if !isStep && f[1] != "" {
		var r Run
		if err := exitCode(&r, []byte(f[1])); err != nil {
			return err
		}
		end.StepCode, end.StepSignal = r.ExitCode, r.Signal
	}
	if isStep && step != "extern" && f[2] != "" {
		used, err := parseUnits(f[2], 0)
		tasks, err1 := parseUint("0"+f[3], math.MaxUint32)
		nodes, err2 := parseUint("0"+f[4], math.MaxUint32)
		if err := errors.Join(err, err1, err2); err != nil {
			return err
		}
		// MaxRSS is of the largest task.
		end.PeakMB = max(end.PeakMB, int64(math.Ceil(used/(1<<20)))*int64(max((tasks+max(nodes, 1)-1)/max(nodes, 1), 1)))
	}
	ends[uint32(job)] = end
	return nil
}

// Written is where a job writes to, as its user asked for, and who that is. Patterns such
// as %j may still stand in it.
type Written struct {
	UID            uint32
	User, Name     string
	Array, Task    string
	Stderr, Stdout string // "" where the user did not say
	Dir            string // the working directory
}

// WrittenTo reads where a job writes its output, by Slurm's own id of its record. ErrNoJob
// when slurmctld does not know it.
func (c *Client) WrittenTo(ctx context.Context, job JobID, raw uint32) (Written, error) {
	able, err := c.Abilities(ctx)
	if err != nil {
		return Written{}, err
	}
	columns := []string{"STDERR", "STDOUT", "WorkDir"}
	s := c.nonce()
	out, err := c.read(ctx, "squeue", append(able.squeueArgs("--states=all", "--jobs="+strconv.FormatUint(uint64(raw), 10)), able.jobFormat(s, columns...)...)...)
	if isNoJob(err) {
		return Written{}, ErrNoJob
	}
	if err != nil {
		return Written{}, err
	}
	return parseWritten(out, s, able, job)
}

func parseWritten(out []byte, s separators, able Abilities, job JobID) (w Written, err error) {
	p := newJobParser(able)
	var fields [3 + len(jobColumns)][]byte
	found := false
	err = s.each(out, 0, func(record []byte) error {
		if err := s.cut(record, fields[:]); err != nil {
			return err
		}
		copy(p.fields[:], fields[3:])
		var j Job
		if err := p.job(&j); err != nil || j.ID != job || found {
			return err
		}
		found = true
		w = Written{UID: j.UID, User: j.User, Name: j.Name, Dir: string(fields[2])}
		if j.ID.Task != NoTask {
			w.Array, w.Task = strconv.FormatUint(uint64(j.ID.ID), 10), strconv.Itoa(int(j.ID.Task))
		}
		for i, to := range []*string{&w.Stderr, &w.Stdout} {
			if !unsetBytes(fields[i]) {
				*to = string(fields[i])
			}
		}
		return nil
	})
	if err != nil {
		return Written{}, doubtful("squeue", "%w", err)
	}
	if !found {
		return Written{}, ErrNoJob
	}
	return w, nil
}

// Path is the file with the job's error messages, an absolute path; an error where it
// cannot be told.
func (w *Written) Path(raw uint32) (string, error) {
	path := cmp.Or(w.Stderr, w.Stdout)
	id := strconv.FormatUint(uint64(raw), 10)
	if path == "" {
		path = "slurm-%j.out"
		if w.Array != "" {
			path = "slurm-%A_%a.out"
		}
	}
	path, err := w.expand(path, id)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(path, "/") {
		path = w.Dir + "/" + path
	}
	if !strings.HasPrefix(path, "/") || len(path) > 4095 || strings.IndexByte(path, 0) >= 0 {
		return "", fmt.Errorf("%q is no path", clip([]byte(path)))
	}
	return path, nil
}

// expand replaces the patterns of sbatch's file names. The task's and the node's own are
// of files that each task or node writes.
func (w *Written) expand(path, id string) (string, error) {
	var b bytes.Buffer
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			b.WriteByte(path[i])
			continue
		}
		width := 0
		for i++; i < len(path) && path[i] >= '0' && path[i] <= '9' && width < 10; i++ {
			width = width*10 + int(path[i]-'0')
		}
		if i >= len(path) {
			return "", fmt.Errorf("%q ends with a pattern", clip([]byte(path)))
		}
		switch path[i] {
		case '%':
			b.WriteByte('%')
		case 'j':
			b.WriteString(zeroFilled(id, width))
		case 'A':
			b.WriteString(zeroFilled(cmp.Or(w.Array, id), width))
		case 'a':
			b.WriteString(zeroFilled(w.Task, width))
		case 'u':
			b.WriteString(w.User)
		case 'x':
			b.WriteString(w.Name)
		default:
			return "", fmt.Errorf("%q: a pattern that priod does not know", clip([]byte(path)))
		}
	}
	return b.String(), nil
}

// zeroFilled fills a number with zeros up to a width of at most 10.
func zeroFilled(s string, width int) string {
	return strings.Repeat("0", max(min(width, 10)-len(s), 0)) + s
}

// RequeueHeld puts a job that has ended back into the queue, held.
func (c *Client) RequeueHeld(ctx context.Context, run RunID) Result {
	return c.runFor(ctx, run.Job, "requeuehold", run.target())
}

// DrainNode takes a node out of use for a reason of one word. What runs there runs on.
func (c *Client) DrainNode(ctx context.Context, node, reason string) Result {
	for _, s := range []string{node, reason} {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '=' || r == '[' || r == ',' }) {
			return Result{Status: Refused, Message: fmt.Sprintf("node %q, reason %q: cannot be written", node, reason)}
		}
	}
	return c.runFor(ctx, JobID{}, "update", "NodeName="+node, "State=DRAIN", "Reason="+reason)
}

// MaxBatchRequeue is how often Slurm requeues a batch job before it holds it; 0 where
// slurm.conf does not say (22.05 has no such limit).
func (c Config) MaxBatchRequeue() int {
	n, _ := parseUint(c.values["MaxBatchRequeue"], math.MaxInt32) // 0 for no number
	return int(n)
}
