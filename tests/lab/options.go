package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Options say what cluster to build. The zero value is the default: 3 nodes
// with 4 a100 each, 3 with 4 v100, 2 with 4 t4 (16 CPUs and 64 GB each),
// partitions "gpu" and "interactive", accounting, te preempting be by requeue.
type Options struct {
	Dir           string            // folder to create and, at the end, to remove; "" picks one under the system's temporary folder
	Nodes         []NodeSpec        // nil for the default nodes
	Partitions    []string          // what follows PartitionName= in slurm.conf; nil for the default partitions
	PreemptMode   string            // REQUEUE (default), CANCEL, SUSPEND,GANG ...; OFF for no preemption
	MaxJobs       int               // MaxJobCount; 0 for 20000
	MaxArrayTasks int               // largest array index plus one (MaxArraySize); 0 for 20001
	ExtraConf     []string          // slurm.conf lines; KEY=VALUE replaces the lab's own line of that key
	ExtraFiles    map[string]string // further files beside slurm.conf, such as job_submit.lua: name to content
	GresConf      string            // gres.conf in place of the lab's own; /dev/gpuN stands for a file of the lab
	Sacctmgr      []string          // commands of sacctmgr after the lab's own
	NoAccounting  bool              // no MariaDB, no slurmdbd: no QOS, no sacct, no GRES in TRES
	RequeueDelay  int               // s from a requeue to the next start at the earliest, less one (cred_expire of AuthInfo); 0 for Slurm's 120
	Backup        bool              // a second slurmctld, as if on another host: see On; only root can

	// OnStartupPhase, if set, hears of each part of the start when it is done,
	// with the seconds since the beginning.
	OnStartupPhase func(phase string, seconds float64)

	pickPorts func(n int) (ports, error) // freePorts but in a test
}

// NodeSpec describes Count nodes that are alike.
type NodeSpec struct {
	Prefix   string   // nodes are called Prefix1, Prefix2, ...; "" makes it GPUType and a dash, "cpu-" without GPUs
	Count    int      // number of nodes
	GPUType  string   // GRES type, also the node feature; "" with GPUs > 0 makes untyped GPUs
	GPUs     int      // GPUs of each node
	Second   string   // another GRES type on the same nodes, with as many GPUs again; no feature stands for it
	CPUs     int      // CPUs of each node; 0 for 16
	MemoryMB int      // memory of each node, MB; 0 for 65536
	Gres     string   // Gres= in slurm.conf in place of what GPUs and types make; Options.GresConf then fits it
	Features []string // node features beyond the GPU type
	Extra    string   // appended to the NodeName line, such as "Weight=10"; with Sockets= the lab names none
}

// DefaultNodes returns the nodes of a lab that asked for none in particular.
func DefaultNodes() []NodeSpec {
	return []NodeSpec{
		{Count: 3, GPUType: "a100", GPUs: 4},
		{Count: 3, GPUType: "v100", GPUs: 4},
		{Count: 2, GPUType: "t4", GPUs: 4},
	}
}

// The accounts and users of a lab with accounting. All users belong to both
// accounts, Physics is their default. Jobs of other users than the one that
// started the lab need a lab started by root.
const (
	Physics = "physics"
	Biology = "biology"

	OperatorUser = "daemon" // AdminLevel=Operator, not SlurmUser
	PlainUser    = "man"    // no rights beyond its own jobs; "nobody" may submit none since 26.05
	OtherUser    = "games"  // a second one of those
)

