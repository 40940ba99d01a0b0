package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/idle"
	"slurmprio/priod/order"
	"slurmprio/priod/retry"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/wake"
)

// headerName is a field name of HTTP.
var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,99}$`)

// noEvictions is the policy that evicts none.
const noEvictions = "none"

var (
	policies = []string{string(preemption.LeastLoss), string(preemption.FitGpp), noEvictions}
)

// rule is what the value of one key must be.
type rule struct {
	key  string
	ok   bool
	want string
}

// Check refuses values that make no sense, or do not go together, by their key.
func (c *Config) Check() error {
	for _, r := range slices.Concat(c.hostRules(), c.orderRules(), c.steeringRules(), c.sizeRules(), c.localityRules(), c.evictionRules(), c.retryRules(), c.usageRules(), c.daemonRules()) {
		if !r.ok {
			return fmt.Errorf("%s: want %s%s", r.key, r.want, c.not(r.key))
		}
	}
	return cmp.Or(c.checkAllocation(), c.checkTypes(), c.checkBudgets(), c.checkConsent(), c.checkShares(), c.loadRules())
}

// hostRules hold for Slurm, the files of priod and the clock of its cycles.
func (c *Config) hostRules() []rule {
	return []rule{
		{"slurm.bin_dir", c.Slurm.BinDir == "" || filepath.IsAbs(c.Slurm.BinDir), "an absolute path, or empty"},
		{"slurm.conf", c.Slurm.Conf == "" || filepath.IsAbs(c.Slurm.Conf), "an absolute path, or empty"},
		{"slurm.partitions", single(c.Slurm.Partitions), "names of partitions, each in quotes of its own"},
		{"state.dir", filepath.IsAbs(c.State.Dir), "an absolute path"},
		{"state.shared", c.State.Shared == "" || filepath.IsAbs(c.State.Shared) && !inside(c.State.Shared, c.State.Dir), "empty, or an absolute path outside of state.dir, which is of this host alone"},
		{"state.retention", c.State.Retention >= Duration(24*time.Hour), "at least 1d"},
		{"cycle.interval", c.Cycle.Interval >= Duration(2*time.Second), "at least 2s"},
		{"cycle.follow_controller", !c.Cycle.FollowController || c.State.Shared != "" || !c.Steering.Enabled && !c.Sizing.Enabled && !c.Locality.Enabled && !c.Locality.SlowNodes && !c.Retry.Enabled,
			"false beside steering or sizing, and beside locality and retry, without state.shared: what a job's user asked for would stand only on the host that wrote (docs/reference/high-availability.md)"},
		{"cycle.controller_host", !strings.ContainsAny(c.Cycle.ControllerHost, " ,()\t\n"), "one name of SlurmctldHost, without its address"},
	}
}

// inside reports whether a path is a folder or below it.
func inside(path, folder string) bool {
	below, err := filepath.Rel(folder, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, "../")
}

// orderRules hold for the order and for shares.
func (c *Config) orderRules() []rule {
	return []rule{
		{"ranking.te_qos", single(c.Ranking.TEQOS), "names of QOS"},
		{"ranking.be_qos", single(c.Ranking.BEQOS) && disjoint(c.Ranking.TEQOS, c.Ranking.BEQOS), "names of QOS that do not stand in ranking.te_qos"},
		{"ranking.order", slices.Contains(orders, c.Ranking.Order), strings.Join(orders, ", ")},
		{"ranking.order", c.Ranking.Order == string(order.SlurmOrder) || c.Allocation.Policy != "", "an allocation.policy beside order " + c.Ranking.Order},
	}
}

// steeringRules hold for GPU types and rounds.
func (c *Config) steeringRules() []rule {
	return []rule{
		{"steering.enabled", !c.Steering.Enabled || c.Allocation.Policy != "", "an allocation.policy beside steering"},
		{"rounds.enabled", !c.Rounds.Enabled || c.Steering.Enabled, "steering.enabled beside rounds: a job has to wait for one GPU type before others yield to it"},
		{"rounds.length", c.Rounds.Length >= Duration(5*time.Second), "at least 5s"},
	}
}

// sizeRules hold for CPUs, memory and speeds.
func (c *Config) sizeRules() []rule {
	return []rule{
		{"speeds.workloads", c.Speeds.Workloads == "" || filepath.IsAbs(c.Speeds.Workloads), "an absolute path, or empty"},
		{"speeds.history", c.Speeds.History >= 0, "a time, or 0s"},
		{"speeds.steps", c.Speeds.Steps == "" || oneGroup(c.Speeds.Steps), "a regular expression with one group, or empty"},
	}
}

// localityRules hold for switches.
func (c *Config) localityRules() []rule {
	l := &c.Locality
	share := func(v float64) bool { return v >= 0 && v < 1 }
	return []rule{
		{"locality.costs", len(l.Costs) > 0 && slices.IsSorted(l.Costs) && share(l.Costs[0]) && share(l.Costs[len(l.Costs)-1]), "parts of a job's speed from 0 to below 1, rising: on 2, 4, 8 ... switches in the place of one"},
		{"locality.slow_nodes", !l.SlowNodes || c.Speeds.History > 0, "speeds.history above 0s beside it: slow nodes are found in the runs of accounting"},
	}
}

// evictionRules hold for making room.
func (c *Config) evictionRules() []rule {
	return []rule{
		{"preemption.policy", slices.Contains(policies, c.Preemption.Policy), strings.Join(policies, ", ")},
		{"preemption.urgency", finite(c.Preemption.Urgency), "a number from 0"},
		{"preemption.max_evictions", c.Preemption.MaxEvictions >= 0, "0 (no limit) or more"},
		{"preemption.min_run", c.Preemption.MinRun >= 0, "0s or more"},
		{"preemption.grace_share", c.Preemption.GraceShare >= 0 && c.Preemption.GraceShare <= 1, "a part from 0 (no limit) to 1"},
		{"preemption.loss_share", c.Preemption.LossShare >= 0 && c.Preemption.LossShare <= 1, "a part from 0 (no limit) to 1"},
		{"preemption.user_loss_share", c.Preemption.UserLossShare >= 0 && c.Preemption.UserLossShare <= 1, "a part from 0 (no limit) to 1"},
		{"preemption.max_per_hour", c.Preemption.MaxPerHour >= 0, "0 (no limit) or more"},
		{"preemption.grace", c.Preemption.Grace >= 0 && c.Preemption.Grace <= c.Preemption.MaxGrace, "from 0s to preemption.max_grace"},
		{"preemption.max_grace", c.Preemption.MaxGrace >= 0, "0s or more"},
	}
}

// retryRules hold for jobs that failed.
func (c *Config) retryRules() []rule {
	r := &c.Retry
	return []rule{
		{"retry.rules", r.Rules == "" || filepath.IsAbs(r.Rules), "an absolute path, or empty"},
	}
}

// usageRules hold for what is read and done of running jobs that do not work.
func (c *Config) usageRules() []rule {
	known := true
	for _, do := range c.Usage.OnIdle {
		known = known && slices.Contains(idle.All, idle.Do(do))
	}
	address, err := url.Parse(c.Usage.Prometheus)
	web := err == nil && slices.Contains([]string{"http", "https"}, address.Scheme) && address.Host != ""
	return []rule{
		{"usage.prometheus", c.Usage.Prometheus == "" || web, "http://HOST:PORT or https://..., or empty"},
		{"usage.on_idle", known, "a list of notify, victim, requeue and cancel"},
	}
}

// loadRules reads the rules of failures where they are wanted.
func (c *Config) loadRules() (err error) {
	if !c.Retry.Enabled {
		return nil
	}
	if c.failures, err = retry.Load(c.Retry.Rules); err != nil {
		return fmt.Errorf("retry.rules: %w", err)
	}
	return nil
}

// daemonRules hold for what the daemon may load Slurm with, and where it is heard.
func (c *Config) daemonRules() []rule {
	_, wakeErr := wakeAddresses(c.Wake.Listen)
	return []rule{
		{"log.level", slices.Contains([]string{"error", "warn", "info", "debug", "trace"}, c.Log.Level), "error, warn, info, debug or trace"},
		{"wake.listen", wakeErr == nil, "unix:/absolute/path or udp:ADDRESS:PORT with an address in numbers; [] for none"},
		{"metrics.listen", LocalAddress(c.Metrics.Listen), "a loopback address such as 127.0.0.1:9817 or [::1]:9817, unix:/absolute/path, or empty"},
		{"web.listen", LocalAddress(c.Web.Listen), "a loopback address such as 127.0.0.1:9818 or [::1]:9818, unix:/absolute/path, or empty"},
		{"web.user_header", c.Web.UserHeader == "" || headerName.MatchString(c.Web.UserHeader), "the name of a header, such as X-Remote-User"},
		{"web.user_header", c.Web.UserHeader == "" || c.Web.Listen == "" || strings.HasPrefix(c.Web.Listen, "unix:"), "with web.listen = \"unix:/absolute/path\": on a loopback address any user of this host could send the header"},
		{"web.listen", c.Web.Listen == "" || c.Web.Listen != c.Metrics.Listen, "another address than that of metrics.listen"},
		{"log.format", c.Log.Format == "text" || c.Log.Format == "json", "text or json"},
	}
}

// checkBudgets looks at the limits of TE jobs, in general and of single users and accounts.
func (c *Config) checkBudgets() error {
	budgets := c.Budgets()
	for _, key := range slices.Sorted(maps.Keys(budgets)) {
		b := budgets[key]
		if b.GPUs != nil && *b.GPUs < 0 || b.TimeLimit != nil && *b.TimeLimit < 0 || b.GPUHoursPerDay != nil && !(*b.GPUHoursPerDay >= 0) {
			return fmt.Errorf("%s: want no negative limits (0 means none)", key)
		}
		for _, part := range []struct {
			name  string
			value *float64
		}{{"share", b.Share}, {"gpu_hours_share", b.GPUHoursShare}} {
			if part.value != nil && !(*part.value >= 0 && *part.value <= 1) {
				return fmt.Errorf("%s.%s = %v: want a part from 0 (no limit) to 1", key, part.name, *part.value)
			}
		}
	}
	return nil
}

// not tells the value of a key that is not wanted, "" where that has no words.
func (c *Config) not(key string) string {
	text, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	for _, word := range strings.Split(key, ".") {
		var table map[string]json.RawMessage
		if json.Unmarshal(text, &table) != nil {
			return ""
		}
		text = table[word]
	}
	return fmt.Sprintf(", not %.100s", text)
}

// WakeAddresses are where calls of TE submissions are heard.
func (c *Config) WakeAddresses() []wake.Address {
	addresses, _ := wakeAddresses(c.Wake.Listen) // validated
	return addresses
}

// OwnJobs is the name of the socket on which users ask about their own jobs.
const OwnJobs = "explain"

// OwnJobsSocket is its path, beside the first socket of wake.listen; "": there is none.
func (c *Config) OwnJobsSocket() string {
	for _, a := range c.WakeAddresses() {
		if a.Path != "" {
			return filepath.Join(filepath.Dir(a.Path), OwnJobs)
		}
	}
	return ""
}

func wakeAddresses(texts []string) (addresses []wake.Address, err error) {
	for _, text := range texts {
		a, err := wake.Parse(text)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, a)
	}
	return addresses, nil
}

func finite(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

func oneGroup(expression string) bool {
	e, err := regexp.Compile(expression)
	return err == nil && e.NumSubexp() == 1
}

var orders = []string{string(order.SlurmOrder), string(order.OwedOrder)}

// checkAllocation looks at the policy and its weights.
func (c *Config) checkAllocation() error {
	a := &c.Allocation
	if a.Policy != "" {
		if err := checkPolicy(a.Policy); err != nil {
			return fmt.Errorf("allocation.policy: %w", err)
		}
	}
	for _, account := range slices.Sorted(maps.Keys(a.Weights)) {
		if w := a.Weights[account]; account == "" || !(w > 0) || math.IsInf(w, 1) {
			return fmt.Errorf("allocation.weights.%s = %v: want an account and a weight above 0", account, w)
		}
	}
	return nil
}

// papersOnly are policies of Gavel's table that priod does not run.
var papersOnly = []string{"water-filling", "min-cost", "fifo", "sjf", "isolated", "proportional", "allox", "gandiva", "strategy-proof"}

func checkPolicy(text string) error {
	name, variant, _ := strings.Cut(text, ":")
	if names := strings.Join(allocate.Names(), ", "); slices.Contains(papersOnly, name) || variant == "agnostic" || variant == "packed" {
		return fmt.Errorf("%.80s is there to compare with, in tests/papers: want one of %s", text, names)
	}
	return allocate.Policy(text).Check()
}

// checkTypes looks at the GPU types of speeds.types and speeds.renamed.
func (c *Config) checkTypes() error {
	for _, t := range slices.Sorted(maps.Keys(c.Speeds.Types)) {
		if v := c.Speeds.Types[t]; !jobtag.ValidName(t) || !(v > 0) || math.IsInf(v, 1) {
			return fmt.Errorf("speeds.types.%s = %v: want a GPU type and a relative speed above 0", t, v)
		}
	}
	for _, old := range slices.Sorted(maps.Keys(c.Speeds.Formerly)) {
		now := c.Speeds.Formerly[old]
		_, again := c.Speeds.Formerly[now]
		if !jobtag.ValidName(old) || !jobtag.ValidName(now) || again {
			return fmt.Errorf("speeds.renamed.%s = %q: want the name that the GPU type has now", old, now)
		}
	}
	features := map[string]string{}
	for _, t := range slices.Sorted(maps.Keys(c.GPUTypes)) {
		f := c.GPUTypes[t].Feature
		if !jobtag.ValidName(t) || !slurmplug.ValidFeature(f) {
			return fmt.Errorf("gpu_types.%s.feature = %q: want a GPU type and the name of a node feature", t, f)
		}
		if other, twice := features[f]; twice {
			return fmt.Errorf("gpu_types.%s.feature = %q: that stands for %s", t, f, other)
		}
		features[f] = t
	}
	return nil
}

// maxSocketPath is what fits into sun_path of unix(7).
const maxSocketPath = 107

// LocalAddress reports whether only this machine can reach the address: "", a loopback
// address with a port, or "unix:" and an absolute path. Names such as localhost are no
// addresses: where they lead is the resolver's choice.
func LocalAddress(s string) bool {
	if path, unix := strings.CutPrefix(s, "unix:"); unix {
		return filepath.IsAbs(path) && len(path) <= maxSocketPath && !strings.ContainsRune(path, 0)
	}
	a, err := netip.ParseAddrPort(s)
	return s == "" || err == nil && a.Addr().IsLoopback() && a.Port() != 0
}

// single reports whether each of some names is one: "a,b", which Slurm takes for two, would name nothing.
func single(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return name == "" || strings.Contains(name, ",") })
}

func disjoint(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
