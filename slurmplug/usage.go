package slurmplug

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usageColumns are sacct's names for what the steps of a run used, in the order
// in which usageParser.row reads them.
var usageColumns = [...]string{"JobIDRaw", "Start", "End", "TotalCPU", "MaxRSS", "NNodes", "NTasks", "TRESUsageInTot", "TRESUsageInMax"}

// Usage reads from the accounting what each run that ended between since and
// until (zero: now) used, as the steps of the run were measured: nothing, where
// JobAcctGatherType is none. RawID and Start tell which row of History a run is.
// A row for each step makes this a much larger read than History: the range
// should be a day. A run with a row that cannot be read is left out: what its other
// steps used would be too little.
func (c *Client) Usage(ctx context.Context, since, until time.Time) ([]Usage, error) {
	s := c.nonce()
	out, err := c.read(ctx, "sacct", "--noheader", "--parsable", "--duplicates", "--allusers", "--noconvert",
		"--state=CD,F,TO,CA,PR,NF,OOM,RQ,DL", // with these, those that ended in the range
		"--delimiter="+s.end, "--starttime="+sacctTime(since), "--endtime="+sacctEnd(until), "--format="+strings.Join(usageColumns[:], ","))
	if err != nil {
		return nil, err
	}
	t := table{name: accounting}
	runs, err := parseUsage(out, s, &t)
	c.leave(&t, err)
	return runs, err
}

// parseUsage reads rows of runs, each with those of its steps behind it.
func parseUsage(out []byte, s separators, t *table) ([]Usage, error) {
	var p usageParser
	err := s.rows(out, p.fields[:], func() error {
		t.row(string(p.fields[0]), p.row())
		return nil
	})
	if err == nil {
		err = t.read()
	}
	if err != nil {
		return nil, err
	}
	p.finish()
	return p.runs, nil
}

type usageParser struct {
	fields [len(usageColumns)][]byte
	runs   []Usage
	steps  []stepMemory // of the last run
	lost   uint64       // the run last left out, whose other steps go with it
}

// stepMemory is how much memory a step used on the node where that was most,
// and when.
type stepMemory struct {
	start, end int64
	bytes      float64
}

// row reads the row of a run, or of a step of the run before it.
func (p *usageParser) row() error {
	f := &p.fields
	id, step, isStep := bytes.Cut(f[0], []byte("."))
	raw, err := parseUint(id, math.MaxUint32)
	if err != nil {
		return fmt.Errorf("JobIDRaw: %w", err)
	}
	if isStep && raw == p.lost {
		return nil
	}
	if !isStep {
		p.finish()
		p.lost = 0
	} else if len(p.runs) == 0 || p.runs[len(p.runs)-1].RawID != uint32(raw) || len(step) == 0 {
		return errors.New("a step without its job before it")
	}
	if err := p.read(uint32(raw), isStep); err != nil {
		if isStep {
			p.runs, p.steps = p.runs[:len(p.runs)-1], p.steps[:0]
		}
		p.lost = raw
		return err
	}
	return nil
}

func (p *usageParser) read(raw uint32, isStep bool) error {
	f := &p.fields
	start, err := parseEpoch(f[1])
	if err != nil {
		return fmt.Errorf("column Start: %w", err)
	}
	end, err := parseEpoch(f[2])
	if err != nil {
		return fmt.Errorf("column End: %w", err)
	}
	nodes, err := countOrNone(f[5])
	if err != nil {
		return fmt.Errorf("column NNodes: %w", err)
	}
	if !isStep {
		p.runs = append(p.runs, Usage{RawID: raw, Start: start, Nodes: max(1, nodes)})
		return nil
	}
	return p.step(start, end, nodes)
}

// step adds what a step used to the last run.
func (p *usageParser) step(start, end time.Time, nodes int) error {
	f := &p.fields
	run := &p.runs[len(p.runs)-1]
	used, err := cpuSeconds(f[3])
	if err != nil {
		return fmt.Errorf("TotalCPU: %w", err)
	}
	run.CPUSeconds += used
	most, err := memoryUsed(f[4])
	if err != nil {
		return fmt.Errorf("MaxRSS: %w", err)
	}
	tasks, err := countOrNone(f[6])
	if err != nil {
		return fmt.Errorf("NTasks: %w", err)
	}
	most *= math.Ceil(float64(tasks) / float64(max(1, nodes))) // of one task
	if nodes == 1 {
		for item := range bytes.SplitSeq(f[7], []byte(",")) {
			if amount, is := bytes.CutPrefix(item, []byte("mem=")); is {
				if most, err = memoryUsed(amount); err != nil {
					return fmt.Errorf("TRESUsageInTot: %w", err)
				}
			}
		}
	}
	for item := range bytes.SplitSeq(f[8], []byte(",")) {
		if amount, is := bytes.CutPrefix(item, []byte("gres/gpuutil=")); is && len(amount) > 0 {
			use, err := parseUnits(string(amount), 0)
			if err != nil {
				return fmt.Errorf("TRESUsageInMax: %w", err)
			}
			if run.GPUUse == nil || use > *run.GPUUse {
				run.GPUUse = &use
			}
		}
	}
	if most > 0 && !start.IsZero() && !end.Before(start) {
		p.steps = append(p.steps, stepMemory{start.Unix(), end.Unix(), most})
	}
	return nil
}

