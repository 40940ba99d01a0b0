package slurmplug

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// NumNodes is the lever on how many nodes a waiting job may lie on. Its values are those of
// NodesText.
const NumNodes Lever = "NumNodes"

// HiddenNodes replaces a value of NumNodes where Slurm does not show the most
// nodes of a job: slurmctld shows none of those that were in the queue when it started, that
// run or have run (_pack_node_cnt in slurmctld/job_mgr.c packs 0 where total_nodes is set).
const HiddenNodes = "hidden"

// NodesText is a value of the lever: so many nodes at least, and at most; most is 0 for a job
// that left it open.
func NodesText(least, most int) string { return fmt.Sprintf("%d-%d", least, most) }

// ParseNodes reads a value of the lever.
func ParseNodes(text string) (least, most int, err error) {
	low, high, both := strings.Cut(text, "-")
	n, err1 := parseUint([]byte(low), math.MaxInt32)
	m, err2 := parseUint([]byte(high), math.MaxInt32)
	if !both || err1 != nil || err2 != nil || n == 0 || m > 0 && m < n {
		return 0, 0, fmt.Errorf("nodes %.40q: want LEAST-MOST, MOST 0 where it is open", text)
	}
	return int(n), int(m), nil
}

// Booted is when slurmctld started; zero where it does not say.
func (c Config) Booted() time.Time {
	n, err := parseUint(c.values["BOOT_TIME"], math.MaxInt64)
	if err != nil || n == 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

// NodeCount reads how many nodes a waiting job asks for, by its record in the queue, from a
// slurmctld that started at booted: a value of NumNodes, or HiddenNodes.
func (c *Client) NodeCount(ctx context.Context, record *Job, booted time.Time) (string, error) {
	return shownOf(ctx, c, Plain(record.RawID), record, func(record *Job, out string) (string, error) { return parseNodeCount(record, out, booted) })
}

// parseNodeCount: of an open number Slurm shows "1", of a bounded one "1-1". The first of both
// is an estimate; what was asked for stands in the record. Of a job that has started since it
// was in the queue it shows the nodes that it runs on, and not what it asked for. 26.05, which also says
// Exclusive=, bounds an open number by the tasks and shows that: "1-4" may be an open number of 4 tasks, of which any
// write would make a bound that Slurm then tries to reach (JOB_IMPLICIT_MAX_NODES in slurmctld/job_mgr.c and
// node_scheduler.c; seen on 26.05.5). So it counts as not shown.
func parseNodeCount(record *Job, out string, booted time.Time) (string, error) {
	words, err := askedWords(record, out)
	if err != nil || words["JobState"] != "PENDING" {
		return HiddenNodes, err
	}
	_, high, bounded := strings.Cut(words["NumNodes"], "-")
	if !bounded {
		if record.Restarts == 0 && !booted.IsZero() && record.Submit.After(booted) {
			return NodesText(record.NodeCount(), 0), nil
		}
		return HiddenNodes, nil
	}
	most, err := parseUint(high, math.MaxInt32)
	if err != nil {
		return "", fmt.Errorf("NumNodes: %w", err)
	}
	if _, implicit := words["Exclusive"]; implicit && most > 1 && high == words["NumTasks"] {
		return HiddenNodes, nil
	}
	return NodesText(record.NodeCount(), int(most)), nil
}
