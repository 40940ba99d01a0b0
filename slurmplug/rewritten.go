package slurmplug

import (
	"context"
	"strconv"
	"strings"
)

// RewritesTasks reports whether slurmctld of a version sets a pending job's number of tasks anew at each
// update, whatever that is about, a hold or a release too: from 23.02.0 to 25.05.2 to the tasks for each GPU
// (--ntasks-per-gpu) or node (--ntasks-per-node) times the nodes (slurmctld/job_mgr.c, _figure_out_num_tasks,
// in all tags of SchedMD's from 22.05.8 to 25.11.7; seen on 24.11.5, not on 22.05.8 and 26.05.5). The job then
// asks for other tasks and CPUs than its user did, and with --ntasks-per-gpu alone it never starts.
func RewritesTasks(version string) bool {
	major, minor, ok := ReleaseOf(version)
	patch := 0
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		patch, _ = strconv.Atoi(parts[2])
	}
	release := 100*major + minor
	return ok && 2302 <= release && (release < 2505 || release == 2505 && patch < 3)
}

// TasksPerNode reads how many tasks jobs ask for on each node (--ntasks-per-node), 0 where they do not, by
// JobID. Jobs that slurmctld does not know are left out.
func (c *Client) TasksPerNode(ctx context.Context, jobs []uint32) (map[uint32]int, error) {
	able, err := c.Abilities(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.read(ctx, "squeue", able.squeueArgs("--jobs="+idList(jobs), "-O", "JobID:|,NTPerNode:|")...)
	if isNoJob(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tasks := make(map[uint32]int, len(jobs))
	for line := range strings.Lines(string(out)) {
		id, n, found := strings.Cut(strings.TrimSuffix(line, "|\n"), "|")
		job, err := strconv.ParseUint(id, 10, 32)
		count, err2 := strconv.ParseUint(n, 10, 31)
		if !found || err != nil || err2 != nil {
			return nil, doubtful("squeue", "no job and tasks: %q", clip([]byte(line)))
		}
		tasks[uint32(job)] = int(count)
	}
	return tasks, nil
}
