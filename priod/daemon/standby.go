package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

const (
	// probePatience is how long a controller may take to show that it is in control.
	probePatience = 5 * time.Second
	// watchEvery is how often the controller is checked during a write.
	watchEvery = 2 * time.Second
	// patientLooks is how many checks in a row may find that the priod of the active host does
	// not own the shared folder: a take-over needs two.
	patientLooks = 10
	// maxRest is for how many cycles at most a priod leaves the shared folder to another one
	// that acts, too.
	maxRest = 64
)

// elsewhere begins why a daemon stands by whose host is not the active one.
const elsewhere = "the active slurmctld is on "

// StandBy is why this daemon leaves the cluster to the one on another host.
type StandBy string

func (s StandBy) Error() string { return "stand-by: " + string(s) }

// Reasons to stand by although the controller of this host is up.
const (
	notInControl = StandBy("the slurmctld of this host does not act yet")
	takingOver   = StandBy("the slurmctld of this host acts; priod acts from the next cycle on")
	contested    = StandBy("each host takes its own slurmctld for the active one, so their priods took the shared folder from each other: check the network between them. This one writes nothing and retries after more and more cycles")
)

var (
	// errNoController says that no controller is up.
	errNoController = errors.New("no slurmctld answers")
	// errUnasked: the active host is unknown. While a primary that comes back
	// takes over, scontrol ping hangs for up to 20 s (seen on 24.11.5 and 26.05.5).
	errUnasked = errors.New("ask which slurmctld acts")
)

// availability is, with follow_controller, whether this host's priod is the one that acts.
type availability struct {
	acting  bool      // the last cycle could act
	loaded  bool      // what is known is what the last priod to act knew
	unready string    // why this host could not take over
	looked  bool      // the last cycle found that this one may act
	since   time.Time // no other host's priod has acted since then, as far as this one saw
	standby StandBy   // of the last cycle without an error, so that it is logged once
	unowned int       // looks in a row that found no word of the active host's priod
	lost    int       // how often another host's priod took the folder while this host acted
	rest    int       // cycles that are left to that one
}

// follow returns a StandBy when this host's priod must not act. To act after
// standing by takes two looks, an interval apart: what the other host's priod
// still had under way is over by then.
func (a *availability) follow(ctx context.Context, slurm Slurm, c *config.Config) error {
	if !c.Cycle.FollowController {
		a.acting, a.since = false, time.Time{} // a reload that turns it on begins with a look
		return nil
	}
	err := Elsewhere(ctx, slurm, c)
	if err == nil && !a.acting {
		probe, cancel := context.WithTimeout(ctx, probePatience)
		defer cancel()
		if slurm.Answers(probe) != nil {
			err = notInControl
		}
	}
	switch {
	case err != nil:
		a.acting, a.looked = false, false
		if standing(err) != "" {
			a.since = time.Time{}
		}
		if strings.HasPrefix(string(standing(err)), elsewhere) {
			a.lost, a.rest = 0, 0
		}
		return err
	case a.rest > 0:
		a.rest--
		return contested
	case !a.acting && !a.looked:
		a.looked = true
		return takingOver
	}
	a.acting = true
	if a.since.IsZero() {
		a.since = time.Now()
	}
	return nil
}

// yield records that another host's priod took the shared folder while this host acted.
// Once is a host that hung; repeatedly, each one thinks that its host is active.
func (a *availability) yield() {
	a.loaded = false
	if a.lost++; a.lost > 1 {
		a.rest = min(1<<(a.lost-1), maxRest)
	}
}

// leave records that another host's priod may act from now on.
func (d *Daemon) leave(why error) {
	a := &d.availability
	if d.Config.State.Shared == "" || standing(why) == "" {
		return
	}
	a.loaded = false
	owner, err := d.Store.Watch()
	acts, known := strings.CutPrefix(string(standing(why)), elsewhere)
	if known && err == nil && !sameHost(owner, acts) {
		a.unowned++
	} else {
		a.unowned = 0
	}
	unready := ""
	switch {
	case err != nil:
		unready = err.Error()
	case standing(why) == contested:
		unready = string(contested)
	case a.unowned >= patientLooks:
		unready = fmt.Sprintf("the priod of %s does not write to %s, although the slurmctld there acts: is priod running on %s, and is this folder mounted there?", acts, d.Config.State.Shared, acts)
	}
	if unready != a.unready && unready != "" && unready != string(contested) { // which is in the log as why it stands by
		d.Log.Error("this host could not take over", "why", unready)
	}
	a.unready = unready
	d.health.note(func(h *health) { h.unready = unready })
}

