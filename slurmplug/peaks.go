package slurmplug

import (
	"context"
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
	out, err := c.readLines(ctx, "sstat", "--noheader", "--parsable2", "--allsteps", "--noconvert", "--jobs="+idList(raw), "--format=JobID,MaxRSS,NTasks")
	if err != nil {
		return nil, err
	}
	return parsePeaks(string(out))
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
			return nil, doubtful("sstat", "MaxRSS: %w", err)
		}
		tasks, err := parseUint(fields[2], math.MaxUint16)
		if err != nil {
			return nil, doubtful("sstat", "NTasks: %w", err)
		}
		peaks[uint32(job)] += int64(math.Ceil(used/(1<<20))) * int64(max(tasks, 1))
	}
	maps.DeleteFunc(peaks, func(job uint32, _ int64) bool { return unmeasured[job] })
	return peaks, nil
}
