package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/evict"
	"slurmprio/priod/live"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

func resetCommand() *cli.Command {
	return &cli.Command{
		Name: "reset", Usage: "pause priod and take back everything that it wrote",
		Description: "Works from the undo journal beside the database, also when the database is gone.\n" +
			"priod stays paused; priod resume lets it begin anew.\n" +
			"    priod reset --dry-run       # look first",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be taken back"},
			jsonFlag(),
		},
		Before: noArgs,
		Action: func(c *cli.Context) error {
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			v, err := reset(c.Context, cfg, c.Bool("dry-run"), func(line string) { fmt.Fprintln(c.App.ErrWriter, "priod:", line) })
			if err != nil {
				return err
			}
			if c.Bool("json") {
				if err := report.JSON(c.App.Writer, v); err != nil {
					return err
				}
			} else {
				v.show(c)
			}
			if v.Failed > 0 || v.stuck > 0 {
				return errProblem
			}
			return nil
		},
	}
}

// resetView is what reset took back, or would.
type resetView struct {
	DryRun bool           `json:"dry_run"`
	Gone   int            `json:"gone"`   // jobs that left the queue meanwhile
	Failed int            `json:"failed"` // values that are still there
	Writes []plan.Outcome `json:"writes"`

	Requeued     []cluster.JobID    `json:"requeued"`     // victims that had left and were still to be requeued
	Reservations []endedReservation `json:"reservations"` // which kept others off the places of evictions

	settled []plan.Outcome // of Writes, of the rounds until now
	stuck   int            // reservations that are still there
}

// endedReservation is what became of a reservation.
type endedReservation struct {
	Name    string           `json:"name"`
	Status  slurmplug.Status `json:"status,omitempty"`
	Message string           `json:"message,omitempty"`
}

// roundPatience is for how long the writes of one round of reset wait for their turn:
// what users change meanwhile is overwritten.
const roundPatience = 20 * time.Second

// reset takes back what priod wrote. Where Slurm's rate limit, or priod's own, leaves
// writes over it looks again and goes on, as long as it gets any done, and says so.
func reset(ctx context.Context, cfg *config.Config, dryRun bool, say func(string)) (_ *resetView, err error) {
	dir, slurm := cfg.State.Dir, live.New(newPatientClient(cfg, roundPatience))
	if !dryRun {
		unclaim, err := alone(ctx, slurm, cfg)
		if err != nil {
			return nil, err
		}
		defer unclaim()
		release, err := holdWrites(ctx, dir, store.Pause{Who: operator(), When: time.Now().UTC().Truncate(time.Second), Why: "priod reset"})
		if err != nil {
			return nil, err
		}
		defer release()
	}
	defer func() {
		if err != nil && !dryRun {
			err = fmt.Errorf("%w; priod stays paused (priod resume)", err)
		}
	}()
	undo, err := store.OpenUndo(dir)
	if err != nil {
		return nil, err
	}
	v := &resetView{DryRun: dryRun, Writes: []plan.Outcome{}, Requeued: []cluster.JobID{}}
	if err := v.unreserve(ctx, slurm); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil && !dryRun {
			err = v.unreserve(ctx, slurm) // one that was under way when the daemon was paused
		}
	}()
	unqueued := v.requeue(ctx, cfg, slurm)
	for began := time.Now(); ; {
		before := len(v.settled)
		left, err := v.round(ctx, cfg, slurm, undo)
		done := len(v.settled)
		if err != nil || len(left) == 0 || done == before || ctx.Err() != nil {
			return v, cmp.Or(err, unqueued)
		}
		rest := time.Since(began) * time.Duration(len(left)) / time.Duration(done)
		say(fmt.Sprintf("%d of %d values are settled, about %s more; %s", done, done+len(left), rest.Round(time.Second), left[0].Message))
	}
}

