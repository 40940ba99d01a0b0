package live

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/steer"
	"slurmprio/slurmplug"
)

// Level is how bad a finding is.
type Level string

// Levels of findings.
const (
	Pass Level = "PASS"
	Warn Level = "WARN" // priod works, but not as well as it could
	Fail Level = "FAIL" // priod cannot do its work
)

// Finding is one thing that check looked at.
type Finding struct {
	Level Level  `json:"level"`
	Name  string `json:"name"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // the line to add or the command to run

	Idle bool `json:"-"` // this Slurm lacks what the feature needs: it does nothing here
}

// Facts are what the findings rest on, each with why it could not be read.
type Facts struct {
	Config        slurmplug.Config
	ConfigErr     error
	Abilities     slurmplug.Abilities
	AbilitiesErr  error
	Partitions    []slurmplug.Partition
	PartitionsErr error
	QOS           []string // names
	QOSErr        error    // accounting may be off
	Nodes         []slurmplug.Node
	NodesErr      error
	Rights        slurmplug.Rights
	RightsErr     error
	LimitsErr     error
	Snapshot      cluster.Snapshot
	QueueErr      error
	Unread        []cluster.UnreadRecord // of all of them
	Uses
}

// Uses are what priod is to do beside ordering jobs.
type Uses struct {
	Steer    steer.Settings
	Evicts   bool
	Sizing   bool
	Switches time.Duration // have jobs wait so long for few switches; 0: not at all
	Retries  bool          // look at jobs that failed
	Outputs  bool          // read what they wrote
	Root     bool          // priod runs as root
	Untried  bool          // write also to a Slurm that is newer than any that was tried
}

// Check reads the facts of a cluster and reports what fits priod and what does not.
func (c *Cluster) Check(ctx context.Context, set order.Settings, uses Uses) []Finding {
	return c.facts(ctx, uses).Findings(set)
}

// Findings applies all rules to the facts; it reads nothing else. A rule is left out when
// what it needs could not be read.
func (f *Facts) Findings(set order.Settings) []Finding {
	k := checker{f: f, set: set}
	k.unread()
	k.leftOut()
	for _, r := range []struct {
		needs error // why what it needs could not be read
		rule  func()
	}{
		{f.ConfigErr, k.version},
		{f.AbilitiesErr, k.commands},
		{f.ConfigErr, k.priorityType},
		{f.ConfigErr, k.siteFactorPlugin},
		{cmp.Or(f.ConfigErr, f.QueueErr), k.steps},
		{f.ConfigErr, k.rights},
		{f.PartitionsErr, k.partitions},
		{f.PartitionsErr, k.wholeNodes},
		{cmp.Or(f.ConfigErr, f.PartitionsErr), k.leastLoaded},
		{f.NodesErr, k.weights},
		{f.ConfigErr, k.accounting},
		{cmp.Or(f.ConfigErr, f.NodesErr), k.tres},
		{f.ConfigErr, k.comments},
		{f.NodesErr, k.gpuTypes},
		{nil, k.qos},
		{f.QueueErr, k.qosLists},
		{f.ConfigErr, k.preemption},
		{f.ConfigErr, k.rpcLimits},
		{f.ConfigErr, k.options},
		{f.ConfigErr, k.memory},
		{f.ConfigErr, k.jobAge},
		{f.ConfigErr, k.backfill},
		{cmp.Or(f.ConfigErr, f.PartitionsErr), k.sizing},
		{f.ConfigErr, k.switches},
		{cmp.Or(f.ConfigErr, f.NodesErr), k.cores},
		{f.ConfigErr, k.outputs},
	} {
		if r.needs == nil {
			r.rule()
		}
	}
	return k.out
}

type checker struct {
	f   *Facts
	set order.Settings
	out []Finding
}

func (k *checker) say(level Level, name, fix, format string, a ...any) {
	k.out = append(k.out, Finding{Level: level, Name: name, Text: fmt.Sprintf(format, a...), Fix: fix})
}

func (k *checker) priorityType() {
	t := k.f.Config.PriorityType()
	switch {
	case t == "priority/multifactor":
		k.say(Pass, "priority type", "", "%s", t)
	default:
		k.say(Fail, "priority type", "PriorityType=priority/multifactor", "%s ignores SiteFactor, which carries the order", t)
	}
}

func (k *checker) siteFactorPlugin() {
	p := k.f.Config.SiteFactorPlugin()
	if p != "" {
		k.say(Fail, "site factor", "PrioritySiteFactorPlugin=", "%s writes SiteFactor too; remove it", p)
		return
	}
	k.say(Pass, "site factor", "", "no other plugin writes SiteFactor")
}

// steps reports whether there are enough steps of priority (see order) for the TE jobs.
func (k *checker) steps() {
	h := cluster.NewHistory()
	h.Observe(&k.f.Snapshot)
	p := order.Decide(&k.f.Snapshot, h, k.set)
	te := 0
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Ranked && d.Class == cluster.TE {
			te++
		}
	}
	places := p.Band.Capacity() / 2
	const fix = "lower the PriorityWeight* values"
	if m := k.f.Snapshot.Multifactor; k.set.Step <= 0 && m.Polled && p.Band.Step <= m.Span {
		k.say(Pass, "steps", "", "the priority weights add up to %d, which leaves few steps below %d, the highest value that priod writes: the step follows the factors of the jobs in the queue, which differ by %d now", m.Span, k.set.Top, m.Seen)
	}
	switch {
	case places < 2:
		k.say(Fail, "steps", fix, "fewer than two steps of %d (the sum of the priority weights and the Nice range in use) fit below %d, the highest value that priod writes", p.Band.Step, k.set.Top)
	case places < te:
		k.say(Warn, "steps", fix, "%d ranks, %d apart; %d TE jobs wait, so the last %d share a rank", places, p.Band.Step, te, te-places)
	case places < 100:
		k.say(Warn, "steps", fix, "only %d ranks, %d apart", places, p.Band.Step)
	default:
		k.say(Pass, "steps", "", "%d ranks for TE jobs, %d apart", places, p.Band.Step)
	}
	for _, flag := range k.f.Config.List("PriorityFlags") {
		if strings.HasPrefix(flag, "NO_NORMAL") {
			k.say(Warn, "steps", "PriorityFlags without "+flag, "with %s Slurm's factors have no upper bound; the step is adapted at each poll", flag)
		}
	}
}

func (k *checker) rights() {
	r := k.f.Rights
	fix := fmt.Sprintf("sacctmgr -i add user %s account=root adminlevel=Operator", r.User)
	switch {
	case k.f.RightsErr != nil && k.f.dbdAway(): // "slurmdbd" says so
	case k.f.RightsErr != nil:
		k.say(Warn, "rights", "", "the rights of %s are unknown: %v", r.User, k.f.RightsErr)
	case r.Level == slurmplug.NoAdmin:
		k.say(Fail, "rights", fix, "user %s may not change other users' jobs", r.User)
	case r.Why != "sacctmgr":
		k.say(Pass, "rights", "", "%s (%s) may change jobs; the daemon needs no more than AdminLevel=Operator", r.User, r.Why)
	default:
		k.say(Pass, "rights", "", "%s has AdminLevel=%s", r.User, r.Level)
	}
}

func (k *checker) partitions() {
	known := map[string]bool{}
	for _, p := range k.f.Partitions {
		known[p.Name] = true
	}
	ok := true
	for _, p := range k.set.Ranking.Partitions {
		if !known[p] {
			ok = false
			k.say(Fail, "partitions", "", "slurm.partitions: no partition %q on this cluster", p)
		}
	}
	if ok {
		k.say(Pass, "partitions", "", "%d of %d partitions are ranked", cmp.Or(len(k.set.Ranking.Partitions), len(known)), len(known))
	}
}

func (k *checker) accounting() {
	if t := k.f.Config.AccountingStorageType(); t != "accounting_storage/slurmdbd" {
		k.say(Warn, "accounting", "AccountingStorageType=accounting_storage/slurmdbd",
			"no slurmdbd: no QOS and no job history; TE GPU-hours count only what priod's polls see")
		return
	}
	k.say(Pass, "accounting", "", "stored by slurmdbd")
}

// types are the GRES types of the cluster's GPUs, and whether some have none.
func (k *checker) types() (types []string, untyped bool) {
	for i := range k.f.Nodes {
		for _, g := range k.f.Nodes[i].Gres {
			switch {
			case g.Name != "gpu":
			case g.Type == "":
				untyped = true
			case !slices.Contains(types, g.Type):
				types = append(types, g.Type)
			}
		}
	}
	slices.Sort(types)
	return types, untyped
}

func (k *checker) tres() {
	types, _ := k.types()
	if len(types) == 0 || k.f.Config.AccountingStorageType() != "accounting_storage/slurmdbd" {
		return
	}
	kept := k.f.Config.List("AccountingStorageTRES")
	want := []string{"gres/gpu"}
	for _, t := range types {
		want = append(want, "gres/gpu:"+t)
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return slices.Contains(kept, w) })
	if len(missing) > 0 {
		k.say(Warn, "GPU accounting", "AccountingStorageTRES="+strings.Join(want, ","), "AccountingStorageTRES lacks %s", strings.Join(missing, ", "))
		return
	}
	k.say(Pass, "GPU accounting", "", "every GPU type is tracked")
}

func (k *checker) comments() {
	if k.f.Config.AccountingStorageType() != "accounting_storage/slurmdbd" {
		return
	}
	if !slices.Contains(k.f.Config.List("AccountingStoreFlags"), "job_comment") {
		k.say(Warn, "comments", "AccountingStoreFlags=job_comment", "job comments are not stored: if priod's database is lost, so are the tags of past jobs")
		return
	}
	k.say(Pass, "comments", "", "job comments, and with them tags, are stored")
}

func (k *checker) gpuTypes() {
	types, untyped := k.types()
	if len(types) == 0 && !untyped {
		k.say(Warn, "GPU types", "", "no node has GPUs")
		return
	}
	if untyped {
		k.say(Warn, "GPU types", "NodeName=... Gres=gpu:TYPE:COUNT", "some nodes have untyped GPUs")
	}
	for i := range k.f.Nodes {
		seen := map[string]bool{}
		for _, g := range k.f.Nodes[i].Gres {
			seen[g.Type] = seen[g.Type] || g.Name == "gpu" && g.Type != ""
		}
		delete(seen, "")
		if len(seen) > 1 {
			k.say(Warn, "GPU types", "", "%s: several GPU types on one node; a job's type is known only if it requests one", k.f.Nodes[i].Name)
		}
	}
	k.tooManyKinds()
	k.features(types, untyped)
}

// tooManyKinds reports nodes with GPUs beyond the number of kinds that placement can
// tell apart where jobs of all partitions wait, whatever features they name.
func (k *checker) tooManyKinds() {
	s := cluster.Snapshot{Nodes: ConvertNodes(k.f.Nodes)}
	var partitions []string
	for i := range s.Nodes {
		partitions = append(partitions, s.Nodes[i].Partitions...)
	}
	if out := nodemap.New(&s, partitions...).Out; len(out) > 0 {
		k.say(Warn, "GPU types", "", "more than %d kinds of GPU nodes (GPU type, partitions): while jobs of all these partitions run or wait, no job is steered, sized or given room on %.80s",
			placement.MaxTypes, slurmplug.CompactHosts(out))
	}
}

// features checks the node features that stand for the GPU types: steering writes them
// into constraints.
func (k *checker) features(types []string, untyped bool) {
	set := &k.f.Steer
	nodes := ConvertNodes(k.f.Nodes)
	why, lacking := set.Unsteerable(nodes)
	well, steerable := true, 0
	byPartition := slices.Collect(maps.Values(steer.SoleTypes(nodes)))
	for _, t := range types {
		problem, whole := why[t]
		if !whole {
			continue // only on nodes with several types
		}
		fix, feature := "", set.Feature(t)
		if len(lacking[t]) > 0 {
			fix = fmt.Sprintf("NodeName=%s Feature=%s", slurmplug.CompactHosts(lacking[t]), feature)
		}
		switch {
		case problem != "" && slices.Contains(byPartition, t):
			problem, fix = "", ""
			k.say(Pass, "GPU types", "", "%s: given to jobs of several partitions by their list (%s)", t, why[t])
		case problem != "":
			if fix == "" && slurmplug.ValidFeature(feature) && k.shared(t, feature) {
				fix = fmt.Sprintf("gpu_types.%s.feature = \"...\" in priod.toml, a node feature of these nodes alone", t)
			}
			k.say(Warn, "GPU types", fix, "jobs cannot be steered to %s: %s", t, problem)
		case fix != "":
			k.say(Warn, "GPU types", fix, "steered jobs cannot run on %s", steer.Lacks(lacking[t], feature))
		}
		well = well && problem == "" && fix == ""
		if problem == "" {
			steerable++
		}
	}
	for _, t := range slices.Sorted(maps.Keys(set.Features)) {
		if !slices.Contains(types, t) {
			well = false
			k.say(Warn, "GPU types", "", "gpu_types: no node has GPU type %s; was it renamed?", t)
		}
	}
	if set.Enabled && steerable < 2 {
		well = false
		k.say(Fail, "steering", "", "steering.enabled needs at least two GPU types, each with its own node feature or partition; found %d", steerable)
	}
	if well && !untyped {
		k.say(Pass, "GPU types", "", "%s: each has its own node feature or partition", strings.Join(types, ", "))
	}
}

// shared reports whether nodes with other GPUs have the feature of a type.
func (k *checker) shared(gpuType, feature string) bool {
	return slices.ContainsFunc(ConvertNodes(k.f.Nodes), func(n cluster.Node) bool {
		return n.GPUs > 0 && (n.GPUType != gpuType || n.MixedTypes) && slices.Contains(n.Features, feature)
	})
}

func (k *checker) qos() {
	named := append(slices.Clone(k.set.Ranking.TEQOS), k.set.Ranking.BEQOS...)
	if k.f.dbdAway() {
		return // "slurmdbd" says so
	}
	if k.f.QOSErr != nil {
		level := Warn
		if len(named) > 0 {
			level = Fail
		}
		k.say(level, "QOS", "", "the QOS cannot be read: %v", k.f.QOSErr)
		return
	}
	ok := true
	for _, name := range named {
		if !slices.Contains(k.f.QOS, name) {
			ok = false
			k.say(Fail, "QOS", "sacctmgr -i add qos "+name, "ranking.te_qos or ranking.be_qos: no QOS %q", name)
		}
	}
	if ok {
		k.say(Pass, "QOS", "", "%d QOS, %d of them set the class of a job", len(k.f.QOS), len(named))
	}
}

func (k *checker) preemption() {
	kind, mode := k.f.Config.Get("PreemptType"), k.f.Config.Get("PreemptMode")
	switch {
	case kind == "" || kind == "preempt/none":
		k.say(Pass, "preemption", "", "Slurm's own preemption is off")
	case strings.Contains(mode, "SUSPEND"):
		k.say(Warn, "preemption", "PreemptMode=REQUEUE", "%s with %s: a suspended job keeps its GPUs", kind, mode)
	default:
		k.say(Pass, "preemption", "", "%s with %s: Slurm preempts, too, in addition to priod if preemption.enabled", kind, mode)
	}
}

func (k *checker) rpcLimits() {
	if !k.f.Config.RateLimited() {
		k.say(Pass, "RPC limits", "", "slurmctld has no RPC rate limit")
		return
	}
	if k.f.Rights.Why == "SlurmUser" || k.f.Rights.Why == "uid 0" {
		k.say(Pass, "RPC limits", "", "slurmctld limits RPCs per user (%s); %s is exempt (%s)", k.rateLimits(), k.f.Rights.User, k.f.Rights.Why)
		return
	}
	k.say(Warn, "RPC limits", "SlurmctldParameters=rl_enable,rl_bucket_size=...,rl_refill_rate=...",
		"slurmctld limits RPCs per user (%s; Slurm's defaults: 30 at once, refilled by 2 a second), and %s is not exempt: priod stays below the limit, so many writes take several cycles",
		k.rateLimits(), k.f.Rights.User)
}

func (k *checker) memory() {
	if k.f.Config.ConsumesMemory() && k.f.Config.Get("DefMemPerCPU") == "" && k.f.Config.Get("DefMemPerNode") == "" && k.f.Config.Get("DefMemPerGPU") == "" || k.f.Config.Get("DefMemPerNode") == "UNLIMITED" {
		k.say(Warn, "memory", "DefMemPerCPU=4096", "a job that requests no memory gets all memory of its node")
		return
	}
	k.say(Pass, "memory", "", "jobs that request no memory get a default")
}

// safeAge is how long slurmctld should remember a finished job, so that a priod that is
// restarted can still requeue a victim that left meanwhile: Slurm's default.
const safeAge = 5 * time.Minute

func (k *checker) jobAge() {
	const name, fix = "finished jobs", "MinJobAge=300"
	age := k.f.Config.MinJobAge()
	switch {
	case age == 0: // it never forgets
	case age < safeAge && k.f.Retries:
		k.say(Warn, name, fix, "MinJobAge is %s: a job that fails while priod is down for longer is not requeued", age)
	case age < safeAge && k.f.Evicts:
		k.say(Warn, name, fix, "MinJobAge is %s: a job that leaves for a TE job while priod is down for longer is not requeued", age)
	case age < time.Minute:
		k.say(Warn, name, fix, "MinJobAge is %s: short jobs may be missed", age)
	}
}

// outputs reports whether what jobs wrote can be read, and whether their memory is known.
func (k *checker) outputs() {
	switch {
	case !k.f.Retries:
	case k.f.Outputs && !k.f.Root:
		k.say(Warn, "failures", "run priod as root, or set retry.output = false", "retry.output: only root can read job output as its user; most failures stay unclassified")
	case !k.f.Config.MeasuresMemory():
		k.say(Warn, "failures", "JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherType is none: a kill for lack of memory is recognised only where Slurm says OUT_OF_MEMORY")
	default:
		k.say(Pass, "failures", "", "records of failed jobs can be read")
	}
}

// backfill reports a Slurm in which a job that waits for its GPU type or node stops all
// that are behind it.
func (k *checker) backfill() {
	kind := k.f.Config.Get("SchedulerType")
	if (k.f.Sizing || k.f.Steer.Enabled || k.f.Switches > 0) && kind != "" && kind != "sched/backfill" {
		k.say(Warn, "backfill", "SchedulerType=sched/backfill", "%s: a job that waits for its GPU type, node or switches blocks all jobs behind it", kind)
	}
}

// switches reports what keeps jobs from waiting for few switches, or from finding them.
func (k *checker) switches() {
	if k.f.Switches == 0 {
		return
	}
	if !k.f.Config.HasSwitches() {
		k.say(Warn, "switches", "TopologyPlugin=topology/tree, and topology.conf", "no switch topology (TopologyPlugin=%s): no job waits for few switches", k.f.Config.Get("TopologyPlugin"))
		k.out[len(k.out)-1].Idle = true
		return
	}
	well := true
	if most := k.f.Config.MaxSwitchWait(); most < k.f.Switches {
		well = false
		k.say(Warn, "switches", fmt.Sprintf("SchedulerParameters=max_switch_wait=%.0f", k.f.Switches.Seconds()), "no job waits longer than %s for few switches", most)
	}
	if strings.Contains(strings.ToUpper(k.f.Config.Get("SelectTypeParameters")), "CR_LLN") {
		well = false
		k.say(Warn, "switches", "SelectTypeParameters without CR_LLN", "CR_LLN spreads small jobs over all nodes: few nodes stay empty for multi-node jobs")
	}
	if well {
		k.say(Pass, "switches", "", "multi-node jobs can wait for few switches, %s at most", k.f.Switches)
	}
}

// sizing reports what prevents changes of sizes, or makes them do harm.
func (k *checker) sizing() {
	if !k.f.Sizing {
		return
	}
	if why := sizeLimit(k.f.Config); why != "" {
		k.say(Fail, "sizing", "SelectType=select/cons_tres and SelectTypeParameters=CR_Core_Memory, no MaxMemPerNode or MaxMemPerCPU", "no job is resized: every job %s", why)
		return
	}
	if k.f.LimitsErr != nil {
		k.say(Fail, "sizing", "", "no job is resized: association and QOS limits cannot be read: %v", k.f.LimitsErr)
		return
	}
	var without, bounded []string
	for _, p := range k.f.Partitions {
		if len(k.set.Ranking.Partitions) > 0 && !slices.Contains(k.set.Ranking.Partitions, p.Name) {
			continue
		}
		defaults := p.Defaults + "," + k.f.Config.Get("JobDefaults")
		if !strings.Contains(defaults, "DefCpuPerGPU=") {
			without = append(without, p.Name)
		}
		if p.SizeLimit != "" {
			bounded = append(bounded, p.Name+" ("+p.SizeLimit+")")
		}
	}
	if len(without) > 0 {
		k.say(Warn, "sizing", "PartitionName=... DefCpuPerGPU=... DefMemPerGPU=...",
			"no DefCpuPerGPU in %s: jobs that request no CPUs get one, and jobs that priod does not size can take the CPUs of free GPUs", strings.Join(without, ", "))
	}
	if len(bounded) > 0 {
		k.say(Warn, "sizing", "", "jobs in partition %s are not resized", strings.Join(bounded, ", "))
	}
	if len(without)+len(bounded) == 0 {
		k.say(Pass, "sizing", "", "jobs can be resized in every ranked partition")
	}
	switch {
	case !enforcesLimits(k.f.Config):
	case k.f.RightsErr == nil && k.f.Rights.Level == slurmplug.Administrator:
		k.say(Pass, "limits", "", "sizes are written as the job's user: limits set later bind these jobs, too")
	default:
		k.say(Pass, "limits", "", "sizes are written as operator: jobs under a group limit are not resized, and limits set later do not bind resized jobs (with AdminLevel=Administrator they would)")
	}
}
