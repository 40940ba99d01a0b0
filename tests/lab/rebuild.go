package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Rebuild makes another cluster of the lab: slurmctld, the slurmds and what still runs of jobs are killed, what they remember
// is removed, and they start with the nodes, the partitions and the configuration of o. munged,
// slurmdbd and what it holds stay; the commands of o.Sacctmgr are run before slurmctld starts. It
// takes some 2 s for 50 nodes. o.NoAccounting and o.Backup have to be those of Start.
func (l *Lab) Rebuild(ctx context.Context, o Options) error {
	o, err := o.filled()
	if err != nil {
		return err
	}
	if o.NoAccounting != l.opts.NoAccounting || o.Backup || l.opts.Backup {
		return errors.New("lab: Rebuild keeps accounting as it is, and knows no backup controller")
	}
	if err := l.killAll(ctx, append(slurmds(l.Nodes), "slurmctld")); err != nil {
		return err
	}
	// A step that ends later reports the end of a job whose id another job has by then.
	left := func() []int { return steps(l.Dir) }
	if err := killAll(left, func() bool { return len(left()) == 0 }); err != nil {
		return err
	}
	for _, dir := range []string{"state", "spool"} {
		entries, err := filepath.Glob(l.path(dir + "/*"))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.RemoveAll(e); err != nil {
				return err
			}
		}
	}
	l.opts, l.Nodes = o, nodeNames(o.Nodes)
	free, err := freePorts(len(l.Nodes))
	if err != nil {
		return err
	}
	l.ports.Slurmd = free.Slurmctld // the first of them
	if err := writeFolder(l.Dir, l.user, l.host, l.ports, l.opts); err != nil {
		return err
	}
	if len(o.Sacctmgr) > 0 {
		if err := l.runToEnd(ctx, "sacctmgr", []string{lookup("sacctmgr"), "-i"}, l.path("etc/sacctmgr.site")); err != nil {
			return err
		}
	}
	if err := l.StartDaemon(ctx, "slurmctld"); err != nil {
		return err
	}
	for _, d := range slurmds(l.Nodes) {
		if err := l.launch(d); err != nil {
			return err
		}
	}
	return l.WaitNodes(ctx)
}

// slurmds are the daemons of nodes.
func slurmds(nodes []string) (daemons []string) {
	for _, n := range nodes {
		daemons = append(daemons, Slurmd(n))
	}
	return daemons
}

// killAll kills daemons at once.
func (l *Lab) killAll(ctx context.Context, daemons []string) error {
	failed := make([]error, len(daemons))
	var wg sync.WaitGroup
	for i, d := range daemons {
		wg.Go(func() {
			if err := l.Kill(ctx, d); err != nil {
				failed[i] = fmt.Errorf("%s: %w", d, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
