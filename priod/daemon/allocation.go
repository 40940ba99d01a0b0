package daemon

import (
	"fmt"
	"os"
	"path/filepath"

	"slurmprio/priod/decide"
	"slurmprio/priod/policy/allocation"
)

// allocation is how this cycle divides the GPUs' time.
func (d *Daemon) allocation() decide.AllocationSettings {
	set := d.Config.AllocationSettings()
	set.Table = d.table
	if d.Config.Speeds.History > 0 {
		set.Knowledge = d.school.last.Knowledge
	}
	set.Trouble = d.keepProblem
	return set
}

// keepProblem writes down a problem that the optimiser failed on, the last one
// only, in the state folder, for priod allocate.
func (d *Daemon) keepProblem(p *allocation.Problem, _ error) string {
	path := filepath.Join(d.Config.State.Dir, "allocation-failed.json")
	text, err := p.MarshalJSON()
	if err == nil {
		err = os.WriteFile(path, text, 0o640)
	}
	if err != nil {
		return fmt.Sprintf("the problem could not be kept: %v", err)
	}
	return "the problem is in " + path + ": priod allocate takes it"
}