// requeue puts back into the queue the victims that left while priod was stopped: Slurm
// forgets them after MinJobAge. The journal stays as it is; a priod that starts again
// finds them in the queue.
func (v *resetView) requeue(ctx context.Context, cfg *config.Config, slurm *live.Cluster) error {
	journal, err := journalOf(ctx, cfg)
	if err != nil || journal.Blank() {
		return nil // without a database nobody knows who was told to leave
	}
	sights, err := slurm.Look(ctx, journal.Urgent())
	if sights == nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	maps.DeleteFunc(sights, func(_ cluster.JobID, s evict.Sight) bool { return s.Gone || s.Final == "" })
	set := cfg.Eviction()
	turn := evict.Advance(journal, evict.Seen{At: time.Now(), Sights: sights, Consents: set.Consents, ZeroEnds: set.ZeroEnds, Paused: true})
	commands := slices.DeleteFunc(turn.Commands, func(c evict.Command) bool { return c.Verb != evict.Requeue })
	if v.DryRun {
		for _, c := range commands {
			v.Requeued = append(v.Requeued, c.Job)
		}
		return nil
	}
	err = nil
	for _, r := range slurm.Do(context.WithoutCancel(ctx), commands) {
		switch r.Status {
		case slurmplug.Applied:
			v.Requeued = append(v.Requeued, r.Job)
		case slurmplug.Raced:
		default:
			err = errors.Join(err, fmt.Errorf("requeue job %s, which left because priod told it to: %s", r.Job, r.Message))
		}
	}
	return err
}

// unreserve deletes the reservations of evictions. The daemon finds them gone.
func (v *resetView) unreserve(ctx context.Context, slurm *live.Cluster) error {
	names, err := slurm.Reservations(ctx)
	if err != nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	for _, name := range names {
		end := endedReservation{Name: name}
		if !v.DryRun {
			r := slurm.Do(context.WithoutCancel(ctx), []evict.Command{{Verb: evict.Free, Value: name}})[0]
			end.Status, end.Message = r.Status, r.Message
		}
		v.Reservations = slices.DeleteFunc(v.Reservations, func(e endedReservation) bool { return e.Name == name })
		v.Reservations = append(v.Reservations, end)
	}
	v.stuck = 0
	for _, e := range v.Reservations {
		if !v.DryRun && e.Status != slurmplug.Applied {
			v.stuck++
		}
	}
	return nil
}

// round takes back what no round before has settled, and returns what was not sent.
func (v *resetView) round(ctx context.Context, cfg *config.Config, slurm *live.Cluster, undo *store.Undo) (left []plan.Outcome, err error) {
	snapshot, err := slurm.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("read Slurm: %w", err)
	}
	h, err := written(ctx, cfg.State.Dir, undo)
	if err != nil {
		return nil, err
	}
	known := maps.Clone(h.Written)
	h.Observe(&snapshot) // tasks that were split off inherit from their array
	doubts := askSizes(ctx, slurm, &snapshot, h)
	set := cfg.Decide()
	if set.Peers {
		order.Adopt(order.FindPeerValues(&snapshot, h, set), &snapshot, h)
	}
	var actions []plan.Action
	for i := range snapshot.Jobs {
		j := &snapshot.Jobs[i]
		w, ours := h.Written[j.ID]
		if c := cmp.Or(undo.Last(j.ID), undo.Last(j.FirstTask())); !ours || c != nil && !c.Of(j) {
			continue // never written, or a later job with the same id
		}
		for _, id := range names(j.ID, j.Tasks) {
			delete(known, id)
		}
		for _, a := range order.Restore(j, w) {
			a.Tasks, a.Reason = j.Tasks, "reset"
			actions = append(actions, a)
		}
	}
	asked := unask(&snapshot, undo, h, doubts)
	actions = append(asked.actions, actions...)
	if v.settled == nil {
		v.Gone = len(known)
	}
	if v.DryRun {
		for _, a := range actions {
			v.Writes = append(v.Writes, plan.Outcome{Action: a})
		}
		v.Writes, v.Failed = append(v.Writes, asked.unread...), len(asked.unread)
		return nil, nil
	}
	if err := undo.Append(asked.lost); err != nil {
		return nil, err
	}
	for _, o := range slurm.Apply(context.WithoutCancel(ctx), v.unsettled(actions)) {
		if o.Status == slurmplug.Postponed {
			left = append(left, o)
		} else {
			v.settled = append(v.settled, o)
		}
	}
	v.Writes = slices.Concat(v.settled, left, asked.unread)
	v.explain(&snapshot)
	still := v.failures()
	return left, undo.TakenBack(time.Now(), func(c *store.Change) bool {
		return asked.stay[c] || slices.ContainsFunc(c.Jobs(), func(id cluster.JobID) bool { return still[id] })
	})
}

