package live

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// history reads runs from accounting, without those that cannot be read: these are named by the
// polls that follow.
func (c *Cluster) history(ctx context.Context, since, until time.Time) ([]slurmplug.Run, error) {
	runs, err := c.client.History(ctx, since, until)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(runs, func(r slurmplug.Run) bool { return r.Unread != "" }), nil
}

// Unread are the rows that reads of the last hour have left out, of accounting and of Slurm's smaller tables.
func (c *Cluster) Unread() (all []cluster.UnreadRecord) {
	for _, r := range c.client.Unread() {
		all = append(all, cluster.UnreadRecord{Kind: r.Table, Name: r.Name, Why: r.Why})
	}
	return all
}

// MeasuredBy is the plugin that measures what jobs use (JobAcctGatherType); "": none does.
func (c *Cluster) MeasuredBy(ctx context.Context) (string, error) {
	conf, err := c.client.Config(ctx)
	if err != nil || !conf.MeasuresMemory() {
		return "", err
	}
	return conf.Get("JobAcctGatherType"), nil
}

// Past reads from accounting the runs that ended or began in a span of time, with what they are charged on the nodes as
// they are now.
func (c *Cluster) Past(ctx context.Context, since, until time.Time) ([]cluster.PastStay, error) {
	runs, err := c.history(ctx, since, until)
	if err != nil {
		return nil, err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	conf, err := c.client.Config(ctx)
	if err != nil {
		return nil, err
	}
	types, charges := gpuTypes(nodes), cluster.NewCharges(&cluster.Snapshot{Nodes: nodes, MemShared: !conf.ConsumesMemory()})
	past := make([]cluster.PastStay, len(runs))
	for i := range runs {
		p := pastStay(&runs[i], types)
		tres, _ := slurmplug.ParseTRES(runs[i].AllocTRES) // what cannot be read is not charged
		cpus, _ := tres.Get("cpu")
		memMB, _ := tres.Get("mem")
		p.Charge = charges.Of(&cluster.Job{NodeList: p.NodeList, GPUs: p.GPUs, CPUs: int(cpus), MemMB: memMB})
		past[i] = p
	}
	return past, nil
}

// Nodes are the nodes as they are now.
func (c *Cluster) Nodes(ctx context.Context) ([]cluster.Node, error) {
	nodes, err := c.client.Nodes(ctx)
	return ConvertNodes(nodes), err
}

// typesNow reads which GPU types the nodes have, by node.
func (c *Cluster) typesNow(ctx context.Context) (map[string]string, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return gpuTypes(nodes), nil
}

// limitOf is the time limit of a run that its user set; 0 where it has none.
func limitOf(d time.Duration) time.Duration {
	if d == slurmplug.Unlimited {
		return 0
	}
	return max(d, 0)
}

// pastStay is a row of accounting as a stay; types are the GPU types of the nodes, for
// a Slurm that does not account for types.
func pastStay(r *slurmplug.Run, types map[string]string) cluster.PastStay {
	held := slurmplug.Job{TRES: r.AllocTRES}
	gpuType, gpus, _ := held.AllocatedGPUs()
	if gpuType == "" && gpus > 0 {
		gpuType = allocatedType(r.NodeList, types)
	}
	tag, _ := jobtag.Split(r.Comment)
	return cluster.PastStay{
		Stay: cluster.Stay{
			Job: r.ID, Start: r.Start, End: r.End, Closed: !r.End.IsZero() && !r.Start.IsZero(),
			GPUType: gpuType, GPUs: gpus, User: r.User, Account: r.Account,
		},
		RawID: r.RawID, Name: r.Name, Limit: limitOf(r.TimeLimit), QOS: r.QOS, NodeList: r.NodeList, State: r.State, Submit: r.Submit, Eligible: r.Eligible, Tag: jobtag.Read(tag),
	}
}

// Stays reads from accounting the runs of GPU jobs that ended between since and until
// (zero: now). A group of the expression steps finds the number of steps in a job's
// command line; nil: that is not read. It may run concurrently with the other methods.
func (c *Cluster) Stays(ctx context.Context, since, until time.Time, steps *regexp.Regexp) ([]cluster.PastStay, error) {
	rows, err := c.history(ctx, since, until)
	if err != nil {
		return nil, err
	}
	types, err := c.typesNow(ctx)
	if err != nil {
		return nil, err
	}
	var lines map[uint32]string
	if steps != nil {
		if lines, err = c.client.SubmitLines(ctx, since, until); err != nil {
			return nil, err
		}
	}
	var stays []cluster.PastStay
	for i := range rows {
		s := pastStay(&rows[i], types)
		if s.GPUs == 0 || !s.Closed {
			continue
		}
		if steps != nil {
			s.Steps = stepsIn(lines[s.RawID], steps)
		}
		stays = append(stays, s)
	}
	return stays, nil
}

// stepsIn reads the number of steps in a command line, 0 when there is none.
func stepsIn(line string, steps *regexp.Regexp) float64 {
	if m := steps.FindStringSubmatch(line); m != nil {
		if v, err := strconv.ParseFloat(m[1], 64); err == nil && v > 0 && !math.IsInf(v, 1) {
			return v
		}
	}
	return 0
}

// Accounts reads the tree of Slurm's accounts and which part of the cluster each has by the associations: its Fairshare
// over the sum of its siblings', times its parent's part. Fairshare=parent counts as 1.
func (c *Cluster) Accounts(ctx context.Context) (cluster.Accounts, error) {
	conf, err := c.client.Config(ctx)
	if err != nil {
		return cluster.Accounts{}, err
	}
	all, err := c.client.Accounts(ctx, conf.ClusterName())
	if err != nil {
		return cluster.Accounts{}, err
	}
	tree := cluster.Accounts{Parts: partsOf(all), Parents: make(map[string]string, len(all))}
	for i := range all {
		tree.Parents[all[i].Name] = all[i].Parent
	}
	return tree, nil
}

// GPULimits are the GPUs that the accounts' associations allow at a time (GrpTRES), by account and GPU type, "" for any.
func (c *Cluster) GPULimits(ctx context.Context) (map[string]map[string]int, error) {
	conf, err := c.client.Config(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.client.Associations(ctx, conf.ClusterName())
	limits := map[string]map[string]int{}
	for _, a := range all {
		if a.User != "" || len(a.All) == 0 {
			continue
		}
		of := map[string]int{}
		for _, t := range a.All {
			if gpuType, is := strings.CutPrefix(t.Name, "gres/gpu"); is {
				of[strings.TrimPrefix(gpuType, ":")] = int(t.Count)
			}
		}
		limits[a.Account] = of
	}
	return limits, err
}

func partsOf(accounts []slurmplug.Account) map[string]float64 {
	byName, siblings := make(map[string]*slurmplug.Account, len(accounts)), map[string]float64{}
	share := func(a *slurmplug.Account) float64 {
		if a.UseParent {
			return 1
		}
		return float64(a.Share)
	}
	for i := range accounts {
		a := &accounts[i]
		byName[a.Name] = a
		siblings[a.Parent] += share(a)
	}
	parts := make(map[string]float64, len(accounts))
	for i := range accounts {
		part := 1.0
		a := &accounts[i]
		for range accounts { // the tree is no deeper than that
			if all := siblings[a.Parent]; a.Parent != "" && all > 0 {
				part *= share(a) / all
			}
			parent := byName[a.Parent]
			if parent == nil {
				break
			}
			a = parent
		}
		parts[accounts[i].Name] = part
	}
	return parts
}
