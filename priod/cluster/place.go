package cluster

import "slurmprio/slurmplug"

// Place is what a pending job says of its nodes that no poll shows.
type Place struct {
	Required, Excluded string // host lists
	Bounds             slurmplug.Bounds
}
