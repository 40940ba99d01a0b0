package sbatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Arg says whether an option takes an argument, as getopt_long means it.
type Arg uint8

// An Optional argument stands in the same word ("--nice=5", "-koff") or not at
// all: the next word is never taken.
const (
	NoArg Arg = iota
	Required
	Optional
)

// Option is one option of sbatch.
type Option struct {
	Name  string // long name, as sbatch reports the option
	Alias string // second long name, or ""
	Short byte   // 0: none
	Arg   Arg

	ArgSince Release // from this release on Arg is ArgThen; 0: never
	ArgThen  Arg

	Since    Release   // first release that has it; 0: all of Releases
	Absent   []Release // later releases without it
	Env      []string  // variables that set it, in the order that sbatch reads them
	EnvSince Release   // first release that reads Env; 0: as Since

	Early        bool // taken from the command line only, in the first pass
	PerComponent bool // forgotten between the components of a heterogeneous job

	// Exact is true for options of our own: they have to be spelled in full
	// and don't make an abbreviation of sbatch's options ambiguous.
	Exact bool
}

// options of sbatch 22.05 to 26.05. Source: the tables in
// src/common/slurm_opt.c and src/sbatch/opt.c of those releases; the order is
// the one in which sbatch reads the variables, where that matters.
var options = []Option{
	{Name: "account", Short: 'A', Arg: Required, Env: []string{"SBATCH_ACCOUNT"}},
	{Name: "acctg-freq", Arg: Required, Env: []string{"SBATCH_ACCTG_FREQ"}},
	{Name: "array", Short: 'a', Arg: Required, Env: []string{"SBATCH_ARRAY_INX"}},
	{Name: "autocomplete", Arg: Required, Since: 2302},
	{Name: "batch", Arg: Required, Env: []string{"SBATCH_BATCH"}},
	{Name: "bb", Arg: Required, PerComponent: true, Env: []string{"SBATCH_BURST_BUFFER"}},
	{Name: "bbf", Arg: Required},
	{Name: "begin", Short: 'b', Arg: Required},
	{Name: "chdir", Short: 'D', Arg: Required},
	{Name: "cluster-constraint", Arg: Required, Env: []string{"SBATCH_CLUSTER_CONSTRAINT"}},
	{Name: "clusters", Alias: "cluster", Short: 'M', Arg: Required, Env: []string{"SBATCH_CLUSTERS", "SLURM_CLUSTERS"}},
	{Name: "comment", Arg: Required},
	{Name: "consolidate-segments", Since: 2511, PerComponent: true, Env: []string{"SBATCH_CONSOLIDATE_SEGMENTS"}},
	{Name: "constraint", Short: 'C', Arg: Required, PerComponent: true, Env: []string{"SBATCH_CONSTRAINT"}},
	{Name: "container", Arg: Required, Env: []string{"SBATCH_CONTAINER"}},
	{Name: "container-id", Arg: Required, Since: 2302, Env: []string{"SBATCH_CONTAINER_ID"}},
	{Name: "container-type", Arg: Required, Since: 2605, Env: []string{"SBATCH_CONTAINER_TYPE"}},
	{Name: "context", Arg: Required},
	{Name: "contiguous", PerComponent: true},
	{Name: "core-spec", Short: 'S', Arg: Required, PerComponent: true, Env: []string{"SBATCH_CORE_SPEC"}},
	{Name: "cores-per-socket", Arg: Required, PerComponent: true},
	{Name: "cpu-freq", Arg: Required, PerComponent: true, Env: []string{"SBATCH_CPU_FREQ_REQ"}},
	{Name: "cpus-per-gpu", Arg: Required, PerComponent: true, Env: []string{"SBATCH_CPUS_PER_GPU"}},
	{Name: "cpus-per-task", Short: 'c', Arg: Required, PerComponent: true},
	{Name: "deadline", Arg: Required},
	{Name: "delay-boot", Arg: Required, Env: []string{"SBATCH_DELAY_BOOT"}},
	{Name: "dependency", Short: 'd', Arg: Required},
	{Name: "distribution", Short: 'm', Arg: Required, PerComponent: true, Env: []string{"SBATCH_DISTRIBUTION"}},
	{Name: "error", Short: 'e', Arg: Required, Env: []string{"SBATCH_ERROR"}},
	{Name: "exclude", Short: 'x', Arg: Required},
	{Name: "exclusive", Arg: Optional, PerComponent: true, Env: []string{"SBATCH_EXCLUSIVE"}},
	{Name: "export", Arg: Required, Env: []string{"SBATCH_EXPORT"}},
	{Name: "export-file", Arg: Required, Absent: []Release{2311}},
	{Name: "external", Since: 2505},
	{Name: "extra", Arg: Required, Since: 2302},
	{Name: "extra-node-info", Short: 'B', Arg: Required, PerComponent: true},
	{Name: "get-user-env", Arg: Optional, ArgSince: 2505, ArgThen: NoArg, Env: []string{"SBATCH_GET_USER_ENV"}},
	{Name: "gid", Arg: Required},
	{Name: "gpu-bind", Arg: Required, PerComponent: true, Env: []string{"SBATCH_GPU_BIND"}},
	{Name: "gpu-freq", Arg: Required, PerComponent: true, Env: []string{"SBATCH_GPU_FREQ"}},
	{Name: "gpus", Short: 'G', Arg: Required, PerComponent: true, Env: []string{"SBATCH_GPUS"}},
	{Name: "gpus-per-node", Arg: Required, PerComponent: true, Env: []string{"SBATCH_GPUS_PER_NODE"}},
	{Name: "gpus-per-socket", Arg: Required, PerComponent: true, Env: []string{"SBATCH_GPUS_PER_SOCKET"}},
	{Name: "gpus-per-task", Arg: Required, PerComponent: true, Env: []string{"SBATCH_GPUS_PER_TASK"}},
	{Name: "gres", Arg: Required, PerComponent: true, Env: []string{"SBATCH_GRES"}},
	{Name: "gres-flags", Arg: Required, PerComponent: true, Env: []string{"SBATCH_GRES_FLAGS"}},
	{Name: "help", Short: 'h', Early: true},
	{Name: "hint", Arg: Required, PerComponent: true, Env: []string{"SLURM_HINT", "SBATCH_HINT"}},
	{Name: "hold", Short: 'H'},
	{Name: "ignore-pbs", Env: []string{"SBATCH_IGNORE_PBS"}},
	{Name: "input", Short: 'i', Arg: Required, Env: []string{"SBATCH_INPUT"}},
	{Name: "job-name", Short: 'J', Arg: Required, Env: []string{"SBATCH_JOB_NAME"}},
	{Name: "kill-on-invalid-dep", Arg: Required},
	{Name: "licenses", Short: 'L', Arg: Required, PerComponent: true},
	{Name: "mail-type", Arg: Required, PerComponent: true},
	{Name: "mail-user", Arg: Required, PerComponent: true},
	{Name: "mcs-label", Arg: Required},
	{Name: "mem", Arg: Required, Env: []string{"SBATCH_MEM_PER_NODE"}},
	{Name: "mem-bind", Arg: Required, PerComponent: true, Env: []string{"SBATCH_MEM_BIND"}},
	{Name: "mem-per-cpu", Arg: Required, PerComponent: true, Env: []string{"SBATCH_MEM_PER_CPU"}},
	{Name: "mem-per-gpu", Arg: Required, PerComponent: true, Env: []string{"SBATCH_MEM_PER_GPU"}},
	{Name: "mem-update", Arg: Required, Since: 2605},
	{Name: "mincpus", Arg: Required, PerComponent: true},
	{Name: "network", Arg: Required, PerComponent: true, Env: []string{"SBATCH_NETWORK"}},
	{Name: "nice", Arg: Optional},
	{Name: "no-kill", Short: 'k', Arg: Optional, Env: []string{"SBATCH_NO_KILL"}},
	{Name: "no-requeue", Env: []string{"SBATCH_NO_REQUEUE"}},
	{Name: "nodefile", Short: 'F', Arg: Required, PerComponent: true},
	{Name: "nodelist", Short: 'w', Arg: Required, PerComponent: true},
	{Name: "nodes", Short: 'N', Arg: Required, PerComponent: true},
	{Name: "ntasks", Short: 'n', Arg: Required, PerComponent: true},
	{Name: "ntasks-per-core", Arg: Required, PerComponent: true},
	{Name: "ntasks-per-gpu", Arg: Required, PerComponent: true},
	{Name: "ntasks-per-node", Alias: "tasks-per-node", Arg: Required, PerComponent: true},
	{Name: "ntasks-per-socket", Arg: Required, PerComponent: true},
	{Name: "ntasks-per-tres", Arg: Required, PerComponent: true},
	{Name: "oom-kill-step", Arg: Optional, Since: 2411},
	{Name: "open-mode", Arg: Required, Env: []string{"SBATCH_OPEN_MODE"}},
	{Name: "output", Short: 'o', Arg: Required, Env: []string{"SBATCH_OUTPUT"}},
	{Name: "overcommit", Short: 'O', PerComponent: true, Env: []string{"SBATCH_OVERCOMMIT"}},
	{Name: "oversubscribe", Short: 's', PerComponent: true},
	{Name: "parsable"},
	{Name: "partition", Short: 'p', Arg: Required, PerComponent: true, Env: []string{"SBATCH_PARTITION"}},
	{Name: "power", Arg: Required, Absent: []Release{2405, 2411, 2505, 2511, 2605}, PerComponent: true, Env: []string{"SBATCH_POWER"}},
	{Name: "prefer", Arg: Required},
	{Name: "priority", Arg: Required},
	{Name: "profile", Arg: Required, Env: []string{"SBATCH_PROFILE"}},
	{Name: "propagate", Arg: Optional},
	{Name: "qos", Short: 'q', Arg: Required, Env: []string{"SBATCH_QOS"}},
	{Name: "quiet", Short: 'Q', Early: true},
	{Name: "reboot"},
	{Name: "requeue", ArgSince: 2511, ArgThen: Optional, Env: []string{"SBATCH_REQUEUE"}},
	{Name: "reservation", Arg: Required, Env: []string{"SBATCH_RESERVATION"}},
	{Name: "resources", Arg: Required, Since: 2511, PerComponent: true},
	{Name: "resv-ports", Arg: Optional, Since: 2405, PerComponent: true},
	{Name: "segment", Arg: Required, Since: 2405, PerComponent: true, Env: []string{"SBATCH_SEGMENT_SIZE"}, EnvSince: 2505},
	{Name: "signal", Arg: Required, Env: []string{"SBATCH_SIGNAL"}},
	{Name: "sockets-per-node", Arg: Required, PerComponent: true},
	{Name: "spread-job", PerComponent: true, Env: []string{"SBATCH_SPREAD_JOB"}},
	{Name: "spread-segments", Since: 2511, PerComponent: true, Env: []string{"SBATCH_SPREAD_SEGMENTS"}},
	{Name: "stepmgr", Since: 2405},
	{Name: "switches", Arg: Required, PerComponent: true},
	{Name: "test-only"},
	{Name: "thread-spec", Arg: Required, PerComponent: true, Env: []string{"SBATCH_THREAD_SPEC"}},
	{Name: "threads-per-core", Arg: Required, PerComponent: true, Env: []string{"SBATCH_THREADS_PER_CORE"}},
	{Name: "time", Short: 't', Arg: Required, Env: []string{"SBATCH_TIMELIMIT"}},
	{Name: "time-min", Arg: Required},
	{Name: "tmp", Arg: Required, PerComponent: true},
	{Name: "tres-bind", Arg: Required, Since: 2311, PerComponent: true, Env: []string{"SBATCH_TRES_BIND"}},
	{Name: "tres-per-task", Arg: Required, Since: 2302, PerComponent: true, Env: []string{"SBATCH_TRES_PER_TASK"}},
	{Name: "uid", Arg: Required},
	{Name: "usage", Early: true},
	{Name: "use-min-nodes", PerComponent: true, Env: []string{"SBATCH_USE_MIN_NODES"}},
	{Name: "verbose", Short: 'v', Early: true, Env: []string{"SBATCH_DEBUG"}},
	{Name: "version", Short: 'V', Early: true},
	{Name: "wait", Short: 'W', Env: []string{"SBATCH_WAIT"}},
	{Name: "wait-all-nodes", Arg: Required, Env: []string{"SBATCH_WAIT_ALL_NODES"}},
	{Name: "wckey", Arg: Required, Env: []string{"SBATCH_WCKEY"}},
	{Name: "wrap", Arg: Required, Early: true},
}

// Release is a release of Slurm as a number: 2205 is 22.05.
type Release int

// Releases are those that the option table knows, oldest first.
var Releases = []Release{2205, 2302, 2311, 2405, 2411, 2505, 2511, 2605}

// ParseRelease reads what sbatch --version prints: "slurm 23.02.6",
// "slurm-wlm 22.05.8".
func ParseRelease(version string) (Release, error) {
	fields := strings.Fields(version)
	if len(fields) > 0 {
		parts := strings.SplitN(fields[len(fields)-1], ".", 3)
		if len(parts) >= 2 && len(parts[0]) == 2 && len(parts[1]) == 2 {
			n, err := strconv.ParseUint(parts[0]+parts[1], 10, 16)
			if err == nil {
				return Release(n), nil
			}
		}
	}
	return 0, fmt.Errorf("no Slurm version in %q, want such as \"slurm 23.02.6\"", version)
}

func (r Release) String() string { return fmt.Sprintf("%02d.%02d", r/100, r%100) }

// in reports whether the release has the option. A release newer than the table
// has what the newest one has.
func (o *Option) in(r Release) bool {
	return r >= o.Since && !slices.Contains(o.Absent, min(r, Releases[len(Releases)-1]))
}
