package virtual

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// pastRun is the last run of a job that has ended, as accounting knows it.
type pastRun struct {
	user, nodes string
	start, end  float64
	restarts    int
	ending      trace.Ending
}

func (s *slurm) pastOf(j *job) pastRun {
	return pastRun{j.User, s.names(j.nodes()), j.start, s.e.now, int(j.runs) - 1, j.ending}
}

// Look shows single jobs as they are now, ended ones as accounting does.
func (s *slurm) Look(_ context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	sights := make(map[cluster.JobID]plan.JobStatus, len(targets))
	for _, t := range targets {
		if h := s.record(t.Job); h != nil {
			sights[t.Job] = plan.JobStatus{Job: h.row, Final: h.job.ending.State, ExitCode: h.job.ending.ExitCode, ExitedBy: h.job.ending.Signal, CanRequeue: true}
			continue
		}
		j := s.known[t.Job]
		if j == nil {
			sights[t.Job] = s.past(t.Job)
			continue
		}
		sight := plan.JobStatus{Job: s.snapshot.Jobs[j.row], CanRequeue: true, ReqNodes: s.asks(j)}
		if j.state == exited {
			sight.Final, sight.ExitCode = "FAILED", 1 // it has saved its state and says that it is not done
		}
		sights[t.Job] = sight
	}
	return sights, nil
}

// past is what accounting has of a job that has left the queue.
func (s *slurm) past(id cluster.JobID) plan.JobStatus {
	r, ran := s.ended[id]
	if !ran {
		return plan.JobStatus{Gone: true}
	}
	return plan.JobStatus{
		Job:  cluster.Job{ID: id, User: r.user, State: cluster.Other, Start: s.e.instant(r.start), Restarts: r.restarts, NodeList: r.nodes},
		Gone: true, Final: cmp.Or(r.ending.State, "COMPLETED"), ExitCode: r.ending.ExitCode, ExitedBy: r.ending.Signal, End: s.e.instant(r.end),
	}
}

// Excluded are the nodes that a job refuses: those that priod named.
func (s *slurm) Excluded(_ context.Context, t plan.Target) (string, error) {
	j := s.known[t.Job]
	if h := s.record(t.Job); h != nil {
		j = h.job
	}
	if j == nil {
		return "", fmt.Errorf("invalid job id %s", t.Job)
	}
	return s.refuses(j), nil
}

// Ends are what a trace says of runs that failed beside their states.
func (s *slurm) Ends(_ context.Context, sights map[cluster.JobID]plan.JobStatus, _ bool, _ map[cluster.JobID]plan.Mark) map[cluster.JobID]plan.End {
	ends := make(map[cluster.JobID]plan.End, len(sights))
	for id := range sights {
		e := s.ended[id].ending
		if h := s.record(id); h != nil {
			e = h.job.ending
		}
		ends[id] = plan.End{StepCode: e.StepCode, StepSignal: e.StepSignal}
	}
	return ends
}

// MostRestarts: any number.
func (s *slurm) MostRestarts() int { return 0 }

// AtOnce is how many tasks of an array may run at a time: a trace has no arrays.
func (s *slurm) AtOnce(context.Context, plan.Target) (int, error) { return 0, nil }

// Do carries out commands as scontrol and scancel do: at once, and the scheduler looks again.
func (s *slurm) Do(_ context.Context, commands []plan.Command) []plan.Result {
	results := make([]plan.Result, len(commands))
	for i, c := range commands {
		results[i] = plan.Result{Command: c, Status: slurmplug.Applied}
		if err := s.do(&c); err != nil {
			results[i].Status, results[i].Message = slurmplug.Refused, err.Error()
		}
	}
	return results
}

