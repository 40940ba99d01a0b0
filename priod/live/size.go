package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// ownNames says whether requests can be written in the names of the jobs' users.
type ownNames struct {
	may  bool      // this process has the rights for it
	asOf time.Time // Cluster.configAt when that was found out
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
	left, records := allowances{rules: c.sizes, running: c.jobs}, c.recordsOf(idsOf(jobs))
	for _, j := range jobs {
		if j.Asked == nil || j.Asked.Fixed != "" {
			continue
		}
		if j.Asked.Fixed = c.sizes.fixed(j); j.Asked.Fixed == "" {
			j.Asked.Allowances, j.Asked.Fixed = left.of(j, c.inNameOf.may)
		}
		if j.Asked.Fixed == "" && c.inNameOf.may && c.ownName(records[j.ID]) == "" {
			j.Asked.Fixed = "belongs to a user unknown on this host"
		}
	}
	return errors.Join(err, doubts)
}

// Asked reads how waiting jobs ask for their sizes, whatever the limits, into their
// Asked. A job that cannot be read is left without, with an error; the others are read
// all the same. A job that has started has none.
func (c *Cluster) Asked(ctx context.Context, jobs []*cluster.Job) error {
	c.refreshRights(ctx)
	return errors.Join(c.closer(ctx, idsOf(jobs), func(ctx context.Context, i int, record *slurmplug.Job) (func(), error) {
		a, err := c.askedOf(ctx, jobs[i], record)
		return func() { jobs[i].Asked = a }, err
	}))
}

// askedOf is how one job asks for its size; nil when it no longer waits. All tasks of an
// array in one record ask for the same, so the first is read.
func (c *Cluster) askedOf(ctx context.Context, j *cluster.Job, record *slurmplug.Job) (*slurmplug.Asked, error) {
	if record == nil {
		return nil, fmt.Errorf("it was not in the queue when that was read: %w", slurmplug.ErrDoubtful)
	}
	id := j.ID
	if j.Tasks != "" {
		tasks, err := slurmplug.ExpandTasks(j.Tasks)
		if err != nil || len(tasks) == 0 {
			return nil, err
		}
		id.Task = tasks[0]
	}
	return c.client.Asked(ctx, c.conf, id, record, c.nodeMB...)
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
