package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Slurm is a cluster in which everything that priod wrote can be taken back.
type Slurm interface {
	plan.Slurm
	// ObserveQueue is Observe without what only decisions need: nodes, partitions and priorities
	// that cannot be read are missing.
	ObserveQueue(context.Context) (cluster.Snapshot, error)
	// Asked reads how waiting jobs ask for their sizes, into their Asked. One that
	// cannot be read stays without, with an error, and holds up no other.
	Asked(context.Context, []*cluster.Job) error
	// AskSwitches reads what jobs ask of switches, into their Switches, in the same way.
	AskSwitches(context.Context, []*cluster.Job) error
	// AskNodeCounts reads how many nodes jobs ask for, into their NodeCount, in the same way.
	AskNodeCounts(context.Context, []*cluster.Job) error
	// Look and Do are those of plan.Leaving.
	Look(context.Context, []plan.Target) (map[cluster.JobID]plan.JobStatus, error)
	Do(context.Context, []plan.Command) []plan.Result
	// Excluded are the nodes that a waiting job refuses.
	Excluded(context.Context, plan.Target) (string, error)
	// Reservations are the names of those that keep others off the places of evictions.
	Reservations(context.Context) ([]string, error)
}

// Reset takes back everything that priod wrote.
type Reset struct {
	Dir    string // the folder of the journal
	Lock   string // the lock file of its writers
	Slurm  Slurm
	Order  order.Settings
	DryRun bool         // only says what would be taken back
	Say    func(string) // is told how far a reset has come that takes long
	// Await is for how long at most it waits for jobs whose runs still end: a victim that was
	// just requeued waits then, and is given its own request back.
	Await time.Duration

	// Hold pauses priod and keeps all others from writing, until release is called.
	Hold func(context.Context) (release func(), err error)
	// Seen is how many records the journal had when the database last saw it.
	Seen func(context.Context) (int64, error)
	// Evictions are those that the journal tells.
	Evictions func() (*evict.Journal, error)

	journal *Journal
	settled []plan.Outcome // of the rounds until now
	ending  int            // see Plan.Ending
	looked  bool           // a round has been
	result  Result
}

// Result is what a reset took back, or would.
type Result struct {
	DryRun bool           `json:"dry_run"`
	Gone   int            `json:"gone"`             // jobs that left the queue meanwhile
	Failed int            `json:"failed"`           // values that are still there
	Behind string         `json:"behind,omitempty"` // what is wrong with the journal: an older copy tells of no later writes
	Writes []plan.Outcome `json:"writes"`

	Requeued     []cluster.JobID    `json:"requeued"`     // victims that had left and were still to be requeued
	Reservations []EndedReservation `json:"reservations"` // which kept others off the places of evictions
}

// EndedReservation is what became of a reservation.
type EndedReservation struct {
	Name    string           `json:"name"`
	Status  slurmplug.Status `json:"status,omitempty"`
	Message string           `json:"message,omitempty"`
}

// Complete reports whether nothing of priod's is left that could not be taken back.
func (r *Result) Complete() bool {
	stuck := func(e EndedReservation) bool { return !r.DryRun && e.Status != slurmplug.Applied }
	return r.Failed == 0 && r.Behind == "" && !slices.ContainsFunc(r.Reservations, stuck)
}

