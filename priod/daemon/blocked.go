package daemon

import (
	"errors"

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
	case trouble != "":
		return Blocked(trouble)
	}
	return OtherError
}

// blocked takes in why the last cycle wrote nothing, or failed.
func (d *Daemon) blocked(why Blocked) {
	set(d.metrics.trouble.blocked, allBlocked, func(count map[Blocked]float64) { count[why] = 1 })
	d.health.note(func(h *health) { h.blocked = why })
}
