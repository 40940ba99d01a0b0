package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// confirm reads back what was written into requests: Slurm takes commands that it
// then ignores, or that make a job impossible to start. Such a write is taken
// back at once and counts as refused.
func (c *Cluster) confirm(ctx context.Context, outcomes []plan.Outcome) {
	var asked []int
	for i := range outcomes {
		if isReadBack(&outcomes[i]) {
			asked = append(asked, i)
		}
	}
	if len(asked) == 0 {
		return
	}
	var p polled
	p.sights, p.err = c.sightsOf(ctx, outcomes, asked)
	p.records = c.recordsOf(writtenSizes(outcomes))
	for _, i := range asked {
		c.confirmOne(ctx, &outcomes[i], &p)
	}
}

// isReadBack reports whether confirm has to look at the jobs of a write. Slurm may answer a write with an error and have
// done it: some fields of a size before one that it refuses, and any field where the one of the job's partitions at which
// its scheduler looked last does not admit it, or is INACTIVE ("Requested partition configuration not available now":
// job_limits_check is the last step but one of _update_job in slurmctld/job_mgr.c); and what only waiting jobs may be
// given it also refuses a job that has just started.
func isReadBack(o *plan.Outcome) bool {
	return !o.Lever.Ranks() && (o.Status == slurmplug.Applied || o.Status == slurmplug.Refused)
}

// confirmOne corrects one outcome by what Slurm shows of its jobs. Of a write that was
// refused the first job tells it; of one that was applied, the first where it does not
// stand.
func (c *Cluster) confirmOne(ctx context.Context, o *plan.Outcome, p *polled) {
	for _, id := range o.Jobs() {
		job := c.readBack(ctx, o.Lever, id, p)
		if o.Status == slurmplug.Refused {
			c.afterRefusal(ctx, o, &job)
			return
		}
		if !c.stands(ctx, o, &job) {
			return
		}
	}
}

// polled is what was read of all jobs after their writes.
type polled struct {
	sights  map[cluster.JobID]plan.JobStatus
	err     error                            // why some have none
	records map[cluster.JobID]*slurmplug.Job // from before the writes, of jobs whose size was written
}

// readJob is one job after a write.
type readJob struct {
	plan.JobStatus
	seen bool
	err  error // why it is not
}

// readBack is a job as it is now, with what the lever was written into.
func (c *Cluster) readBack(ctx context.Context, lever slurmplug.Lever, id cluster.JobID, p *polled) readJob {
	job := readJob{err: p.err}
	if job.JobStatus, job.seen = p.sights[id]; !job.seen || job.Gone {
		return job
	}
	switch lever {
	case slurmplug.Size:
		job.Asked, job.err = c.askedOf(ctx, &cluster.Job{ID: id}, p.records[id])
		job.seen = job.err == nil
	case slurmplug.Switches:
		job.err = c.AskSwitches(ctx, []*cluster.Job{&job.Job})
		job.seen = job.err == nil
	case slurmplug.NumNodes:
		job.err = c.AskNodeCounts(ctx, []*cluster.Job{&job.Job})
		job.seen = job.err == nil
	}
	return job
}

// afterRefusal finds out what a refusal means: that the job started meanwhile, that a
// part of the write was taken, or what it says.
func (c *Cluster) afterRefusal(ctx context.Context, o *plan.Outcome, job *readJob) {
	now, shown := job.Request(o.Lever)
	switch {
	case onlyWaiting(o):
		if job.seen && (job.Gone || job.State != cluster.Pending) {
			o.Status, o.Message = slurmplug.Raced, "no longer pending: "+o.Message
		}
	case shown && now == o.After && now != o.Before && (o.After == o.Was || !causes(o.Lever) && problem(o, &job.Job) == ""): // done all the same
		o.Status, o.Message = slurmplug.Applied, ""
	case shown && now != o.Before:
		c.retract(ctx, o, o.Message)
	case !job.seen: // a part of it may have been taken: History keeps what was written
		o.Status, o.Message = slurmplug.Unknown, o.Message+"; not confirmed"
	case !shown: // this is how Slurm refuses to change a running job
		o.Status, o.Message = slurmplug.Raced, "no longer pending: "+o.Message
	}
}

// causes reports whether a partition may not admit a job because of what was written: all else that job_limits_check looks
// at was so before.
func causes(l slurmplug.Lever) bool { return l == slurmplug.PartitionList || l == slurmplug.Size }

// stands reports whether a job shows what was written into it. If not, it corrects the
// outcome, and takes the write back where it was not written by others since.
func (c *Cluster) stands(ctx context.Context, o *plan.Outcome, job *readJob) bool {
	problem := problem(o, &job.Job)
	switch {
	case !job.seen || job.Gone:
		o.Status, o.Message = slurmplug.Unknown, "written, not confirmed"
		if job.err != nil {
			o.Message += ": " + job.err.Error()
		}
	case problem == "":
		return true
	case keptAsWritten(o, &job.Job):
		// Another writer has written since, or a job_submit plugin has. It stays as it is, and
		// priod makes nothing from it.
		o.Status, o.Message = slurmplug.Unknown, problem
	default:
		c.retract(ctx, o, problem)
	}
	return false
}