// unsettled are those of the actions that no round before has settled: not all that a
// write did can be seen in the next round.
func (v *resetView) unsettled(actions []plan.Action) []plan.Action {
	type field struct {
		job   cluster.JobID
		lever slurmplug.Lever
	}
	done := make(map[field]bool, len(v.settled))
	for _, o := range v.settled {
		done[field{o.Job, o.Lever}] = true
	}
	return slices.DeleteFunc(actions, func(a plan.Action) bool { return done[field{a.Job, a.Lever}] })
}

// explain says of a constraint what could not be put back of it.
func (v *resetView) explain(s *cluster.Snapshot) {
	for i := range v.Writes {
		o := &v.Writes[i]
		if o.Lever == slurmplug.Features && o.Status == slurmplug.Applied && o.After != o.Was {
			_, lost := steer.PutBack(o.Was, s.Nodes)
			o.Message = fmt.Sprintf("without %.80s, which no node has", strings.Join(lost, ", "))
		}
	}
}

// failures counts the values that could not be taken back, and tells in which jobs
// something may still be: a request of a job that has started meanwhile, too. What
// was written into a task may stand in the journal under its array, and the reverse.
func (v *resetView) failures() map[cluster.JobID]bool {
	still := map[cluster.JobID]bool{}
	v.Failed = 0
	for _, o := range v.Writes {
		raced := o.Status == slurmplug.Raced
		if o.Status == slurmplug.Applied || raced && o.Lever.Ranks() {
			continue
		}
		if !raced {
			v.Failed++
		}
		for _, id := range names(o.Job, o.Tasks) {
			still[id] = true
		}
	}
	return still
}

// names are all that the journal may know a record by: its own id, the tasks that an
// unsplit array still has, and the array that a task was split from.
func names(id cluster.JobID, tasks string) []cluster.JobID {
	record := plan.Action{Job: id, Tasks: tasks, Part: tasks != ""}
	return append(record.Jobs(), id, slurmplug.Plain(id.ID))
}

// unasked is what reset does about the requests of jobs.
type unasked struct {
	nodes   []cluster.Node
	actions []plan.Action
	unread  []plan.Outcome         // sizes that could not be read, constraints that Slurm would refuse: they are still there
	stay    map[*store.Change]bool // lines of running jobs, should they be requeued, and of constraints put back in part
	lost    []*store.Change        // lines that the journal lacks
}

// unask takes back what priod wrote into the requests of waiting jobs and nobody
// has changed since; of a size that somebody has, the node. A request of a job that
// runs cannot be changed. With doubts sizes may not have been read, which holds up
// no other.
func unask(s *cluster.Snapshot, undo *store.Undo, h *cluster.History, doubts error) *unasked {
	u := &unasked{nodes: s.Nodes, stay: map[*store.Change]bool{}}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		pin := undo.Find(j.ID, slurmplug.ReqNodeList)
		if j.State == cluster.Pending && pin != nil && pin.Job == j.ID && pin.To != "" && pin.Of(j) {
			u.actions = append(u.actions, putBack(j, pin.Lever, pin.To, pin.Was))
		} else {
			pin = nil
		}
		for _, lever := range slices.Sorted(maps.Keys(h.Requests[j.ID])) {
			u.field(j, lever, h.Requests[j.ID][lever], undo, pin, doubts)
		}
	}
	return u
}

