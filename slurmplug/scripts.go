package slurmplug

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// KeepsScripts reports whether accounting keeps batch scripts (AccountingStoreFlags=job_script, from Slurm 21.08 on).
func (c Config) KeepsScripts() bool { return c.lists("AccountingStoreFlags", "job_script") }

// scriptsAtOnce are asked for in one command, which bounds what comes at once: a script has 4 MB at most by default.
const scriptsAtOnce = 500

// BatchScripts reads from the accounting the batch scripts of jobs, and hands each to do, which does not keep it. Of an
// array it takes one task. A job without a script is left out, and so is one that another user may not see.
func (c *Client) BatchScripts(ctx context.Context, jobs []JobID, do func(job JobID, script []byte)) error {
	for some := range slices.Chunk(jobs, scriptsAtOnce) {
		ids := make([]string, len(some))
		for i, job := range some {
			ids[i] = job.String()
		}
		out, err := c.readLines(ctx, "sacct", "--batch-script", "--jobs="+strings.Join(ids, ","))
		if err != nil {
			return err
		}
		for i, script := range scriptsOf(out, ids) {
			if script != nil {
				do(some[i], script)
			}
		}
	}
	return nil
}

// scriptsOf splits what sacct prints at the line that begins each script. A script can hold such a line, too: a job of
// which there are two has none here.
func scriptsOf(out []byte, ids []string) [][]byte {
	place := make(map[string]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	rule := []byte("\n" + strings.Repeat("-", 80) + "\n")
	scripts, twice := make([][]byte, len(ids)), make([]bool, len(ids))
	for part := range bytes.SplitSeq(append([]byte("\n"), out...), []byte("\nBatch Script for ")) {
		id, script, is := bytes.Cut(part, rule)
		if at, asked := place[string(id)]; is && asked {
			twice[at] = twice[at] || scripts[at] != nil
			scripts[at] = script
		}
	}
	for i, script := range scripts {
		if twice[i] || bytes.Equal(bytes.TrimSpace(script), []byte("NONE")) {
			scripts[i] = nil
		}
	}
	return scripts
}
