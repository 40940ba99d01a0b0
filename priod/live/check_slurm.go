package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// facts reads each fact by itself, so that those which cannot be read hide no others.
func (c *Cluster) facts(ctx context.Context, uses Uses) *Facts {
	f := &Facts{Uses: uses}
	f.Config, f.ConfigErr = c.client.Config(ctx)
	var nodes []slurmplug.Node
	var g sync.WaitGroup
	for _, read := range []func(){
		func() { f.Abilities, f.AbilitiesErr = c.client.Abilities(ctx) },
		func() { f.Partitions, f.PartitionsErr = c.client.Partitions(ctx) },
		func() { nodes, f.NodesErr = c.client.Nodes(ctx) },
		func() { f.QOS, f.QOSErr = c.client.QOS(ctx) },
		func() { f.Snapshot, f.QueueErr = c.Observe(ctx) },
		func() { f.Rights, f.RightsErr = c.client.OwnRights(ctx, f.Config) },
		func() {
			if uses.Sizing && f.ConfigErr == nil && enforcesLimits(f.Config) {
				_, f.LimitsErr = c.client.Limits(ctx, f.Config.ClusterName())
			}
		},
	} {
		g.Go(read)
	}
	g.Wait()
	f.Nodes, f.Unread = slurmplug.Readable(nodes), f.Snapshot.Unread
	if f.QueueErr != nil {
		f.Unread = unread(nodes, unreadPartitions(f.Partitions), nil)
	}
	for _, u := range c.Unread() { // of reads beside Observe
		if !slices.Contains(f.Unread, u) {
			f.Unread = append(f.Unread, u)
		}
	}
	return f
}

// maxUnreadSaid is how many unread records check names.
const maxUnreadSaid = 20

// leftOut names the records that cannot be read.
func (k *checker) leftOut() {
	all := k.f.Unread
	for _, u := range all[:min(len(all), maxUnreadSaid)] {
		k.say(Warn, "records", "", "left out: %s", u)
	}
	if n := len(all) - maxUnreadSaid; n > 0 {
		k.say(Warn, "records", "", "left out: %d more", n)
	}
}

// unread reports what could not be read. It gives each reason once: a poll of the queue
// also reads nodes and configuration, and fails with them.
func (k *checker) unread() {
	said := map[string]bool{}
	if k.f.dbdAway() {
		k.say(Fail, "slurmdbd", "systemctl status slurmdbd", "does not answer on %s: ranking goes on; budgets, learning and reports miss what Slurm cannot tell (%v)", k.f.Config.Get("AccountingStorageHost"), k.f.QOSErr)
	}
	for _, x := range []struct {
		what string
		err  error
	}{
		{"commands", k.f.AbilitiesErr}, {"configuration", k.f.ConfigErr}, {"partitions", k.f.PartitionsErr}, {"nodes", k.f.NodesErr}, {"queue", k.f.QueueErr},
	} {
		if x.err != nil && !said[x.err.Error()] {
			said[x.err.Error()] = true
			k.say(Fail, x.what, "", "cannot be read: %v", x.err)
		}
	}
}

// dbdAway reports whether slurmctld answers and slurmdbd does not.
func (f *Facts) dbdAway() bool {
	return f.ConfigErr == nil && f.Config.AccountingStorageType() == "accounting_storage/slurmdbd" &&
		(errors.Is(f.QOSErr, slurmplug.ErrController) || errors.Is(f.QOSErr, slurmplug.ErrTimeout))
}

// version judges the releases of slurmctld and of the commands.
func (k *checker) version() {
	v, commands := k.f.Config.Version(), k.f.Abilities.Release
	if k.f.AbilitiesErr != nil {
		commands = v
	}
	switch why := Unfit(v, commands, k.f.Untried); {
	case why != "":
		k.say(Fail, "version", "", "%s", why)
	case Unfit(v, v, false) != "":
		k.say(Warn, "version", "", "Slurm %s is newer than %s, the newest tested version; slurm.untried allows writes", v, Newest)
	default:
		k.say(Pass, "version", "", "Slurm %s; tested with %s", v, strings.Join(Tried, ", "))
	}
}

// commands reports what the installed commands can do.
func (k *checker) commands() {
	a := &k.f.Abilities
	arrays, names := "one record per array task, which priod joins", "no SLUID (needs Slurm 26.05)"
	if a.ArrayUnique {
		arrays = "arrays as single records"
	}
	if a.SLUID {
		names = "a SLUID for each run"
	}
	k.say(Pass, "commands", "", "Slurm %s; squeue: %s; %s", a.Release, arrays, names)
}

// rateLimits are the words of SlurmctldParameters about limits of requests.
func (k *checker) rateLimits() string {
	words := slices.DeleteFunc(k.f.Config.List("SlurmctldParameters"), func(p string) bool {
		return !strings.HasPrefix(strings.ToLower(p), "rl_")
	})
	return strings.Join(words, ",")
}

