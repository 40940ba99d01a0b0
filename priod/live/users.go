package live

import (
	"cmp"

	"slurmprio/priod/cluster"
)

// users remembers the names of uids. During an outage of the name service Slurm's
// commands show no names, and no job is to change its user for that.
type users map[uint32]string

// name is the user of a job with this uid that Slurm shows under this name.
func (u users) name(uid uint32, shown string) string {
	if !cluster.Nameless(shown) {
		if u[uid] != shown {
			u[uid] = shown
		}
		return shown
	}
	return cmp.Or(u[uid], shown)
}
