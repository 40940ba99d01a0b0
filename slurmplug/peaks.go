package slurmplug

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
)

// Peaks reads the most memory, in MB, that the steps which run now have used so far, of
// running jobs by Slurm's own id of a record: for each step what its largest task used,
// times its tasks. Jobs with a step that was not measured are left out: all of them where
// JobAcctGatherType is none. sstat asks the jobs' nodes.
func (c *Client) Peaks(ctx context.Context, raw []uint32) (map[uint32]int64, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	ids := make([]string, len(raw))
	for i, id := range raw {
		ids[i] = strconv.FormatUint(uint64(id), 10)
	}
	out, err := c.readLines(ctx, "sstat", "--noheader", "--parsable2", "--allsteps", "--noconvert", "--jobs="+strings.Join(ids, ","), "--format=JobID,MaxRSS,NTasks")
	if err != nil {
		return nil, err
	}
	return parsePeaks(string(out))
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
		mb, err := parseBytes(fields[1])
		if err != nil {
			return nil, doubtful("sstat", "MaxRSS: %w", err)
		}
		tasks, err := parseUint(fields[2], math.MaxUint16)
		if err != nil {
			return nil, doubtful("sstat", "NTasks: %w", err)
		}
		peaks[uint32(job)] += mb * int64(max(tasks, 1))
	}
	maps.DeleteFunc(peaks, func(job uint32, _ int64) bool { return unmeasured[job] })
	return peaks, nil
}

// parseBytes reads bytes, or KB, MB or GB with the letter, as MB.
func parseBytes(s string) (int64, error) {
	number, unit := s, 1.0
	for letter, times := range map[string]float64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40} {
		if rest, ok := strings.CutSuffix(s, letter); ok {
			number, unit = rest, times
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0 && n*unit < 1<<60) {
		return 0, fmt.Errorf("%.40q is no amount of memory", s)
	}
	return int64(math.Ceil(n * unit / (1 << 20))), nil
}