// field takes back what priod made of one field of a job's request. pin is the line
// of a node that is taken back beside it, nil for none.
func (u *unasked) field(j *cluster.Job, lever slurmplug.Lever, r cluster.Requested, undo *store.Undo, pin *store.Change, doubts error) {
	c, part := undo.Find(j.ID, lever), undo.Find(j.FirstTask(), lever)
	if of := cmp.Or(c, part); of != nil && !of.Of(j) {
		return
	}
	now, shown := j.Request(lever)
	if size, pinned := unpinned(now, pin); pinned && lever == slurmplug.Size {
		now = size
	}
	to := r.Was
	if shown && !r.Ours(now) {
		size, pinned := r.Freed(now)
		if lever != slurmplug.Size || !pinned {
			return
		}
		to = size // somebody has changed it since, beside the node that priod named
	}
	if c == nil {
		c = &store.Change{Time: r.At, Job: j.ID, User: j.User, Submit: j.Submit, Lever: lever, Was: r.Was, From: r.Was, To: r.Value, Sent: r.Older}
		u.lost = append(u.lost, c)
	}
	switch {
	case j.State == cluster.Pending && shown && lever == slurmplug.Features:
		u.constraint(j, now, to, c)
	case j.State == cluster.Pending && shown:
		u.actions = append(u.actions, putBack(j, lever, now, to))
	case j.State == cluster.Pending && doubts != nil:
		u.unread = append(u.unread, plan.Outcome{
			Action: putBack(j, lever, "", to), Status: slurmplug.Postponed, Message: fmt.Sprintf("its size cannot be read: %.300s", doubts),
		})
	default:
		u.stay[c] = true
	}
}

// constraint takes back what priod made of a constraint, as far as Slurm lets: where a
// name in it is lost, the line stays, for a later reset to put back the rest.
func (u *unasked) constraint(j *cluster.Job, now, to string, c *store.Change) {
	back := putBack(j, slurmplug.Features, now, to)
	text, lost := steer.PutBack(to, u.nodes)
	if text == now || text == "" && len(lost) > 0 {
		u.unread = append(u.unread, plan.Outcome{Action: back, Status: slurmplug.Postponed, Message: steer.NoFeature(lost)})
		return
	}
	if back.After = text; len(lost) > 0 {
		rest := c.Next(now, text)
		u.lost, u.stay[rest] = append(u.lost, rest), true
	}
	u.actions = append(u.actions, back)
}

// putBack is the write that brings a field of a job's request from one text to
// another.
func putBack(j *cluster.Job, lever slurmplug.Lever, from, to string) plan.Action {
	return plan.Action{Job: j.ID, Tasks: j.Tasks, Lever: lever, Before: from, After: to, Reason: "reset", Was: to}
}

// unpinned is a size as it is once the node is taken back that an eviction wrote
// beside it.
func unpinned(size string, pin *store.Change) (text string, pinned bool) {
	if pin == nil {
		return size, false
	}
	const nodes = string(slurmplug.ReqNodeList) + "="
	text, pinned = strings.CutSuffix(size, nodes+pin.To)
	return text + nodes + pin.Was, pinned
}

// askSizes reads the sizes and the memory of waiting jobs that priod has written to.
func askSizes(ctx context.Context, slurm *live.Cluster, s *cluster.Snapshot, h *cluster.History) error {
	var jobs []*cluster.Job
	for i := range s.Jobs {
		if _, written := h.Requests[s.Jobs[i].ID][slurmplug.Size]; written && s.Jobs[i].State == cluster.Pending {
			jobs = append(jobs, &s.Jobs[i])
		}
	}
	return errors.Join(slurm.Asked(ctx, jobs), slurm.AskMemory(ctx, size.Lowered(s, h)))
}

