package live

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// sizeRules are what of the cluster forbids to change sizes, whatever the job asks.
type sizeRules struct {
	everywhere string // why no size is changed at all; "" when some are
	partitions map[string]slurmplug.Partition
	limits     *slurmplug.Limits // nil: Slurm enforces none
	limitsAt   time.Time         // when they were read
	unread     error             // why not at the last try

	at   time.Time     // when all this was read, or could not be
	took time.Duration // how long that took
}

// The rules are read again after rulesPause times as long as the last read took. Where
// that is quick, new limits count in the next cycle.
const rulesPause = 10

// limitsValid is how long the last limits count while new ones cannot be read.
const limitsValid = 5 * time.Minute

// ownNames are the users in whose names sizes can be written.
type ownNames struct {
	may  bool              // this process has the rights for it
	asOf time.Time         // Cluster.configAt when that was found out
	uids map[uint32]string // by job, of those that were asked last; nil unless may
}

// Ask reads how waiting jobs ask for their sizes, and whose size may not be changed.
// After an error some have no Asked.
func (c *Cluster) Ask(ctx context.Context, jobs []*cluster.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	doubts := c.refreshSizeRules(ctx, time.Now())
	if c.sizes == nil {
		return doubts
	}
	err := c.Asked(ctx, jobs)
	left := allowances{rules: c.sizes, running: c.jobs}
	for _, j := range jobs {
		if j.Asked == nil || j.Asked.Fixed != "" {
			continue
		}
		if j.Asked.Fixed = c.sizes.fixed(j); j.Asked.Fixed == "" {
			j.Asked.Allowances, j.Asked.Fixed = left.of(j, c.inNameOf.may)
		}
		if j.Asked.Fixed == "" && c.inNameOf.may && c.inNameOf.uids[j.ID.ID] == "" {
			j.Asked.Fixed = "belongs to a user unknown on this host"
		}
	}
	return errors.Join(err, doubts)
}

