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
// should be a day.
func (c *Client) Usage(ctx context.Context, since, until time.Time) ([]Usage, error) {
	s := c.nonce()
	out, err := c.read(ctx, "sacct", "--noheader", "--parsable", "--duplicates", "--allusers", "--noconvert",
		"--state=CD,F,TO,CA,PR,NF,OOM,RQ,DL", // with these, those that ended in the range
		"--delimiter="+s.end, "--starttime="+sacctTime(since), "--endtime="+sacctEnd(until), "--format="+strings.Join(usageColumns[:], ","))
	if err != nil {
		return nil, err
	}
	return parseUsage(out, s)
}

// parseUsage reads rows of runs, each with those of its steps behind it.
func parseUsage(out []byte, s separators) ([]Usage, error) {
	var p usageParser
	if err := s.rows(out, p.fields[:], p.row); err != nil {
		return nil, err
	}
	p.finish()
	return p.runs, nil
}

type usageParser struct {
	fields [len(usageColumns)][]byte
	runs   []Usage
	steps  []stepMemory // of the last run
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
		return fmt.Errorf("column JobIDRaw: %w", err)
	}
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
		p.finish()
		p.runs = append(p.runs, Usage{RawID: uint32(raw), Start: start, Nodes: max(1, nodes)})
		return nil
	}
	if len(p.runs) == 0 || p.runs[len(p.runs)-1].RawID != uint32(raw) || len(step) == 0 {
		return errors.New("a step without its job before it")
	}
	run := &p.runs[len(p.runs)-1]
	used, err := cpuTime(f[3])
	if err != nil {
		return fmt.Errorf("TotalCPU: %w", err)
	}
	run.CPUTime = min(run.CPUTime+used, maxDays*day)
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

// cpuTime reads what sacct prints of CPU time: "00:12.796", "01:02:03",
// "2-01:02:03".
func cpuTime(text []byte) (time.Duration, error) {
	if len(text) == 0 {
		return 0, nil
	}
	whole, fraction, _ := strings.Cut(string(text), ".")
	d, err := ParseTimeLimit(whole)
	if err != nil || d < 0 || !strings.Contains(whole, ":") {
		return 0, fmt.Errorf("%.40q is not [D-][HH:]MM:SS", text)
	}
	if fraction != "" {
		part, err := parseUint(fraction, 999_999_999)
		if err != nil || len(fraction) > 9 {
			return 0, fmt.Errorf("%.40q has no fraction of a second", text)
		}
		d += time.Duration(float64(part) * math.Pow10(9-len(fraction)))
	}
	return d, nil
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
	return query(ctx, c, parsePeaks, "sstat", "--noheader", "--parsable2", "--allsteps", "--noconvert", "--jobs="+idList(raw), "--format=JobID,MaxRSS,NTasks")
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
func parsePeaks(out string) (map[uint32]int64, error) {
	peaks, unmeasured := map[uint32]int64{}, map[uint32]bool{}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 {
			return nil, doubtful("sstat", "%.80q has not 3 fields", line)
		}
		id, step, _ := strings.Cut(fields[0], ".")
		job, err := parseUint(id, math.MaxUint32)
		if err != nil {
			return nil, doubtful("sstat", "JobID: %w", err)
		}
		if fields[1] == "" { // one that has just begun; of the extern step there is nothing to measure
			unmeasured[uint32(job)] = unmeasured[uint32(job)] || step != "extern"
			continue
		}
		used, err := parseUnits(fields[1], 0)
		if err != nil {
			unmeasured[uint32(job)] = true // one odd value costs its job
			continue
		}
		tasks, err := parseUint(fields[2], math.MaxUint16)
		if err != nil {
			unmeasured[uint32(job)] = true
			continue
		}
		peaks[uint32(job)] += int64(math.Ceil(used/(1<<20))) * int64(max(tasks, 1))
	}
	maps.DeleteFunc(peaks, func(job uint32, _ int64) bool { return unmeasured[job] })
	return peaks, nil
}