// sameHost reports whether two names are of one host, in full or up to the first dot.
func sameHost(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a == b
}

// takeOver reads what the last priod to act knew, on whatever host, before this one acts.
func (d *Daemon) takeOver(ctx context.Context) error {
	if d.availability.loaded {
		return nil
	}
	hosts, err := thisHost(d.Config)
	if err != nil {
		return err
	}
	name, err := d.slurm.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	d.availability.unowned, d.availability.unready = 0, ""
	d.health.note(func(h *health) { h.unready = "" })
	from, err := d.Store.TakeOver(ctx, hosts[0], name)
	if err != nil {
		return err
	}
	if from != "" {
		d.Log.Info("took over", "from", from, "journals", d.Config.State.Shared)
	}
	return d.load(ctx)
}

// Elsewhere returns a StandBy when the configuration says to follow the acting
// controller and that is on another host.
func Elsewhere(ctx context.Context, slurm Slurm, c *config.Config) error {
	if !c.Cycle.FollowController {
		return nil
	}
	names, err := thisHost(c)
	if err != nil {
		return err
	}
	all, err := slurm.Controllers(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnasked, err)
	}
	return standBy(all, names)
}

// thisHost gives the names that this host may have in SlurmctldHost.
func thisHost(c *config.Config) ([]string, error) {
	if c.Cycle.ControllerHost != "" {
		return []string{c.Cycle.ControllerHost}, nil
	}
	full, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("this host's name: %w", err)
	}
	short, _, _ := strings.Cut(full, ".")
	return []string{full, short}, nil
}

// OwnerElsewhere is the host whose priod owns the shared folder, where that is another one; "": this one's, or it is not known.
func OwnerElsewhere(c *config.Config) string {
	if c.State.Shared == "" {
		return ""
	}
	names, err := thisHost(c)
	owner, _ := store.CheckShared(c.State.Dir, c.State.Shared)
	if err != nil || owner == nil || owner.Key == "" || slices.Contains(names, owner.Host) {
		return ""
	}
	return owner.Host
}

// standBy judges what scontrol ping says. A controller on standby is up
// too: Slurm's clients use the first one that is (slurm_protocol_api.c), and so
// the first one that is up acts, or is about to.
func standBy(all []slurmplug.Controller, names []string) error {
	here := func(c slurmplug.Controller) bool { return slices.Contains(names, c.Host) }
	var hosts []string
	for _, c := range all {
		if strings.Contains(c.Host, ",") {
			return fmt.Errorf("SlurmctldHost=%s leaves the choice of the active host to other software, which cycle.follow_controller cannot follow; let that software start priod, too", c.Host)
		}
		hosts = append(hosts, c.Host)
	}
	if !slices.ContainsFunc(all, here) {
		return fmt.Errorf("this host (%s) is none of the controllers (%s): run priod there, or set cycle.controller_host", names[0], strings.Join(hosts, ", "))
	}
	first := slices.IndexFunc(all, func(c slurmplug.Controller) bool { return c.Up })
	switch {
	case first < 0:
		return fmt.Errorf("%w (%s)", errNoController, strings.Join(hosts, ", "))
	case !here(all[first]):
		return StandBy(elsewhere + all[first].Host)
	}
	return nil
}

// follower writes only while this host's controller is active.
type follower struct {
	Slurm
	d *Daemon
}

// Look does nothing while another host's priod is active: it may have the same jobs in hand.
func (f follower) Look(ctx context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	if err := Elsewhere(ctx, f.Slurm, f.d.Config); err != nil {
		return nil, err
	}
	return f.Slurm.Look(ctx, targets)
}

// Apply looks once more before it writes, and keeps looking: a scontrol whose
// controller falls waits for the next one, where another priod is active.
func (f follower) Apply(ctx context.Context, actions []plan.Action) []plan.Outcome {
	if err := Elsewhere(ctx, f.Slurm, f.d.Config); err != nil {
		out := make([]plan.Outcome, len(actions))
		for i, a := range actions {
			out[i] = plan.Outcome{Action: a, Status: slurmplug.Postponed, Message: slurmplug.NotSent + err.Error()}
		}
		return out
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		look := time.NewTicker(watchEvery)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if err := Elsewhere(ctx, f.Slurm, f.d.Config); err != nil {
					cancel(err)
				}
			}
		}
	}()
	out := f.Slurm.Apply(ctx, actions)
	cancel(nil)
	<-watched
	return out
}

// standing returns the StandBy that an error is, "" for any other.
func standing(err error) StandBy {
	var s StandBy
	errors.As(err, &s)
	return s
}
