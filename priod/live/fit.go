package live

import (
	"fmt"

	"slurmprio/slurmplug"
)

// Oldest and Newest are the first and the last release that priod was tried with.
const (
	Oldest = "22.05"
	Newest = "26.05"
)

// Tried are all releases that priod was tried with.
var Tried = []string{Oldest, "24.11", Newest}

// Unfit says why priod should not write to a Slurm whose slurmctld and commands are of
// these versions; "" when it may. With untried it may also write to a newer one than was
// tried.
func Unfit(slurmctld, commands string, untried bool) string {
	major, minor, ok := slurmplug.ReleaseOf(slurmctld)
	oldMajor, oldMinor, _ := slurmplug.ReleaseOf(Oldest)
	newMajor, newMinor, _ := slurmplug.ReleaseOf(Newest)
	switch cMajor, cMinor, cOK := slurmplug.ReleaseOf(commands); {
	case !ok:
		return fmt.Sprintf("slurmctld reports version %.40q, which is no Slurm version", slurmctld)
	case major < oldMajor || major == oldMajor && minor < oldMinor:
		return fmt.Sprintf("Slurm %s is older than %s, the oldest supported version", slurmctld, Oldest)
	case !untried && (major > newMajor || major == newMajor && minor > newMinor):
		return fmt.Sprintf("Slurm %s is newer than %s, the newest tested version: slurm.untried = true in priod.toml allows writes", slurmctld, Newest)
	case !cOK || cMajor != major || cMinor != minor:
		return fmt.Sprintf("slurmctld is Slurm %s and the commands on this host are %s (upgrade under way): nothing is written until both are of one release", slurmctld, commands)
	}
	return ""
}
