// Package live is the real cluster behind plan.Slurm. It reads and writes through
// slurmplug, and turns Slurm's records into those of package cluster.
package live

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/live/tail"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// configEvery is how long values of slurm.conf count before they are read again.
const configEvery = 5 * time.Minute

// partitionsEvery is the same of the partitions, which an operator sets DOWN from one minute to the next.
const partitionsEvery = 30 * time.Second

// Cluster is a running Slurm cluster. It is used by one goroutine at a time, but for
// the methods that say otherwise. A method that looks at several jobs at once lets its
// goroutines read the fields and write to none: what these find is handed back.
type Cluster struct {
	client *slurmplug.Client

	name             string
	multifactor      bool
	weights          int64 // sum of the site's priority weights
	limits           timeLimits
	unreadPartitions []cluster.UnreadRecord
	wholeNodes       wholeNodes
	nodeSizes        nodeSizes
	qosLimits        map[string]slurmplug.QOSLimits // nil: none, or not known
	qosHeld          qosHeld
	partitionQOS     map[string]string
	withQOS          []string        // the partitions in it
	spreads          map[string]bool // see slurmplug.Config.SpreadsTasks
	partitions       []cluster.Partition
	admitting        cluster.Partitions  // the same
	accounts         []slurmplug.Account // nil: not read
	conf             slurmplug.Config
	stamp            string    // see cluster.Snapshot.Config
	configAt         time.Time // when the fields above were read
	partitionsAt     time.Time
	sizes            *sizeRules
	inNameOf         ownNames
	users            users
	tags             tagCache
	parts            partsCache
	arrays           map[uint32]arrayLimit
	taskRules        taskRules
	topology         cluster.Topology // see Topology
	topologyAt       time.Time
	reservations     []slurmplug.NodeReservation
	reservationsAt   time.Time
	jobs             []slurmplug.Job                  // records of the last poll
	nodeMB           []int64                          // memory of the nodes, each amount once
	allMB            []int64                          // the same with MemSpecLimit, which no job gets
	writtenTo        map[cluster.JobID]*slurmplug.Job // records of the last poll of the jobs that Apply writes to
	outputs          *tail.Reader
	working          *working // nil: nothing beside the poll shows which jobs work
}

// New returns the cluster that the client talks to.
func New(client *slurmplug.Client) *Cluster {
	return &Cluster{client: client, users: users{}, outputs: tail.NewReader()}
}

// Versions are those of slurmctld and of the commands on this host.
func (c *Cluster) Versions(ctx context.Context) (slurmctld, commands string, err error) {
	if err = c.refreshConfig(ctx, time.Now()); err != nil {
		return "", "", err
	}
	able, err := c.client.Abilities(ctx)
	return c.conf.Version(), able.Release, err
}

// Apply carries out the actions. Two actions on one job keep their order: a release
// would reset a Nice written before it, and a job is not to start before what it asks for
// is written. Writes into requests are read back. Jobs of which only the rank changes come first,
// TE jobs before the others: so a BE job that is bound to a type does not start before the rank of a
// TE job is written, and slurmctld's rate limit leaves to the next cycle what matters least.
func (c *Cluster) Apply(ctx context.Context, actions []plan.Action) []plan.Outcome {
	outcomes := make([]plan.Outcome, len(actions))
	ids := make([]cluster.JobID, len(actions))
	for i := range actions {
		ids[i] = actions[i].Job
	}
	c.writtenTo = c.recordsOf(ids)
	waits := map[cluster.JobID]string{} // jobs with an action that was postponed, and why: their next actions are, too
	for _, wave := range waves(actions) {
		wave = slices.DeleteFunc(wave, func(i int) bool {
			why, wait := waits[actions[i].Job]
			if wait {
				outcomes[i] = plan.Outcome{Action: actions[i], Status: slurmplug.Postponed, Message: why}
			}
			return wait
		})
		updates := make([]slurmplug.Update, len(wave))
		for k, i := range wave {
			a := &actions[i]
			updates[k] = c.update(a, a.After)
		}
		done := make([]plan.Outcome, len(wave))
		for k, r := range c.client.Update(ctx, updates) {
			done[k] = plan.Outcome{Action: actions[wave[k]], Status: r.Status, Message: r.Message}
		}
		c.confirm(ctx, done)
		for k, i := range wave {
			outcomes[i] = done[k]
			if done[k].Status == slurmplug.Postponed {
				waits[actions[i].Job] = done[k].Message
			}
		}
	}
	return outcomes
}

// update is the write of a value. A size or number of nodes is written in the name of the job's
// user where that is allowed. A write names the run of the job that the last poll saw, where Slurm has such names: so
// what was decided about one run of a job is never written into a later one.
func (c *Cluster) update(a *plan.Action, value slurmplug.Value) slurmplug.Update {
	u := slurmplug.Update{Job: a.Job, Tasks: a.Tasks, Lever: a.Lever, Value: value}
	record := c.writtenTo[a.Job]
	if record != nil && record.ID == a.Job {
		u.SLUID = sluid(record)
	}
	if a.Lever == slurmplug.Size || a.Lever == slurmplug.NumNodes {
		u.As = c.ownName(record)
	}
	return u
}

// waves splits actions, by index, so that no wave has two of one job. Within a wave ranks
// come before other levers.
func waves(actions []plan.Action) [][]int {
	var out [][]int
	turn := make(map[slurmplug.JobID]int, len(actions))
	for i := range actions {
		n := turn[actions[i].Job]
		turn[actions[i].Job] = n + 1
		for n >= len(out) {
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	for _, wave := range out {
		slices.SortStableFunc(wave, func(i, j int) int {
			switch first := actions[i].Lever.Ranks(); {
			case first == actions[j].Lever.Ranks():
				return 0
			case first:
				return -1
			}
			return 1
		})
	}
	return out
}