// options reports options of this Slurm to which priod adapts.
func (k *checker) options() {
	if k.f.Config.ExpeditesRequeue() {
		k.say(Pass, "requeue", "", "enable_expedited_requeue is set: jobs with --requeue=expedite are never evicted")
	}
	switch metrics := k.f.Config.Get("MetricsType"); {
	case metrics == "":
	case k.f.Config.ReadsMetrics():
		k.say(Pass, "metrics", "", "read from slurmctld (%s) instead of sdiag", metrics)
	default:
		k.say(Pass, "metrics", "", "slurmctld serves metrics (%s) that priod cannot use: sdiag is read", metrics)
	}
}

// wholeNodes reports the ranked partitions whose jobs get whole nodes.
func (k *checker) wholeNodes() {
	var names []string
	for _, p := range k.f.Partitions {
		if p.WholeNodes != "" && k.set.Ranking.Ranks(p.Name) {
			names = append(names, p.Name+" ("+p.WholeNodes+")")
		}
	}
	if len(names) > 0 {
		k.say(Warn, "partitions", "", "whole nodes are allocated in %s: jobs hold GPUs that they did not request, and are not resized", strings.Join(names, ", "))
	}
}

// leastLoaded reports what spreads small jobs over all nodes, so that none stays empty for
// jobs that need whole ones.
func (k *checker) leastLoaded() {
	const spreads = ": small jobs go to the least loaded node, and none stays empty for whole-node jobs"
	types := k.f.Config.List("SelectTypeParameters")
	if packs := slices.DeleteFunc(slices.Clone(types), func(p string) bool { return strings.EqualFold(p, "CR_LLN") }); len(packs) < len(types) {
		k.say(Warn, "packing", "SelectTypeParameters="+strings.Join(packs, ","), "SelectTypeParameters has CR_LLN"+spreads)
	}
	for _, p := range k.f.Partitions {
		if p.LeastLoaded && k.set.Ranking.Ranks(p.Name) {
			k.say(Warn, "packing", fmt.Sprintf("PartitionName=%s LLN=NO", p.Name), "%s has LLN=YES%s", p.Name, spreads)
		}
	}
}

// weights suggests, for GPU types all of whose nodes have the same weight, weights by which
// Slurm fills one half of them before the other ("Weight" in slurm.conf's manual: jobs get
// the nodes with the lowest weight that satisfy them).
func (k *checker) weights() {
	alike, mixed := map[string][]slurmplug.Node{}, map[string]bool{}
	var types []string
	for i, n := range ConvertNodes(k.f.Nodes) {
		if n.GPUs < 2 || n.MixedTypes || !slices.ContainsFunc(n.Partitions, k.set.Ranking.Ranks) {
			continue
		}
		of := alike[n.GPUType]
		if of == nil {
			types = append(types, n.GPUType)
		}
		mixed[n.GPUType] = mixed[n.GPUType] || of != nil && of[0].Weight != k.f.Nodes[i].Weight
		alike[n.GPUType] = append(of, k.f.Nodes[i])
	}
	for _, gpuType := range types {
		nodes := alike[gpuType]
		if mixed[gpuType] || len(nodes) < 2 {
			continue
		}
		var last []string
		for _, n := range nodes[(len(nodes)+1)/2:] {
			last = append(last, n.Name)
		}
		k.say(Pass, "packing", "", "all %d %s nodes have Weight %d: give some a higher one (NodeName=%s Weight=%d) to keep them free for whole-node jobs",
			len(nodes), cmp.Or(gpuType, "(none)"), nodes[0].Weight, slurmplug.CompactHosts(last), nodes[0].Weight+1)
	}
}

// qosLists reports jobs that wait for one of several QOS, and what priod makes of them.
func (k *checker) qosLists() {
	n, example := 0, ""
	for i := range k.f.Snapshot.Jobs {
		if j := &k.f.Snapshot.Jobs[i]; j.State == cluster.Pending && strings.Contains(j.QOS, ",") {
			n, example = n+1, j.QOS
		}
	}
	if n > 0 {
		k.say(Pass, "QOS", "", "%d waiting jobs request several QOS (such as %.60s): TE if any is in ranking.te_qos, BE by QOS if all are in ranking.be_qos", n, example)
	}
}

// cores recommends to reserve CPUs on nodes with GPUs for jobs that use the GPUs.
func (k *checker) cores() {
	if !k.f.Sizing || !k.f.Config.AtLeast(24, 5) {
		return
	}
	var without []string
	for _, n := range ConvertNodes(k.f.Nodes) {
		i := slices.IndexFunc(k.f.Nodes, func(x slurmplug.Node) bool { return x.Name == n.Name })
		if n.GPUs > 0 && k.f.Nodes[i].GPUCores == 0 {
			without = append(without, n.Name)
		}
	}
	if len(without) > 0 {
		name := slurmplug.CompactHosts(without)
		k.say(Warn, "sizing", fmt.Sprintf("NodeName=%s RestrictedCoresPerGPU=...", name),
			"no RestrictedCoresPerGPU on %.80s: jobs without GPUs can take all CPUs of free GPUs", name)
	}
}
