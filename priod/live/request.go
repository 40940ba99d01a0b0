package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// confirm reads back what was written into requests: Slurm takes commands that it
// then ignores, or that make a job impossible to start. Such a write is taken
// back at once and counts as refused.
func (c *Cluster) confirm(ctx context.Context, outcomes []plan.Outcome) {
	var asked []int
	for i := range outcomes {
		o := &outcomes[i]
		// Of a size some fields may have been taken before one was refused; a job that has
		// started meanwhile refuses nodes, too.
		if o.Status == slurmplug.Applied && !o.Lever.Ranks() || o.Status == slurmplug.Refused && (o.Lever == slurmplug.Size || onlyWaiting(o)) {
			asked = append(asked, i)
		}
	}
	if len(asked) == 0 {
		return
	}
	sights, err := c.sightsOf(ctx, outcomes, asked)
	records := c.recordsOf(looked(outcomes))
	for _, i := range asked {
		o := &outcomes[i]
		for _, id := range o.Jobs() {
			sight, seen := sights[id]
			unseen := err // why, if it is not
			if o.Lever == slurmplug.Size && seen && !sight.Gone {
				sight.Asked, unseen = c.askedOf(ctx, &cluster.Job{ID: id}, records)
				seen = unseen == nil
			}
			if o.Lever == slurmplug.MinMemoryNode && seen && !sight.Gone {
				var m slurmplug.NodeMemory
				m, unseen = c.memoryOf(ctx, id, records)
				sight.AskedMB, seen = m.MB, unseen == nil
			}
			if o.Status == slurmplug.Refused && onlyWaiting(o) {
				if seen && (sight.Gone || sight.State != cluster.Pending) {
					o.Status, o.Message = slurmplug.Raced, "it waits no more: "+o.Message
				}
				break
			}
			if o.Status == slurmplug.Refused {
				switch now, shown := sight.Request(o.Lever); {
				case shown && now != o.Before:
					c.retract(ctx, o, o.Message)
				case !seen: // half of it may stand: what was written is kept in mind
					o.Status, o.Message = slurmplug.Unknown, o.Message+"; not seen again"
				case !shown: // these are Slurm's words for a job that runs
					o.Status, o.Message = slurmplug.Raced, "it waits no more: "+o.Message
				}
				break
			}
			switch problem := problem(o, &sight.Job); {
			case !seen || sight.Gone:
				o.Status, o.Message = slurmplug.Unknown, "written, and not seen again"
				if unseen != nil {
					o.Message += ": " + unseen.Error()
				}
			case problem != "" && o.Lever == slurmplug.Features && sight.Features != o.After:
				// Slurm keeps this text as it is: somebody else has written since, or a
				// job_submit plugin did. Nothing may be made from that: it stays as it is.
				o.Status, o.Message = slurmplug.Unknown, problem
			case problem != "" && o.Lever == slurmplug.MinMemoryNode && o.After != o.Was:
				// More than it has now no running job can be given.
				if o.Status, o.Message = slurmplug.Unknown, problem; strconv.FormatInt(sight.AskedMB, 10) == o.Before {
					o.Status = slurmplug.Refused
				}
			case problem != "":
				c.retract(ctx, o, problem)
			default:
				continue
			}
			break
		}
	}
}

// onlyWaiting tells whether Slurm takes a write from waiting jobs alone, and answers a
// running one as it answers one that asks for too much.
func onlyWaiting(o *plan.Outcome) bool {
	return o.Lever == slurmplug.ReqNodeList || o.Lever == slurmplug.MinMemoryNode && o.After == o.Was
}

// looked are the jobs whose sizes or memory were written: of these a closer look tells
// what they ask for.
func looked(outcomes []plan.Outcome) (ids []cluster.JobID) {
	for i := range outcomes {
		if l := outcomes[i].Lever; l == slurmplug.Size || l == slurmplug.MinMemoryNode {
			ids = append(ids, outcomes[i].Jobs()...)
		}
	}
	return ids
}

// idsAtOnce is for how many jobs one squeue is run: a command line has its limit.
const idsAtOnce = 5000

// sightsOf reads the jobs that outcomes name, each record or array once: a few by
// themselves, more by one squeue for all.
func (c *Cluster) sightsOf(ctx context.Context, outcomes []plan.Outcome, asked []int) (map[cluster.JobID]evict.Sight, error) {
	raw := map[cluster.JobID]uint32{}
	for _, i := range asked {
		for _, id := range outcomes[i].Jobs() {
			raw[id] = id.ID // an array's id is its record's, too
		}
	}
	for i := range c.jobs {
		if j := &c.jobs[i]; raw[j.ID] != 0 {
			raw[j.ID] = j.RawID
		}
	}
	ids := slices.Compact(slices.Sorted(maps.Values(raw)))
	each := 1 // ids for one squeue
	if len(ids) > looks {
		each = idsAtOnce // the whole queue once is less than so many commands
	}
	sights := make(map[cluster.JobID]evict.Sight, len(raw))
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(looks)
	for some := range slices.Chunk(ids, each) {
		g.Go(func() error {
			records, err := c.client.Sights(ctx, some...)
			mu.Lock()
			defer mu.Unlock()
			for id, raw := range raw {
				if _, asked := slices.BinarySearch(some, raw); asked && err == nil {
					sights[id] = c.sight(id, records)
				}
			}
			return err
		})
	}
	return sights, g.Wait()
}

// problem says why a write into a request does not stand; "" when it does, or
// the job has started and there is nothing to take back.
func problem(o *plan.Outcome, j *cluster.Job) string {
	shown, known := j.Request(o.Lever)
	switch {
	case !known || j.State != cluster.Pending && (o.Lever != slurmplug.MinMemoryNode || o.After == o.Was):
		return ""
	case shown != o.After:
		return fmt.Sprintf("Slurm shows %q after the write", shown)
	case j.Unsatisfied() && o.After != o.Was:
		return "no node satisfies it (BadConstraints)"
	}
	return ""
}

// retract puts back what a request held before a write.
func (c *Cluster) retract(ctx context.Context, o *plan.Outcome, why string) {
	r := c.client.Update(ctx, []slurmplug.Update{c.update(&o.Action, o.Before)})[0]
	o.Status, o.Message = slurmplug.Refused, why+"; taken back"
	if r.Status != slurmplug.Applied && r.Status != slurmplug.Raced {
		o.Status, o.Message = slurmplug.Unknown, why+"; could not be taken back: "+r.Message
	}
}
