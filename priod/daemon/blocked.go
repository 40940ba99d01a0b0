package daemon

import (
	"errors"
	"slices"

	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// Blocked is why a cycle wrote nothing, or failed, in a word: /health, the metric
// priod_blocked, the pages and the sections of docs/alerts.md name states alike. The words of
// the store are its own too.
type Blocked string

// Why nothing is written although cycles succeed.
const (
	Paused         Blocked = "paused"           // by an operator
	Rival          Blocked = "rival"            // by itself, because of another priod
	SlurmVersion   Blocked = "slurm-version"    // see live.Unfit
	OtherProcess   Blocked = "other-process"    // store.ErrGaveWay
	CannotTakeOver Blocked = "cannot-take-over" // it stands by, and could do no more
)

// Why cycles fail, beside store.Troubles.
const (
	SlurmSilent    Blocked = "slurm-silent"     // no answer, or not in time
	SlurmRateLimit Blocked = "slurm-rate-limit" // on requests
	SlurmDoubtful  Blocked = "slurm-doubtful"   // what it said cannot be trusted
	SlurmCommands  Blocked = "slurm-commands"   // are not there
	SlurmFails     Blocked = "slurm-fails"      // a command of Slurm's says why
	OtherError     Blocked = "other-error"
)

// fails are those with which cycles fail, in words for people.
var fails = map[Blocked]string{
	SlurmSilent:    "Slurm does not answer",
	SlurmRateLimit: "slurmctld limits what priod may ask",
	SlurmDoubtful:  "Slurm's answers cannot be trusted",
	SlurmCommands:  "Slurm's commands are not there",
	SlurmFails:     "a command of Slurm's fails",
	OtherError:     "priod's cycles fail",

	Blocked(store.DiskFull):     "the disk of the state folder is full",
	Blocked(store.ReadOnly):     "the state folder cannot be written",
	Blocked(store.DiskFails):    "the disk of the state folder fails",
	Blocked(store.FolderGone):   "the state folder, or a file in it, is gone",
	Blocked(store.SharedFolder): "the folder that the hosts share is not in order",
	Blocked(store.TakenOver):    "another host's priod has taken over",
}

// Fails says in words why cycles fail; fails is false of a word with which they succeed.
func (b Blocked) Fails() (words string, fail bool) {
	words, fail = fails[b]
	return words, fail
}

// allBlocked are all of them.
var allBlocked = func() []Blocked {
	all := []Blocked{
		Paused, Rival, SlurmVersion, OtherProcess, CannotTakeOver,
		SlurmSilent, SlurmRateLimit, SlurmDoubtful, SlurmCommands, SlurmFails, OtherError,
	}
	for _, trouble := range store.Troubles {
		all = append(all, Blocked(trouble))
	}
	return all
}()

// heldBy tells why a cycle that succeeds writes nothing, "" when it may write.
func heldBy(pause, unfit string) Blocked {
	switch {
	case store.ByDaemon(pause):
		return Rival
	case pause != "":
		return Paused
	case unfit != "":
		return SlurmVersion
	}
	return ""
}

// failedBy tells why a cycle failed.
func failedBy(err error) Blocked {
	var command *slurmplug.CommandError
	slurms := errors.As(err, &command)
	switch trouble := store.TroubleOf(err); {
	case err == nil:
		return ""
	case errors.Is(err, store.ErrGaveWay):
		return OtherProcess
	case errors.Is(err, slurmplug.ErrNotFound):
		return SlurmCommands
	case errors.Is(err, slurmplug.ErrRate):
		return SlurmRateLimit
	case errors.Is(err, slurmplug.ErrDoubtful), errors.Is(err, slurmplug.ErrOutputTooLong):
		return SlurmDoubtful
	case errors.Is(err, slurmplug.ErrController), errors.Is(err, slurmplug.ErrTimeout), errors.Is(err, errNoController), errors.Is(err, errUnasked):
		return SlurmSilent
	case slurms:
		return SlurmFails
	case slices.Contains(store.Troubles, trouble):
		return Blocked(trouble)
	}
	return OtherError
}

// blocked takes in why the last cycle wrote nothing, or failed.
func (d *Daemon) blocked(why Blocked) {
	set(d.metrics.trouble.blocked, allBlocked, func(count map[Blocked]float64) { count[why] = 1 })
	d.health.note(func(h *health) { h.said.Blocked = why })
}