func (s *slurm) do(c *plan.Command) error {
	s.commanded, s.e.moved = true, true
	switch c.Kind {
	case plan.Reserve:
		nodes, err := s.nodesNamed(c.Nodes)
		if err == nil {
			s.e.reserveNodes(c.Value.String(), nodes, c.For.Seconds())
		}
		return err
	case plan.Free:
		s.e.unreserve(c.Value.String())
		return nil
	}
	if h := s.record(c.Job); h != nil && (c.Kind == plan.Requeue || c.Kind == plan.HoldBack) {
		s.putBack(h, c.Value.Delay().Seconds(), c.Kind == plan.HoldBack)
		return nil
	}
	j := s.known[c.Job]
	if j == nil {
		return fmt.Errorf("invalid job id %s", c.Job)
	}
	switch c.Kind {
	case plan.Exclude:
		return s.exclude(j, c.Value.String())
	case plan.Signal:
		return s.signal(j)
	case plan.Requeue:
		return s.requeue(j, c.Value.Delay())
	case plan.Cancel:
		return s.cancel(j)
	case plan.Tell:
		return nil
	case plan.Begin:
		return s.begin(j, c.Value.Delay())
	case plan.Pin, plan.Unpin:
		return s.pin(j, c.Value.String())
	}
	return fmt.Errorf("the virtual Slurm cannot %s", c.Kind)
}

func (s *slurm) signal(j *job) error {
	if j.state != running && j.state != leaving {
		return fmt.Errorf("job %s does not run", j.id)
	}
	if j.state == running {
		s.e.signal(j)
	}
	return nil
}

// requeue ends a run, if it is not over, and puts the job back into the queue.
func (s *slurm) requeue(j *job, wait time.Duration) error {
	e := s.e
	if j.pending() || j.returns {
		return fmt.Errorf("job %s is in the queue", j.id)
	}
	if j.state == running {
		e.stop(j, false)
	}
	j.returns, j.turn = true, 0
	j.eligible = e.now + max(e.opt.RequeueDelay, wait.Seconds())
	switch j.state {
	case running:
		e.leave(j)
	case leaving: // its grace ends here
		e.outcomes[j.index].Wasted -= (j.planned - e.opt.Epilog - e.now) * float64(j.GPUs)
		j.epoch++
		e.leave(j)
	case exited:
		e.comeBack(j)
	}
	return nil
}

// begin sets the begin time of a pending job.
func (s *slurm) begin(j *job, wait time.Duration) error {
	switch {
	case j.state == closing && j.returns: // and then it begins later
	case !j.pending():
		return fmt.Errorf("job %s is not pending", j.id)
	case j.state == waiting:
		s.e.queue.remove(j)
	}
	j.eligible = s.e.now + wait.Seconds()
	if j.pending() {
		s.e.delay(j)
	}
	return nil
}

// beginAt writes a value of the lever StartTime.
func (s *slurm) beginAt(j *job, v slurmplug.Value) error {
	at, later := v.Begin()
	if !later && v != slurmplug.AtOnce {
		return fmt.Errorf("%.40q is no begin time", v)
	}
	return s.begin(j, time.Duration(max(at.Sub(s.e.opt.Origin).Seconds()-s.e.now, 0)*float64(time.Second)))
}

// pin names the nodes on which a pending job has to lie; "": any.
func (s *slurm) pin(j *job, list string) error {
	nodes, err := s.nodesNamed(list)
	if err != nil {
		return err
	}
	err = s.ask(j, func() {
		if j.request.On = 0; len(nodes) > 0 {
			j.request.On = s.e.nodes.Among(nodes)
		}
	})
	s.changed(j)
	return err
}

// ask changes what a pending job asks for.
func (s *slurm) ask(j *job, change func()) error {
	if !j.pending() {
		return fmt.Errorf("job %s is not pending", j.id)
	}
	if j.state != waiting {
		change()
		return nil
	}
	s.e.queue.remove(j)
	change()
	s.e.enqueue(j)
	s.e.moved = true
	return nil
}

