package live

import "slurmprio/priod/cluster"

// users remembers the names of uids, so that an outage of the name service makes
// nobody another user: for as long as it lasts Slurm's commands show no names.
type users map[uint32]string

// name is the user of a job with this uid that Slurm shows under this name.
func (u users) name(uid uint32, shown string) string {
	if !cluster.Nameless(shown) {
		if u[uid] != shown {
			u[uid] = shown
		}
		return shown
	}
	if known := u[uid]; known != "" {
		return known
	}
	return shown
}