// keptAsWritten reports whether a field that Slurm keeps as it is written shows something else than was written.
func keptAsWritten(o *plan.Outcome, j *cluster.Job) bool {
	now, shown := j.Request(o.Lever)
	return shown && now != o.After && (o.Lever == slurmplug.Features || o.Lever == slurmplug.PartitionList)
}

// onlyWaiting reports whether Slurm allows a write for waiting jobs alone. For a running
// job it then says the same as for one that asks for too much.
func onlyWaiting(o *plan.Outcome) bool {
	return o.Lever == slurmplug.ReqNodeList || o.Lever == slurmplug.ExcNodeList
}

// writtenSizes are the jobs whose sizes were written: what they ask for now
// has to be read from each.
func writtenSizes(outcomes []plan.Outcome) (ids []cluster.JobID) {
	for i := range outcomes {
		if outcomes[i].Lever == slurmplug.Size {
			ids = append(ids, outcomes[i].Jobs()...)
		}
	}
	return ids
}

// idsPerSqueue is the number of jobs that one squeue is asked for: the length of a
// command line is limited.
const idsPerSqueue = 5000

// sightsOf reads the jobs that outcomes name, each record or array once: a few by
// themselves, more by one squeue for all.
func (c *Cluster) sightsOf(ctx context.Context, outcomes []plan.Outcome, asked []int) (map[cluster.JobID]plan.JobStatus, error) {
	raw := map[cluster.JobID]uint32{}
	for _, i := range asked {
		for _, id := range outcomes[i].Jobs() {
			raw[id] = id.ID // that is also the id of an array's record
		}
	}
	for i := range c.jobs {
		if j := &c.jobs[i]; raw[j.ID] != 0 {
			raw[j.ID] = j.RawID
		}
	}
	ids := slices.Compact(slices.Sorted(maps.Values(raw)))
	each := 1 // ids for one squeue
	if len(ids) > parallelReads {
		each = idsPerSqueue // one squeue over the whole queue costs less than so many
	}
	sights := make(map[cluster.JobID]plan.JobStatus, len(raw))
	var mu sync.Mutex
	var g errgroup.Group
	var unread error
	g.SetLimit(parallelReads)
	for some := range slices.Chunk(ids, each) {
		g.Go(func() error {
			records, err := c.client.Sights(ctx, some...)
			mu.Lock()
			defer mu.Unlock()
			for id, raw := range raw {
				if _, asked := slices.BinarySearch(some, raw); !asked || err != nil {
					continue
				}
				sight, why := c.sight(id, records)
				if why != nil {
					unread = errors.Join(unread, fmt.Errorf("job %s: %w", id, why))
					continue
				}
				sights[id] = sight
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return sights, err
	}
	return sights, unread
}

// problem says why a write into a request does not stand; "" when it does, or
// the job has started and there is nothing to take back.
func problem(o *plan.Outcome, j *cluster.Job) string {
	shown, known := j.Request(o.Lever)
	switch {
	case o.After == slurmplug.AtOnce: // Slurm shows when that was
		return ""
	case !known || j.State != cluster.Pending:
		return ""
	case shown != o.After:
		return fmt.Sprintf("Slurm shows %q after the write", shown)
	case j.Unsatisfied() && o.After != o.Was:
		return "no node satisfies it (BadConstraints)"
	}
	return ""
}

// retract puts back what a request held before a write. Where the job starts meanwhile the write
// is not known to be gone: the job may be requeued, so History keeps what was written.
func (c *Cluster) retract(ctx context.Context, o *plan.Outcome, why string) {
	r := c.client.Update(ctx, []slurmplug.Update{c.update(&o.Action, o.Before)})[0]
	o.Status, o.Message = slurmplug.Refused, why+"; taken back"
	if r.Status != slurmplug.Applied && !(r.Status == slurmplug.Refused && c.shows(ctx, o, o.Before)) {
		o.Status, o.Message = slurmplug.Unknown, why+"; could not be taken back: "+r.Message
	}
}

// shows reports whether the first job of a write shows a value in its field.
func (c *Cluster) shows(ctx context.Context, o *plan.Outcome, v slurmplug.Value) bool {
	one := []plan.Outcome{*o}
	p := polled{records: c.recordsOf(writtenSizes(one))}
	p.sights, p.err = c.sightsOf(ctx, one, []int{0})
	for _, id := range o.Jobs() {
		job := c.readBack(ctx, o.Lever, id, &p)
		now, shown := job.Request(o.Lever)
		return job.seen && !job.Gone && shown && now == v
	}
	return false
}