// alone makes sure that no other priod of this host, and with follow_controller
// none of another host, writes again what reset takes back.
func alone(ctx context.Context, slurm *live.Cluster, cfg *config.Config) (release func(), err error) {
	if err := daemon.Elsewhere(ctx, slurm, cfg); err != nil {
		return nil, fmt.Errorf("reset works where the acting slurmctld is: %w", err)
	}
	name, err := slurm.Identity(ctx)
	if err != nil {
		return nil, fmt.Errorf("read Slurm: %w", err)
	}
	claim, err := daemon.NewHostLock(name, cfg.State.Dir)
	var twin *daemon.TwinError
	if errors.As(err, &twin) && twin.Dir != cfg.State.Dir {
		return nil, err
	}
	return claim.Close, nil // its own daemon is paused; a stranger's claim stops nobody
}

// written is what priod may have left in jobs: what the undo journal tells, and
// what the database knows beyond that, because the journal was deleted or cut
// off. Without a journal the database must be there.
func written(ctx context.Context, dir string, undo *store.Undo) (*cluster.History, error) {
	h := cluster.NewHistory()
	h.Written, h.Requests = undo.Written(), undo.Requests()
	known, err := recorded(ctx, dir)
	if err != nil && undo.Missing() {
		return nil, fmt.Errorf("neither the undo journal nor the database can be read, so nothing is known of what priod wrote: %w", err)
	}
	for id, w := range known.Written {
		if _, told := h.Written[id]; !told {
			h.Written[id] = w
		}
	}
	for id, requests := range known.Requests {
		for lever, r := range requests {
			if h.Requests[id] == nil {
				h.Requests[id] = map[slurmplug.Lever]cluster.Requested{}
			}
			if _, told := h.Requests[id][lever]; !told {
				h.Requests[id][lever] = r
			}
		}
	}
	return h, nil
}

// recorded is what the database knows of priod's values.
func recorded(ctx context.Context, dir string) (*cluster.History, error) {
	none := cluster.NewHistory()
	r, err := store.OpenReader(ctx, dir)
	if err != nil {
		return none, err
	}
	defer r.Close()
	known, err := r.History(ctx)
	if err != nil {
		return none, err
	}
	return known, nil
}

func (v *resetView) show(c *cli.Context) {
	w := c.App.Writer
	verb := "taken back"
	if v.DryRun {
		verb = "would be taken back"
	}
	rows := [][]any{}
	for _, o := range v.Writes {
		rows = append(rows, []any{target(o.Action), string(o.Lever), cmp.Or(o.Before, "none"), cmp.Or(o.After, "none"), result(o)})
	}
	if len(rows) > 0 {
		report.Table(w, []string{"JOB", "LEVER", "BEFORE", "AFTER", "RESULT"}, rows)
	}
	fmt.Fprintf(w, "%s %s, %d failed; %s left the queue meanwhile.\n", plural(len(v.Writes)-v.Failed, "value", "values"), verb, v.Failed,
		plural(v.Gone, "job", "jobs"))
	if n := len(v.Requeued); n > 0 {
		what := "back in the queue, which priod had told to leave"
		if v.DryRun {
			what = "would be requeued, which priod told to leave"
		}
		fmt.Fprintf(w, "%s %s: %s.\n", plural(n, "job", "jobs"), what, strings.Trim(fmt.Sprint(v.Requeued), "[]"))
	}
	for _, e := range v.Reservations {
		switch {
		case v.DryRun:
			fmt.Fprintf(w, "reservation %s would be deleted.\n", e.Name)
		case e.Status == slurmplug.Applied:
			fmt.Fprintf(w, "reservation %s is deleted.\n", e.Name)
		default:
			fmt.Fprintf(w, "reservation %s is still there: %s\n", e.Name, report.Safe(e.Message))
		}
	}
	if !v.DryRun {
		fmt.Fprintln(w, "priod is paused; priod resume lets it begin anew.")
	}
}