// finish adds up the steps of the last run that ran at the same time; those of
// no whole second count one by one. Where steps ran on different nodes that is
// too much, which does no harm.
func (p *usageParser) finish() {
	if len(p.steps) == 0 {
		return
	}
	slices.SortFunc(p.steps, func(a, b stepMemory) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	ends := slices.DeleteFunc(slices.Clone(p.steps), stepMemory.short)
	slices.SortFunc(ends, func(a, b stepMemory) int { return cmp.Compare(a.end, b.end) })
	now, most := 0.0, 0.0
	for _, s := range p.steps {
		for len(ends) > 0 && ends[0].end <= s.start {
			now -= ends[0].bytes
			ends = ends[1:]
		}
		most = max(most, now+s.bytes)
		if !s.short() {
			now += s.bytes
		}
	}
	p.runs[len(p.runs)-1].NodeMB = int64(math.Ceil(min(most/(1<<20), maxMB)))
	p.steps = p.steps[:0]
}

func (s stepMemory) short() bool { return s.start == s.end }

// maxMB is more memory than any node has.
const maxMB = 1 << 40

// mostCPUDays is more CPU time than any step has: a million CPUs for a century.
const mostCPUDays = 1e6 * maxDays

// cpuSeconds reads what sacct prints of CPU time: "00:12.796", "01:02:03", "2-01:02:03". It may
// be longer than any span of time.
func cpuSeconds(text []byte) (float64, error) {
	if len(text) == 0 {
		return 0, nil
	}
	clock, days := string(text), uint64(0)
	if d, rest, has := strings.Cut(clock, "-"); has {
		n, err := parseUint(d, mostCPUDays)
		if err != nil {
			return 0, fmt.Errorf("%.40q: %w days", text, err)
		}
		clock, days = rest, n
	}
	whole, fraction, _ := strings.Cut(clock, ".")
	d, err := ParseTimeLimit(whole)
	if err != nil || d < 0 || !strings.Contains(whole, ":") {
		return 0, fmt.Errorf("%.40q is not [D-][HH:]MM:SS", text)
	}
	seconds := float64(days)*day.Seconds() + d.Seconds()
	if fraction != "" {
		part, err := parseUint(fraction, 999_999_999)
		if err != nil || len(fraction) > 9 {
			return 0, fmt.Errorf("%.40q has no fraction of a second", text)
		}
		seconds += float64(part) / math.Pow10(len(fraction))
	}
	return seconds, nil
}

// memoryUsed reads bytes, with a unit where sacct does not know --noconvert.
func memoryUsed(text []byte) (float64, error) {
	if len(text) == 0 {
		return 0, nil
	}
	return parseUnits(string(text), 0)
}

// countOrNone reads a number that a row may lack.
func countOrNone(text []byte) (int, error) {
	if len(text) == 0 {
		return 0, nil
	}
	n, err := parseUint(text, math.MaxInt32)
	return int(n), err
}

// Peaks reads the most memory, in MB, that the steps which run now have used so far, of
// running jobs by Slurm's own id of a record: for each step what its largest task used,
// times its tasks. Jobs with a step that was not measured are left out: all of them where
// JobAcctGatherType is none. sstat asks the jobs' nodes.
func (c *Client) Peaks(ctx context.Context, raw []uint32) (map[uint32]int64, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return rowsOf(ctx, c, "sstat", parsePeaks, "sstat", "--noheader", "--parsable2", "--allsteps", "--noconvert", "--jobs="+idList(raw), "--format=JobID,MaxRSS,NTasks")
}

// idList are ids as Slurm's commands take them.
func idList(raw []uint32) string {
	ids := make([]string, len(raw))
	for i, id := range raw {
		ids[i] = strconv.FormatUint(uint64(id), 10)
	}
	return strings.Join(ids, ",")
}

// parsePeaks reads lines such as "7.batch|329421824|1", in bytes, or "7.0|321672K|1".
func parsePeaks(out string, t *table) (map[uint32]int64, error) {
	peaks, unmeasured := map[uint32]int64{}, map[uint32]bool{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		t.row(fields[0], addPeak(peaks, unmeasured, fields))
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	maps.DeleteFunc(peaks, func(job uint32, _ int64) bool { return unmeasured[job] })
	return peaks, nil
}

// addPeak adds what one line says. An odd value leaves its job unmeasured.
func addPeak(peaks map[uint32]int64, unmeasured map[uint32]bool, fields []string) error {
	id, step, _ := strings.Cut(fields[0], ".")
	job, err := parseUint(id, math.MaxUint32)
	if err != nil {
		return fmt.Errorf("JobID: %w", err)
	}
	if len(fields) != 3 {
		unmeasured[uint32(job)] = true
		return fmt.Errorf("%d fields, want 3", len(fields))
	}
	if fields[1] == "" { // one that has just begun; of the extern step there is nothing to measure
		unmeasured[uint32(job)] = unmeasured[uint32(job)] || step != "extern"
		return nil
	}
	used, err := parseUnits(fields[1], 0)
	tasks, err1 := parseUint(fields[2], math.MaxUint16)
	if err = errors.Join(err, err1); err != nil {
		unmeasured[uint32(job)] = true
		return err
	}
	peaks[uint32(job)] += int64(math.Ceil(used/(1<<20))) * int64(max(tasks, 1))
	return nil
}
