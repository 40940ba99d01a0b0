package slurmplug

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is slurmctld's configuration as scontrol show config prints it, with the defaults filled in.
type Config struct{ values map[string]string }

// Config reads slurmctld's configuration.
func (c *Client) Config(ctx context.Context) (Config, error) {
	out, err := c.readLines(ctx, "scontrol", "show", "config")
	if err != nil {
		return Config{}, err
	}
	conf, err := parseConfig(string(out))
	if err == nil {
		c.budget.set(conf.RateLimit())
	}
	return conf, err
}

// parseConfig reads "Key = value". The last line says whether slurmctld is up: without it the output was cut off.
func parseConfig(out string) (Config, error) {
	conf := Config{map[string]string{}}
	whole := false
	for line := range strings.Lines(out) {
		whole = whole || strings.HasPrefix(line, "Slurmctld(primary)")
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" {
			continue
		}
		if isUnset(value) && value != "NONE" {
			value = ""
		}
		if _, known := conf.values[key]; !known {
			conf.values[key] = value
		}
	}
	if !whole || conf.Version() == "" || conf.ClusterName() == "" {
		return Config{}, doubtful("scontrol show config", "SLURM_VERSION, ClusterName or the line about slurmctld is missing")
	}
	return conf, nil
}

// Stamp names the configuration and its partitions: another name when one of their settings changes.
func (c Config) Stamp(partitions []Partition) string {
	h := fnv.New64a()
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		if key != "BOOT_TIME" && key != "NEXT_JOB_ID" {
			fmt.Fprintf(h, "%q=%q\n", key, c.values[key])
		}
	}
	for _, p := range partitions {
		p.State = ""
		fmt.Fprintf(h, "%q\n", fmt.Sprint(p))
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// Get returns one value as scontrol prints it; "" when there is none.
func (c Config) Get(key string) string { return c.values[key] }

// List splits a value at commas.
func (c Config) List(key string) []string { return listOf(c.values[key]) }

// lists reports whether a word stands in a value, in letters of any case.
func (c Config) lists(key, word string) bool {
	return slices.ContainsFunc(c.List(key), func(w string) bool { return strings.EqualFold(w, word) })
}

// scheduler is a number of SchedulerParameters; the usual one where none is set.
func (c Config) scheduler(key string, usual int) int {
	for _, p := range c.List("SchedulerParameters") {
		if text, is := strings.CutPrefix(p, key+"="); is {
			if n, err := parseUint(text, math.MaxInt32); err == nil {
				return int(n)
			}
			return usual
		}
	}
	return usual
}

// BackfillDepth is Slurm's default of Config.BackfillDepth.
const BackfillDepth = 500

// BackfillDepth is how many jobs the backfill looks at, each counted in each of its partitions (bf_max_job_test).
func (c Config) BackfillDepth() int { return max(c.scheduler("bf_max_job_test", BackfillDepth), 1) }

// FairTree reports whether fair share is by Slurm's Fair Tree.
func (c Config) FairTree() bool { return !c.lists("PriorityFlags", "NO_FAIR_TREE") }

// BackfillInterval is Slurm's default of Config.BackfillInterval.
const BackfillInterval = 30

// BackfillInterval is how many seconds backfill sleeps between two passes (bf_interval); 0: there is no backfill.
func (c Config) BackfillInterval() int {
	if c.Get("SchedulerType") == "sched/builtin" || c.lists("SchedulerParameters", "bf_interval=-1") {
		return 0
	}
	return cmp.Or(c.scheduler("bf_interval", BackfillInterval), BackfillInterval)
}

// SchedulerPause is Slurm's default of Config.SchedulerPause.
const SchedulerPause = 3

// SchedulerPause is how many seconds pass between two runs of the main scheduler at the least (batch_sched_delay): it looks once a
// second whether it is asked to.
func (c Config) SchedulerPause() int { return max(c.scheduler("batch_sched_delay", SchedulerPause), 1) }

// PlansByNode reports whether backfill plans a job for when the last job on its nodes ends, not the last of those that it
// counts as ending together (_get_last_relevant_job in select/cons_tres, new with 25.11).
func (c Config) PlansByNode() bool { return c.AtLeast(25, 11) }

// Version is slurmctld's version, "22.05.8".
func (c Config) Version() string { return c.values["SLURM_VERSION"] }

// AtLeast reports whether slurmctld is of the release major.minor, such as 23.2, or later.
func (c Config) AtLeast(major, minor int) bool {
	a, b, ok := ReleaseOf(c.Version())
	return ok && (a > major || a == major && b >= minor)
}

// ClusterName is the cluster's name.
func (c Config) ClusterName() string { return c.values["ClusterName"] }

// PriorityType is "priority/multifactor" or "priority/basic".
func (c Config) PriorityType() string { return c.values["PriorityType"] }

// SiteFactorPlugin is the plugin that sets SiteFactor by itself; "" when there is none.
func (c Config) SiteFactorPlugin() string {
	if p := c.values["PrioritySiteFactorPlugin"]; p != "site_factor/none" {
		return p
	}
	return ""
}

// Weights returns the priority weights that are not 0: "Age", "Assoc", "FairShare", "JobSize", "Partition", "QOS", and
// "TRES/CPU" and so on for each part of PriorityWeightTRES, rounded up.
func (c Config) Weights() (map[string]int64, error) {
	weights := map[string]int64{}
	for _, name := range []string{"Age", "Assoc", "FairShare", "JobSize", "Partition", "QOS"} {
		text := c.values["PriorityWeight"+name]
		if text == "" {
			continue // priority/basic has none
		}
		n, err := parseUint(text, math.MaxUint32)
		if err != nil {
			return nil, fmt.Errorf("PriorityWeight%s: %w", name, err)
		}
		if n != 0 {
			weights[name] = int64(n)
		}
	}
	for _, item := range c.List("PriorityWeightTRES") {
		name, text, _ := strings.Cut(item, "=")
		w, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(w) || math.Abs(w) > math.MaxUint32 {
			return nil, fmt.Errorf("PriorityWeightTRES: %.40q is no weight", item)
		}
		if w != 0 {
			weights["TRES/"+name] = int64(math.Ceil(math.Abs(w)))
		}
	}
	return weights, nil
}

// WeightSum is the largest difference that Slurm's own factors can make between two jobs: the sum of all weights.
func (c Config) WeightSum() (int64, error) {
	weights, err := c.Weights()
	sum := int64(0)
	for _, w := range weights {
		sum += w
	}
	return sum, err
}

// AccountingStorageType is "accounting_storage/slurmdbd" or ".../none", which later versions leave empty.
func (c Config) AccountingStorageType() string { return c.values["AccountingStorageType"] }

// Together is how many CPUs of a node are given out together: those of a core, or of a socket (SelectTypeParameters,
// select/cons_tres).
func (c Config) Together(n *Node) int {
	if strings.Contains(strings.ToUpper(c.values["SelectTypeParameters"]), "CR_SOCKET") {
		return max(n.SocketCPUs, n.Threads)
	}
	return n.Threads
}

// BindsGPUs reports whether all jobs get CPUs of the sockets of their GPUs alone (ENFORCE_BINDING_GRES): then that is no
// wish of a job's.
func (c Config) BindsGPUs() bool { return c.lists("SelectTypeParameters", "ENFORCE_BINDING_GRES") }

// SharingKeepsOthers reports whether beside a job of --oversubscribe no job without it starts on its nodes, whatever is free
// there. So it is on 24.11.5 where some partition has OverSubscribe=YES, and not on 22.05.8 and 26.05.5; releases between
// them are taken to be alike.
func (c Config) SharingKeepsOthers() bool { return c.AtLeast(23, 2) && !c.AtLeast(26, 5) }

// Opens names what this Slurm does with a pending job of these bounds, on nodes whose partition has a default memory by node
// (MB, 0: none), that does not count by amounts; "" for none. Beside the memory that a job asks for by GPU that default has to be
// free, too (22.05.8 to 26.05.5); and 26.05 gives each GPU of a job of --ntasks-per-gpu cores of its own socket (26.05.5).
func (c Config) Opens(b Bounds, defMemPerNode int64) string {
	switch {
	case b.Open != "":
		return b.Open
	case b.MemPerGPU > 0 && defMemPerNode > 0:
		return "memory by GPU where the default is by node (DefMemPerNode)"
	case b.TasksPerGPU > 0 && c.AtLeast(26, 5):
		return "tasks of each GPU (--ntasks-per-gpu), which this Slurm binds to its socket"
	}
	return ""
}

// FillsFirstNodes reports whether of a job that is bound to several nodes, and asks for GPUs in another way than by node, the
// first nodes may get so many tasks that the last one gets none: then the job has BadConstraints. So it is on 24.11.5 and
// 26.05.5, and not on 22.05.8; what counts the tasks (eval_nodes_gres) came with 24.05.
func (c Config) FillsFirstNodes() bool { return c.AtLeast(24, 5) }

// AddsUpGPUs reports whether Slurm, for a job that may have one node alone, adds up the GPUs that are free on all nodes that
// it looks at (job_test.c, _get_one_res, new with 26.05): one with a part of them hides one that has all (seen on 26.05.5).
func (c Config) AddsUpGPUs() bool { return c.AtLeast(26, 5) }

// StartsNoTaskThreads reports whether no job starts that asks for GPUs by task, for several tasks and for one thread of each
// core, on nodes whose cores have several, whatever is free. So it is on 24.11.5, and not on 22.05.8 and 26.05.5; releases
// from 24.05 on are taken to be like the first.
func (c Config) StartsNoTaskThreads() bool { return c.AtLeast(24, 5) && !c.AtLeast(26, 5) }

// TasksBySocket reports whether GPUs by task and of a whole job, for several tasks, count only where their socket has free cores
// for these (gres_select_filter.c; seen on 24.11.5 and 26.05.5, and not on 22.05.8; releases from 24.05 on are taken to be like the
// first).
func (c Config) TasksBySocket() bool { return c.AtLeast(24, 5) }

// NodesNeedTasks reports whether a job with fewer tasks than nodes, which its partition's MinNodes makes, does not start, whatever is
// free. So it is on 24.11.5, and not on 22.05.8 and 26.05.5; releases from 24.05 on are taken to be like the first.
func (c Config) NodesNeedTasks() bool { return c.AtLeast(24, 5) && !c.AtLeast(26, 5) }

// SpreadsTasks reports whether a job of several tasks that may lie on several nodes may not start though one node has room for all
// of them: where the least loaded node comes first and has room for some (LLN; seen on 26.05.5, and not on 24.11.5 and 22.05.8).
func (c Config) SpreadsTasks(p *Partition) bool {
	return c.AtLeast(26, 5) && (p.LeastLoaded || c.lists("SelectTypeParameters", "CR_LLN"))
}

// LosesThread reports whether Slurm may take a node whose cores have several threads to have one less than a job of these bounds
// needs: it hands out threads (CR_CPU), the job has an even number of tasks there and memory by CPU, and what memory is free is
// enough for an odd number of CPUs (gres_select_filter.c, gres_select_filter_sock_core; seen on 22.05.8).
func (c Config) LosesThread(b Bounds) bool {
	even := b.Most == 1 && b.Tasks%2 == 0 || b.TasksPerNode > 0 && b.TasksPerNode%2 == 0
	return even && b.MemPerCPU > 0 && strings.Contains(strings.ToUpper(c.values["SelectTypeParameters"]), "CR_CPU")
}

// ListsGPUs reports whether what jobs hold lists their GPUs (AccountingStorageTRES).
func (c Config) ListsGPUs() bool { return c.lists("AccountingStorageTRES", "gres/gpu") }

// EnforcesLimits reports whether limits of associations and QOS count (AccountingStorageEnforce).
func (c Config) EnforcesLimits() bool {
	return c.lists("AccountingStorageEnforce", "limits") || c.lists("AccountingStorageEnforce", "safe")
}

// ConsumesMemory reports whether memory is handed out to jobs as CPUs are.
func (c Config) ConsumesMemory() bool {
	return strings.Contains(strings.ToUpper(c.values["SelectTypeParameters"]), "MEMORY")
}

// DefaultMemory is what a job gets that does not ask for memory, MB for each CPU or for each node; 0 when not set, and when
// both are 0 all memory of its nodes.
func (c Config) DefaultMemory() (perCPU, perNode int64) {
	mb := func(key string) int64 {
		n, _ := parseUint(c.values[key], math.MaxInt32) // 0 for UNLIMITED
		return int64(n)
	}
	return mb("DefMemPerCPU"), mb("DefMemPerNode")
}

// RateLimit is how many requests slurmctld takes of one account (23.02 and later):
// so many at once, and so many more each period.
type RateLimit struct {
	Enabled bool // slurmctld limits them
	Exempt  bool // this process's account is exempt: root and SlurmUser are (slurmctld/rate_limit.c)
	Bucket  int
	Refill  int
	Period  time.Duration
}

// Holds reports whether this process is limited.
func (l RateLimit) Holds() bool { return l.Enabled && !l.Exempt }

// perSecond is what comes in on average: what overflows the bucket is lost.
func (l RateLimit) perSecond() float64 { return float64(min(l.Refill, l.Bucket)) / l.Period.Seconds() }

func (l RateLimit) String() string {
	every := "second"
	if l.Period != time.Second {
		every = l.Period.String()
	}
	return fmt.Sprintf("an account may make %d requests at once and %d more each %s (rl_bucket_size, rl_refill_rate, rl_refill_period; root and SlurmUser are exempt)",
		l.Bucket, l.Refill, every)
}

// RateLimit returns the limit that holds for this process's account, with Slurm's defaults where slurm.conf is silent
// (slurmctld/rate_limit.c). Config keeps the client's own pace below it.
func (c Config) RateLimit() RateLimit {
	if !c.RateLimited() || !c.AtLeast(23, 2) {
		return RateLimit{} // 22.05 shows what it does not know, too
	}
	l := RateLimit{Enabled: true, Bucket: 30, Refill: 2, Period: time.Second}
	l.Exempt = c.Superuser()
	for _, p := range c.List("SlurmctldParameters") {
		key, text, _ := strings.Cut(p, "=")
		n, err := parseUint(text, math.MaxInt32)
		if err != nil || n == 0 {
			continue // slurmctld does not start with such a value
		}
		switch strings.ToLower(key) {
		case "rl_bucket_size":
			l.Bucket = int(n)
		case "rl_refill_rate":
			l.Refill = int(n)
		case "rl_refill_period":
			l.Period = time.Duration(n) * time.Second
		}
	}
	return l
}

// ExpeditesRequeue reports whether users may ask for an expedited requeue (25.11 and later).
func (c Config) ExpeditesRequeue() bool {
	return c.lists("SlurmctldParameters", "enable_expedited_requeue")
}

// RateLimited reports whether slurmctld limits RPCs (23.02 and later). SlurmUser and root are exempt.
func (c Config) RateLimited() bool {
	return c.lists("SlurmctldParameters", "rl_enable")
}

// MinJobAge is how long slurmctld remembers a finished job; 0 when it does not say, or never forgets one.
func (c Config) MinJobAge() time.Duration { return c.seconds("MinJobAge") }

// MessageTimeout is how long Slurm's commands wait for a daemon that hangs; 0 when scontrol does not say.
func (c Config) MessageTimeout() time.Duration { return c.seconds("MessageTimeout") }

// StateSaveLocation is the folder that all hosts of slurmctld share.
func (c Config) StateSaveLocation() string { return c.values["StateSaveLocation"] }

// seconds reads a value such as "300 sec".
func (c Config) seconds(key string) time.Duration {
	seconds, _, _ := strings.Cut(c.values[key], " ")
	n, _ := parseUint(seconds, math.MaxInt32) // 0 for no number
	return time.Duration(n) * time.Second
}

// Superuser reports whether this process's account is root or SlurmUser, which may do what an Operator may not.
func (c Config) Superuser() bool {
	uid := os.Geteuid()
	_, slurmUID, known := c.SlurmUser()
	return uid == 0 || known && uint32(uid) == slurmUID
}

// SlurmUser is the account that slurmctld runs as, "slurm" and 64030. ok is false when scontrol does not say.
func (c Config) SlurmUser() (name string, uid uint32, ok bool) {
	name, text, _ := strings.Cut(c.values["SlurmUser"], "(")
	n, err := parseUint(strings.TrimSuffix(text, ")"), math.MaxUint32)
	return name, uint32(n), err == nil
}