var (
	word      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	gresType  = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9._/-]*$`)
	nodesItem = regexp.MustCompile(`^([0-9]+)x([A-Za-z][A-Za-z0-9_]*):([0-9]+)$`)
)

// ParseNodes reads the short form of the command line: "3xa100:4,2xcpu:0" is
// three nodes with four a100 each and two nodes without a GPU.
func ParseNodes(s string) ([]NodeSpec, error) {
	var specs []NodeSpec
	for _, item := range strings.Split(s, ",") {
		m := nodesItem.FindStringSubmatch(item)
		if m == nil {
			return nil, fmt.Errorf("nodes %q: %q is not COUNTxTYPE:GPUS, such as 3xa100:4", s, item)
		}
		count, err1 := strconv.Atoi(m[1])
		gpus, err2 := strconv.Atoi(m[3])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("nodes %q: %w", s, err)
		}
		spec := NodeSpec{Count: count, GPUType: m[2], GPUs: gpus}
		if gpus == 0 {
			spec = NodeSpec{Count: count, Prefix: m[2] + "-"}
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

const maxNodes = 10000

// longestDir is the length of the longest folder that leaves room for Slurm's
// longest socket name, /spool/NODE/NODE_JOBID.STEPID, in the 107 bytes that
// Linux allows.
func longestDir(nodes []string) int {
	node := 0
	for _, n := range nodes {
		node = max(node, len(n))
	}
	return 107 - len("/spool//_.") - 2*node - len("67108863") - len("4294967295")
}

// filled returns the options with every default written out, or says which
// value cannot work.
func (o Options) filled() (Options, error) {
	if o.Nodes == nil {
		o.Nodes = DefaultNodes()
	}
	if o.Partitions == nil {
		o.Partitions = []string{
			"gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
			"interactive Nodes=ALL MaxTime=INFINITE State=UP PriorityJobFactor=10",
		}
	}
	if o.PreemptMode == "" {
		o.PreemptMode = "REQUEUE"
	}
	if o.MaxJobs == 0 {
		o.MaxJobs = 20000
	}
	if o.MaxArrayTasks == 0 {
		o.MaxArrayTasks = 20001
	}
	if o.pickPorts == nil {
		o.pickPorts = freePorts
	}
	if o.Backup && os.Geteuid() != 0 {
		return o, errors.New("only root can run a backup controller: it needs a host name of its own")
	}
	for name := range o.ExtraFiles {
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return o, fmt.Errorf("extra file %q: want a plain file name, such as job_submit.lua", name)
		}
	}
	for _, line := range append(slices.Clone(o.ExtraConf), o.Partitions...) {
		if strings.ContainsAny(line, "\n\r") {
			return o, fmt.Errorf("slurm.conf line %q holds more than one line", line)
		}
	}
	total := 0
	seen := map[string]bool{}
	o.Nodes = append([]NodeSpec(nil), o.Nodes...)
	for i := range o.Nodes {
		n := &o.Nodes[i]
		if n.Prefix == "" && n.GPUType != "" {
			n.Prefix = n.GPUType + "-"
		} else if n.Prefix == "" {
			n.Prefix = "cpu-"
		}
		if n.CPUs == 0 {
			n.CPUs = 16
		}
		if n.MemoryMB == 0 {
			n.MemoryMB = 65536
		}
		switch {
		case !word.MatchString(n.Prefix):
			return o, fmt.Errorf("nodes %d: prefix %q: want letters, digits, _ and -, a letter first", i, n.Prefix)
		case len(n.Prefix) > 16:
			return o, fmt.Errorf("nodes %d: prefix %q is longer than 16 characters", i, n.Prefix)
		case seen[n.Prefix]:
			return o, fmt.Errorf("nodes %d: prefix %q is used twice; set Prefix", i, n.Prefix)
		case n.GPUType != "" && !gresType.MatchString(n.GPUType), n.Second != "" && (!gresType.MatchString(n.Second) || n.GPUType == ""):
			return o, fmt.Errorf("nodes %d: GPU types %q and %q: want letters, digits and _.+-, and no second without a first", i, n.GPUType, n.Second)
		case n.Count < 1 || n.GPUs < 0 || n.CPUs < 1 || n.MemoryMB < 1:
			return o, fmt.Errorf("nodes %d (%s): want at least one node, CPU and MB, and no negative number of GPUs; got %d nodes, %d CPUs, %d MB, %d GPUs",
				i, n.Prefix, n.Count, n.CPUs, n.MemoryMB, n.GPUs)
		}
		seen[n.Prefix] = true
		if n.Count > maxNodes-total {
			return o, fmt.Errorf("nodes %d (%s): more than %d nodes in all; each is a process with a port of its own", i, n.Prefix, maxNodes)
		}
		total += n.Count
	}
	if len(o.Nodes) == 0 || len(o.Partitions) == 0 {
		return o, errors.New("a lab needs at least one node and one partition")
	}
	return o, nil
}

// makeDir creates the lab's folder: dir, which must be new or empty, or a new
// one under the temporary folder. No longer than longest.
func makeDir(dir string, longest int) (string, error) {
	picked := dir == ""
	if picked {
		base := os.TempDir()
		if len(base) > longest-len("/lab-4294967295") {
			base = "/tmp"
		}
		var err error
		if dir, err = os.MkdirTemp(base, "lab-"); err != nil {
			return "", fmt.Errorf("lab folder: %w", err)
		}
	}
	if err := checkDir(dir, longest); err != nil {
		if picked {
			_ = os.Remove(dir)
		}
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("lab folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("lab folder: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("lab folder %s is not empty; name a new one (the lab removes its folder at the end)", dir)
	}
	return dir, nil
}

// checkDir refuses a folder that Slurm could not work in.
func checkDir(dir string, longest int) error {
	switch {
	case len(dir) > longest:
		return fmt.Errorf("lab folder %s: %d characters, so socket names under it would not fit; choose one of %d or less", dir, len(dir), longest)
	case !plainPath.MatchString(dir):
		return fmt.Errorf("lab folder %q: slurm.conf cannot hold this name; choose one of letters, digits and . _ - /", dir)
	}
	return nil
}