// nodesNamed are the nodes of a host list.
func (s *slurm) nodesNamed(list string) ([]int32, error) {
	names, err := slurmplug.ExpandHosts(list)
	if err != nil {
		return nil, err
	}
	nodes := make([]int32, len(names))
	for i, name := range names {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
		if err != nil || n < 0 || n >= s.e.nodes.Len() {
			return nil, fmt.Errorf("no node %.80s", name)
		}
		nodes[i] = int32(n)
	}
	slices.Sort(nodes)
	return nodes, nil
}

// asks are the nodes that a job names, as a host list.
func (s *slurm) asks(j *job) string { return s.names(s.e.nodes.Named(j.request)) }

// names are nodes as a host list.
func (s *slurm) names(nodes []int32) string {
	var names []string
	for _, n := range nodes {
		names = append(names, s.nodes[n].Name)
	}
	return slurmplug.CompactHosts(names)
}

// KeepNodes keeps all jobs off the nodes of a host list, for so long from now on.
func (s *slurm) KeepNodes(_ context.Context, list string, d time.Duration) error {
	nodes, err := s.nodesNamed(list)
	if err != nil {
		return err
	}
	e := s.e
	i := slices.IndexFunc(e.reservations, func(r reservation) bool { return r.name == cluster.HeadroomReservation })
	if i >= 0 && slices.Equal(e.reservations[i].nodes, nodes) { // renewed: nothing moves
		e.reservations[i].ends = e.now + d.Seconds()
		e.agenda.push(event{at: e.reservations[i].ends, kind: unreserved})
		return nil
	}
	s.commanded, e.moved = true, true
	e.unreserve(cluster.HeadroomReservation)
	if len(nodes) > 0 {
		e.reserveNodes(cluster.HeadroomReservation, nodes, d.Seconds())
	}
	return nil
}

// reservation keeps nodes from all jobs for a while.
type reservation struct {
	name  string
	nodes []int32
	ends  float64
}

func (e *engine) reserveNodes(name string, nodes []int32, seconds float64) {
	e.slurm.change()
	e.reservations = append(e.reservations, reservation{name, nodes, e.now + seconds})
	e.agenda.push(event{at: e.now + seconds, kind: unreserved})
	for _, n := range nodes {
		e.nodes.SetDown(n, true)
	}
}

// unreserve ends a reservation, or with "" those whose time is over.
func (e *engine) unreserve(name string) {
	for i := 0; i < len(e.reservations); {
		r := e.reservations[i]
		if r.name != name && (name != "" || r.ends > e.now) {
			i++
			continue
		}
		e.slurm.change()
		e.pastWindows()
		e.reservations = slices.Delete(e.reservations, i, i+1)
		for _, n := range r.nodes {
			e.nodes.SetDown(n, e.out[n] != 0 || e.isReserved(n))
		}
		e.moved = true
	}
}

func (e *engine) isReserved(node int32) bool {
	return slices.ContainsFunc(e.reservations, func(r reservation) bool { return slices.Contains(r.nodes, node) })
}

// reserves reports whether the reservation of a name keeps a node.
func (e *engine) reserves(name string, node int32) bool {
	return slices.ContainsFunc(e.reservations, func(r reservation) bool { return r.name == name && slices.Contains(r.nodes, node) })
}

// tend continues with evictions between two cycles, as the daemon does every preemption.watch.
func (e *engine) tend() error {
	s := e.slurm
	s.tending = false
	if err := e.opt.Daemon.Settings.Evictions.Tend(e.ctx, nil, nil, false); err != nil {
		return fmt.Errorf("priod's evictions at %v s: %w", e.now, err)
	}
	s.watch()
	return nil
}

// watch sees to it that evictions under way are looked at soon.
func (s *slurm) watch() {
	d := &s.e.opt.Daemon
	if j := d.Settings.Evictions.Journal; s.tending || j == nil || d.Watch <= 0 || len(j.Urgent()) == 0 {
		return
	}
	s.tending = true
	s.e.agenda.push(event{at: s.e.now + d.Watch.Seconds(), kind: tended})
}

// now is the time for evictions.
func (s *slurm) now() time.Time { return s.e.instant(s.e.now) }
