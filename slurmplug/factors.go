package slurmplug

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sprioFormat: id, priority, site, nice, age, association, fair share, job
// size, partition, QOS, TRES; all but the first weighted (sprio/opts.c).
const sprioFormat = "%i|%Y|%S|%N|%A|%B|%F|%J|%P|%Q|%T"

// Factors reads the priority factors of pending jobs, the only place where
// Slurm shows SiteFactor. sprio lists only what slurmctld has found eligible:
// requeued, held, future and just submitted jobs are missing.
func (c *Client) Factors(ctx context.Context) ([]Factors, error) {
	return query(ctx, c, parseFactors, "sprio", "--noheader", "--format="+sprioFormat)
}

func parseFactors(out string) ([]Factors, error) {
	all := make([]Factors, 0, strings.Count(out, "\n"))
	index := make(map[uint32]int, cap(all))
	sums := map[string]int64{"": 0} // of the TRES terms, which few jobs have to themselves
	for line := range strings.Lines(out) {
		f, err := factors(strings.TrimSuffix(line, "\n"), sums)
		if err != nil {
			all = append(all, Factors{RawID: f.RawID, Unread: fmt.Sprintf("%q: %v", firstLine([]byte(line)), err)})
			continue
		}
		if i, known := index[f.RawID]; known { // one row for each partition
			if f.Priority > all[i].Priority {
				all[i] = f
			}
			continue
		}
		index[f.RawID] = len(all)
		all = append(all, f)
	}
	if err := mostlyRead(all, func(f *Factors) string { return f.Unread }); err != nil {
		return nil, doubtful("sprio", "%w", err)
	}
	return all, nil
}

func factors(line string, sums map[string]int64) (f Factors, err error) {
	text, rest, _ := strings.Cut(line, "|")
	id, err := parseUint(text, math.MaxUint32)
	if err != nil || id == 0 {
		return f, fmt.Errorf("job id %.40q", text)
	}
	f.RawID = uint32(id)
	for _, n := range []*int64{&f.Priority, &f.SiteFactor, &f.Nice, &f.Age, &f.Assoc, &f.FairShare, &f.JobSize, &f.Partition, &f.QOS} {
		var ok bool
		if text, rest, ok = strings.Cut(rest, "|"); !ok {
			return f, fmt.Errorf("too few fields")
		}
		if *n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return f, fmt.Errorf("%.40q is no number", text)
		}
	}
	sum, known := sums[rest]
	if !known {
		if sum, err = sumTRES(rest); err != nil {
			return f, err
		}
		sums[rest] = sum
	}
	f.TRES = sum
	return f, nil
}

// sumTRES adds up "cpu=2,mem=0,gres/gpu=14".
func sumTRES(list string) (int64, error) {
	sum := int64(0)
	for _, item := range listOf(list) {
		name, text, _ := strings.Cut(item, "=")
		n, err := strconv.ParseInt(text, 10, 33)
		if err != nil || !isTRESName(name) {
			return 0, fmt.Errorf("TRES factor %.40q is not NAME=NUMBER", item)
		}
		sum += n
	}
	return sum, nil
}
