package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
)

// allocation is how this cycle divides the GPUs' time.
func (d *Daemon) allocation() allocate.Settings {
	set := d.Config.AllocationSettings()
	set.Table = d.table
	if d.Config.Speeds.History > 0 {
		set.Knowledge = d.learning.speeds.last.Knowledge
	}
	set.OnFailure, set.Accounts = d.keepProblem, d.learning.accounts.of.Parts
	return set
}

// accountTree is Slurm's accounts, as they were last read.
type accountTree struct {
	of      cluster.Accounts
	asked   time.Time
	trouble string // so that it is logged once
}

// accountsEvery is how often Slurm's associations are read, where they count.
const accountsEvery = time.Hour

// readAccounts brings the accounts up to date now and then. Without them accounts share alike, and each stands alone.
func (d *Daemon) readAccounts(ctx context.Context) {
	p := &d.learning.accounts
	if d.Config.AllocationSettings().Policy != "hierarchical" && len(d.Config.Shares) == 0 || !p.asked.IsZero() && time.Since(p.asked) < accountsEvery {
		return
	}
	p.asked = time.Now()
	of, err := d.slurm.Accounts(ctx)
	d.metrics.trouble.read(readShares, err)
	switch {
	case err == nil:
		p.of, p.trouble = of, ""
	case err.Error() != p.trouble:
		p.trouble = err.Error()
		d.Log.Warn("accounts cannot be read: known ones are used; others share alike and stand alone", "error", err)
	}
}

// keepProblem writes down a problem that the optimiser failed on, the last one
// only, in the state folder, for a report of the fault.
func (d *Daemon) keepProblem(p *allocate.Problem, _ error) string {
	path := filepath.Join(d.Config.State.Dir, "allocation-failed.json")
	text, err := p.MarshalJSON()
	if err == nil {
		err = os.WriteFile(path, text, 0o640)
	}
	if err != nil {
		return fmt.Sprintf("the problem could not be kept: %v", err)
	}
	return "the problem is in " + path + ": please report it with that file"
}
