package waits

import (
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Feature finds out why jobs wait; the zero value does not.
type Feature struct {
	Tracker *Tracker
	Gap     time.Duration // a longer time between two cycles is not observed; 0: there is none such
	Strict  bool          // Slurm does no backfill

	// Unseen are runs that began and ended since the last cycle, where History does not
	// hear of them from accounting: in a simulation. Look takes them.
	Unseen []cluster.Stay

	begun func() begun // waits for what Begin began; nil: nothing was
}

// begun is what needs nothing of the plan.
type begun struct {
	*walk
	pools       map[string]string // of each node
	sizes, used map[string]int    // of each pool
}

// Begin begins to judge the jobs in the queue, as if locality kept none waiting: that is known late.
func (f *Feature) Begin(c *plan.Cycle) {
	if f.Tracker != nil {
		f.begun = plan.InBackground(c, func() (b begun) {
			b.walk = newWalk(c.Snapshot, c.Nodes(), f.Strict)
			b.judgeAll(nil)
			b.pools, b.sizes, b.used = poolsOf(c.Snapshot)
			return b
		})
	}
}

// Look looks at each pending job with GPUs, once the plan is made. It changes nothing in it.
func (f *Feature) Look(c *plan.Cycle) {
	if f.Tracker == nil {
		return
	}
	if f.begun == nil {
		f.Begin(c)
	}
	s, w := c.Snapshot, f.begun()
	f.begun = nil
	if len(c.Kept) > 0 {
		w.judgeAll(c.Kept)
	}
	l := look{snapshot: s, stays: append(f.Unseen, c.Stays...), verdicts: w.verdicts, explain: w.explain, gap: f.Gap}
	budgets(c, l.verdicts)
	withheld(c, l.verdicts)
	l.sizes, l.used = w.sizes, w.used
	l.pools = func(j *cluster.Job) (string, bool) { return poolOf(w.nodes, w.pools, j) }
	l.ofType = func(gpuType, partition string) string { return poolOfType(w.sizes, gpuType, partition) }
	f.Tracker.observe(&l)
	f.Unseen = nil
}

// budgets takes what a job waits for others, because it is above a budget of priod's, for
// a limit.
func budgets(c *plan.Cycle, verdicts []verdict) {
	var above cluster.JobMap[plan.Reason]
	for i := range c.Plan.Decisions {
		if d := &c.Plan.Decisions[i]; d.Why == string(plan.OverBudget) || d.Why == string(plan.Overrun) {
			above.Set(d.Job, plan.Reason(d.Why))
		}
	}
	if above.Len() == 0 {
		return
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.cause != plan.Precedence {
			continue
		}
		if why, is := above.Find(c.Snapshot.Jobs[v.job].ID); is {
			v.cause, v.what, v.group = plan.AtLimit, string(why), nil
		}
	}
}

// withheld takes what a job waits for, because it may not borrow what other accounts own, for that.
func withheld(c *plan.Cycle, verdicts []verdict) {
	for i := range verdicts {
		if v := &verdicts[i]; c.Snapshot.Jobs[v.job].Right == cluster.Withheld {
			v.cause, v.what, v.group = plan.BeyondShare, "", nil
		}
	}
}

// poolsOf names the pool of each node, GPUs of a type in the same partitions, and counts
// what may be used of it and what is. A node that starts nothing has what runs on it.
func poolsOf(s *cluster.Snapshot) (names map[string]string, sizes, used map[string]int) {
	names, sizes, used = make(map[string]string, len(s.Nodes)), map[string]int{}, map[string]int{}
	key, last := "", (*cluster.Node)(nil) // most often the node before is of the same pool
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.GPUs == 0 || n.MixedTypes {
			continue
		}
		if last == nil || !n.Alike(last) {
			key = n.GPUType + " in " + strings.Join(n.Partitions, ",")
			if n.Headroom() {
				key += ", kept for TE jobs"
			}
		}
		last = n
		names[n.Name] = key
		used[key] += n.GPUsUsed
		if n.Usable && !strings.Contains(n.State, "RESERVED") {
			sizes[key] += n.GPUs
		} else {
			sizes[key] += n.GPUsUsed
		}
	}
	return names, sizes, used
}

// poolOf is where a running job is, and whether it may be on all nodes of that pool; ""
// for one that is on several.
func poolOf(m *nodemap.Map, names map[string]string, j *cluster.Job) (pool string, all bool) {
	hosts := []string{j.NodeList}
	if _, alone := m.Index[j.NodeList]; !alone {
		var err error
		if hosts, err = slurmplug.ExpandHosts(j.NodeList); err != nil || len(hosts) == 0 {
			return "", false
		}
	}
	pool = names[hosts[0]]
	if slices.ContainsFunc(hosts, func(h string) bool { return names[h] != pool }) {
		return "", false
	}
	kinds, parsed := m.Types(j)
	for kind, n := range m.Kinds {
		if names[n.Name] == pool && !kinds.Has(int32(kind)) {
			return pool, false
		}
	}
	return pool, parsed && !j.Reserved()
}

// poolOfType is the pool of a GPU type in one or more partitions; "" when there are several.
func poolOfType(sizes map[string]int, gpuType, partitions string) (pool string) {
	for key := range sizes {
		of, in, _ := strings.Cut(key, " in ")
		if node := (cluster.Node{Partitions: strings.Split(in, ",")}); of != gpuType || !node.In(partitions) {
			continue
		}
		if pool != "" {
			return ""
		}
		pool = key
	}
	return pool
}