// Run carries the reset out, once. Where Slurm's rate limit, or priod's own, leaves
// writes over it looks again and continues, as long as it gets any done, and says so.
func (r *Reset) Run(ctx context.Context) (_ *Result, err error) {
	if !r.DryRun {
		release, err := r.Hold(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	defer func() {
		if err != nil && !r.DryRun {
			err = fmt.Errorf("%w; priod stays paused (priod resume)", err)
		}
	}()
	if r.journal, err = Open(r.Dir, r.Lock); err != nil {
		return nil, err
	}
	v := &r.result
	*v = Result{DryRun: r.DryRun, Writes: []plan.Outcome{}, Requeued: []cluster.JobID{}}
	seen, err := r.Seen(ctx)
	if err != nil && r.journal.file.Missing() {
		return nil, fmt.Errorf("neither the journal nor the database can be read, so nothing is known of what priod wrote: %w", err)
	}
	v.Behind = r.journal.file.Behind(seen)
	if err := r.unreserve(ctx); err != nil {
		return nil, err
	}
	unqueued := r.requeue(ctx)
	if err = cmp.Or(r.rounds(ctx), unqueued); err == nil && !r.DryRun {
		err = r.unreserve(ctx) // one that was under way when the daemon was paused
	}
	return v, err
}

// unreserve deletes the reservations of evictions. The daemon finds them gone.
func (r *Reset) unreserve(ctx context.Context) error {
	names, err := r.Slurm.Reservations(ctx)
	if err != nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	v := &r.result
	for _, name := range names {
		end := EndedReservation{Name: name}
		if !r.DryRun {
			done := r.Slurm.Do(context.WithoutCancel(ctx), []plan.Command{{Kind: plan.Free, Value: slurmplug.Text(name)}})[0]
			end.Status, end.Message = done.Status, done.Message
		}
		v.Reservations = slices.DeleteFunc(v.Reservations, func(e EndedReservation) bool { return e.Name == name })
		v.Reservations = append(v.Reservations, end)
	}
	return nil
}

// requeue puts back into the queue the victims that left while priod was stopped: Slurm
// forgets them after MinJobAge. The journal of evictions stays as it is; a priod that
// starts again finds them in the queue.
func (r *Reset) requeue(ctx context.Context) error {
	journal, err := r.Evictions()
	if err != nil || journal.Blank() {
		return nil // without a database it is not known which jobs were signalled
	}
	statuses, err := r.Slurm.Look(ctx, journal.Urgent())
	if statuses == nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	commands := requeues(journal, statuses)
	if r.DryRun {
		for _, c := range commands {
			r.result.Requeued = append(r.result.Requeued, c.Job)
		}
		return nil
	}
	err = nil
	for _, done := range r.Slurm.Do(context.WithoutCancel(ctx), commands) {
		switch done.Status {
		case slurmplug.Applied:
			r.result.Requeued = append(r.result.Requeued, done.Job)
		case slurmplug.Raced:
		default:
			err = errors.Join(err, fmt.Errorf("requeue job %s, which was evicted: %s", done.Job, done.Message))
		}
	}
	return err
}

// requeues are the commands that put victims back into the queue whose runs have ended.
func requeues(journal *evict.Journal, statuses map[cluster.JobID]plan.JobStatus) []plan.Command {
	maps.DeleteFunc(statuses, func(_ cluster.JobID, s plan.JobStatus) bool { return s.Gone || s.Final == "" })
	changes := evict.Advance(journal, evict.Observation{At: time.Now(), Statuses: statuses, Paused: true})
	return slices.DeleteFunc(changes.Commands, func(c plan.Command) bool { return c.Kind != plan.Requeue })
}

// rounds takes back what stands in jobs, round by round.
func (r *Reset) rounds(ctx context.Context) error {
	said := false
	for began := time.Now(); ; {
		before := len(r.settled)
		left, err := r.round(ctx)
		done := len(r.settled)
		if err == nil && len(left) == 0 && r.ending > 0 && time.Since(began) < r.Await {
			if !said {
				r.Say(fmt.Sprintf("%d jobs that priod changed are still ending; requeued ones get their own values back then, in %s at most", r.ending, r.Await))
			}
			said = true
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
			continue
		}
		if err != nil || len(left) == 0 || done == before || ctx.Err() != nil {
			return err
		}
		rest := time.Since(began) * time.Duration(len(left)) / time.Duration(done)
		r.Say(fmt.Sprintf("%d of %d values are settled, about %s more; %s", done, done+len(left), rest.Round(time.Second), left[0].Message))
	}
}

// round takes back what no round before has settled, and returns what was not sent.
func (r *Reset) round(ctx context.Context) (left []plan.Outcome, err error) {
	p, err := r.plan(ctx)
	if err != nil {
		return nil, err
	}
	v := &r.result
	if !r.looked {
		v.Gone, r.looked = p.Gone, true
	}
	r.ending = p.Ending
	if r.DryRun {
		for _, a := range p.Actions {
			v.Writes = append(v.Writes, plan.Outcome{Action: a})
		}
		v.Writes, v.Failed = append(v.Writes, p.Blocked...), len(p.Blocked)
		return nil, nil
	}
	if err := r.journal.Append(p.rest); err != nil {
		return nil, err
	}
	for _, o := range r.Slurm.Apply(context.WithoutCancel(ctx), unsettled(p.Actions, r.settled)) {
		if o.Status == slurmplug.Postponed {
			left = append(left, o)
		} else {
			r.settled = append(r.settled, o)
		}
	}
	v.Writes = append([]plan.Outcome{}, slices.Concat(r.settled, left, p.Blocked)...)
	p.explain(v.Writes)
	failed, still := failures(v.Writes)
	v.Failed = failed
	return left, r.journal.TookBack(time.Now(), func(c *Change) bool { return p.keep(c, still) })
}

// plan looks at the queue and plans what to take back there.
func (r *Reset) plan(ctx context.Context) (*Plan, error) {
	snapshot, err := r.Slurm.ObserveQueue(ctx)
	if err != nil {
		return nil, fmt.Errorf("read Slurm: %w", err)
	}
	survey := NewSurvey(r.journal, &snapshot)
	unseen, seen := survey.Unseen(), Closer{}
	of := unseen.Fields
	seen.NoSize = errors.Join(r.Slurm.Asked(ctx, of[slurmplug.Size]),
		r.Slurm.AskSwitches(ctx, of[slurmplug.Switches]), r.Slurm.AskNodeCounts(ctx, of[slurmplug.NumNodes]))
	seen.Statuses, seen.NoNode = r.Slurm.Look(ctx, unseen.Pinned)
	seen.Refused = make(map[cluster.JobID]string, len(unseen.Kept))
	for _, t := range unseen.Kept {
		if nodes, err := r.Slurm.Excluded(ctx, t); err == nil {
			seen.Refused[t.Job] = nodes
		}
	}
	return survey.Plan(r.Order, seen), nil
}