// Asked reads how waiting jobs ask for their sizes, whatever the limits, into their
// Asked. A job that cannot be read is left without, with an error; the others are read
// all the same. A job that has started has none.
func (c *Cluster) Asked(ctx context.Context, jobs []*cluster.Job) error {
	var mu sync.Mutex
	doubts := make([]error, len(jobs))
	uids := map[uint32]string{}
	c.refreshRights(ctx)
	may := c.inNameOf.may
	records := c.recordsOf(idsOf(jobs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	for i, j := range jobs {
		g.Go(func() error {
			a, err := c.askedOf(ctx, j, records)
			if err != nil && !errors.Is(err, slurmplug.ErrDoubtful) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			j.Asked, doubts[i] = a, err
			if a != nil && may && isKnown(a.UID) {
				uids[j.ID.ID] = a.UID
			}
			return nil
		})
	}
	err := g.Wait()
	c.inNameOf.uids = uids
	return errors.Join(append([]error{err}, doubts...)...)
}

// askedOf is how one job asks for its size; nil when it no longer waits. All tasks of an
// array in one record ask for the same, so the first is read.
func (c *Cluster) askedOf(ctx context.Context, j *cluster.Job, records map[cluster.JobID]*slurmplug.Job) (*slurmplug.Asked, error) {
	record := records[j.ID]
	if record == nil {
		return nil, fmt.Errorf("job %s was not in the queue when that was read: %w", j.ID, slurmplug.ErrDoubtful)
	}
	id := j.ID
	if j.Tasks != "" {
		tasks, err := slurmplug.ExpandTasks(j.Tasks)
		if err != nil || len(tasks) == 0 {
			return nil, err
		}
		id.Task = tasks[0]
	}
	a, pending, err := c.client.Asked(ctx, c.conf, id, record, c.nodeMB...)
	if err != nil || !pending {
		return nil, err
	}
	return &a, nil
}

func idsOf(jobs []*cluster.Job) []cluster.JobID {
	ids := make([]cluster.JobID, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

// recordsOf are the records of some jobs in the last poll; for a task without one of its
// own, that of its array.
func (c *Cluster) recordsOf(ids []cluster.JobID) map[cluster.JobID]*slurmplug.Job {
	wanted := map[uint32][]cluster.JobID{}
	for _, id := range ids {
		wanted[id.ID] = append(wanted[id.ID], id)
	}
	records := map[cluster.JobID]*slurmplug.Job{}
	for i := range c.jobs {
		r := &c.jobs[i]
		for _, id := range wanted[r.ID.ID] {
			if r.ID == id || r.Tasks != "" && records[id] == nil {
				records[id] = r
			}
		}
	}
	return records
}

// refreshRights finds out whether sizes can be written in the names of the jobs' users:
// such a write, unlike an operator's, lifts no limit from the job. Where Slurm enforces
// no limits that makes no difference.
func (c *Cluster) refreshRights(ctx context.Context) {
	n := &c.inNameOf
	if n.asOf.Equal(c.configAt) {
		return
	}
	n.asOf = c.configAt
	if !enforcesLimits(c.conf) {
		n.may = false
		return
	}
	n.setRights(c.client.OwnRights(ctx, c.conf))
}

// setRights uses an answer of OwnRights. After an error the last one still holds.
func (n *ownNames) setRights(rights slurmplug.Rights, err error) {
	if err == nil {
		n.may = rights.Level == slurmplug.Administrator
	}
}

// isKnown reports whether this host knows a user: scontrol takes no other uid.
func isKnown(uid string) bool {
	_, err := user.LookupId(uid)
	return err == nil
}

// refreshSizeRules reads which limits there are. An operator's update would silently lift
// a user's limit from the job, so a job under such a limit keeps its size.
func (c *Cluster) refreshSizeRules(ctx context.Context, now time.Time) error {
	if r := c.sizes; r != nil && !now.Before(r.at) && now.Sub(r.at) < rulesPause*r.took {
		return r.unread
	}
	began := time.Now()
	partitions, err := c.client.Partitions(ctx)
	if err != nil {
		return err
	}
	r := &sizeRules{everywhere: sizeLimit(c.conf), partitions: map[string]slurmplug.Partition{}, limitsAt: now}
	for _, p := range partitions {
		r.partitions[p.Name] = p
	}
	if enforcesLimits(c.conf) {
		r.limits, err = c.client.Limits(ctx, c.conf.ClusterName())
		switch {
		case err == nil:
		case c.sizes != nil && c.sizes.limits != nil && now.Sub(c.sizes.limitsAt) < limitsValid:
			r.limits, r.limitsAt = c.sizes.limits, c.sizes.limitsAt // most often slurmdbd is just being restarted
		default:
			err = fmt.Errorf("no job is resized: association and QOS limits: %w", err)
			r.everywhere = "may be under a limit: association and QOS limits cannot be read"
		}
	}
	r.unread, r.took = err, time.Since(began)
	r.at = now.Add(r.took)
	c.sizes = r // also after an error: sacctmgr waits long for a slurmdbd that is down, and is not to do so in each cycle
	return err
}

// enforcesLimits reports whether Slurm holds jobs to limits.
func enforcesLimits(conf slurmplug.Config) bool {
	words := strings.Split(strings.ToLower(conf.Get("AccountingStorageEnforce")), ",")
	return slices.ContainsFunc(words, func(w string) bool { return w == "limits" || w == "safe" || w == "all" })
}

// sizeLimit says what in slurm.conf forbids to change any size; "" when nothing does.
func sizeLimit(conf slurmplug.Config) string {
	switch {
	case conf.Get("SelectType") != "select/cons_tres":
		return "runs under " + conf.Get("SelectType") + ", and sizing needs select/cons_tres"
	case !conf.ConsumesMemory():
		return "runs where Slurm does not count memory (SelectTypeParameters)"
	}
	for _, key := range []string{"MaxMemPerNode", "MaxMemPerCPU"} {
		if value := conf.Get(key); value != "" && value != "UNLIMITED" {
			return "is under slurm.conf's " + key + "=" + value
		}
	}
	return ""
}

// fixed says why the size of a job may not be changed; "" when it may.
func (r *sizeRules) fixed(j *cluster.Job) string {
	if r.everywhere != "" {
		return r.everywhere
	}
	first, _, _ := strings.Cut(j.Partition, ",")
	for name := range strings.SplitSeq(j.Partition, ",") {
		if limit := r.partitions[name].SizeLimit; limit != "" {
			return fmt.Sprintf("is in partition %s, which has %s", name, limit)
		}
		// What Slurm shows of the job changes with the partition that it last looked at (seen on 22.05.8), and looks as if
		// its user had changed the size.
		if r.partitions[name].Defaults != r.partitions[first].Defaults {
			return fmt.Sprintf("is in partitions %s and %s, whose defaults by GPU differ (DefCpuPerGPU, DefMemPerGPU)", first, name)
		}
	}
	return ""
}
