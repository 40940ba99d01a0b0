package daemon

import (
	"fmt"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/store"
)

// When values of this priod are replaced by another one's: how many jobs, in
// how many cycles, show that it is no accident.
const (
	rivalJobs   = 3
	rivalCycles = 2
)

// peers are other priods: on this host, which the lock keeps off the cluster, and
// elsewhere, which show by their values.
type peers struct {
	lock     *HostLock // nil: not taken yet
	unlocked string    // why it could not be taken, so that it is logged once
	rival    rival
	yielded  string // why this priod gave way, when it could not pause itself
}

// rival notices another priod on the same cluster by its values. Only the one
// that came second, which found values of the first when it began, gives way.
type rival struct {
	begun  bool
	second bool                    // there were values already
	values map[cluster.JobID]int64 // of other priods in the last cycle
	jobs   int
	cycles int
	last   time.Time // of the last replaced value
	found  bool
}

// cycle takes in the values of other priods that one cycle found; true when a rival shows itself.
func (r *rival) cycle(foreign []order.PeerValue, at time.Time) (found bool) {
	values := make(map[cluster.JobID]int64, len(foreign))
	replaced := 0
	for _, x := range foreign {
		values[x.Job] = x.Written.Value
		if v, known := r.values[x.Job]; x.Replaced && (!known || v != x.Written.Value) {
			replaced++
		}
	}
	r.values = values
	if !r.begun {
		r.begun, r.second = true, len(foreign) > 0
		return false
	}
	if since := at.Sub(r.last); since < 0 || since > cluster.RevertPeriod { // negative: the clock was set back
		r.jobs, r.cycles, r.found = 0, 0, false
	}
	if replaced > 0 {
		r.jobs, r.cycles, r.last = r.jobs+replaced, r.cycles+1, at
	}
	was := r.found
	r.found = r.jobs >= rivalJobs && r.cycles >= rivalCycles
	return r.found && !was
}

// reset starts over after a standby: what was written meanwhile is a peer's.
func (r *rival) reset() { *r = rival{} }

// rivals looks for another priod in what a cycle saw, and stops this one when
// it came second. While priod is paused another writer is no rival.
func (d *Daemon) rivals(foreign []order.PeerValue, at time.Time) {
	found := d.last.hold == "" && d.peers.rival.cycle(foreign, at)
	d.metrics.rival.Set(0)
	if d.peers.rival.found || store.ByDaemon(d.last.hold) {
		d.metrics.rival.Set(1)
	}
	if !found {
		return
	}
	text := fmt.Sprintf("another priod writes to this cluster: %d values were replaced by other values of the same band in %d cycles", d.peers.rival.jobs, d.peers.rival.cycles)
	if !d.peers.rival.second {
		d.Log.Warn(text+"; it started later and has to stop, this one goes on and does not touch its values", "cycle", d.cycle)
		return
	}
	why := text + ", and it was first. Stop one of them, then run priod resume"
	if err := d.Store.Pause(why); err != nil {
		d.Log.Error("priod cannot pause itself and only stops writing", "why", why, "error", err)
		d.peers.yielded = store.OwnPause(why).String()
		return
	}
	d.Log.Error(why, "cycle", d.cycle)
}
