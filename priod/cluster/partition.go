package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/slurmplug"
)

// Partition is which jobs a partition starts, and what it lets them have of a node.
type Partition struct {
	Name        string
	Closed      string // its state, where it starts no job: "DOWN", "INACTIVE"; else ""
	Draining    bool   // it takes no job that is not in it
	NodeCPUs    int    // all of its jobs together, of each node (MaxCPUsPerNode); 0: all
	NodeMemMB   int64  // the memory of each node of a job that asks for none (DefMemPerNode); 0: none is set
	Open        string // a limit that cannot be counted: "MaxCPUsPerSocket"; "": none
	Tier        int    // Slurm looks at jobs of a higher one first (PriorityTier)
	JobFactor   int    // PriorityJobFactor, which counts beside the largest one
	Preemptable bool   // PreemptMode is not OFF
	MaxTime     time.Duration
	DefaultTime time.Duration // of a job without a limit, of which Slurm shows MaxTime while it waits; 0: MaxTime
	MinNodes    int
	MaxNodes    int      // 0: any number
	Accounts    []string // that it admits alone; nil: all
	NotAccounts []string
	QOS         []string // that it admits alone; nil: all
	NotQOS      []string
	Groups      bool // it admits some groups of users alone

	OwnQOS string // whose limits are its; "": none. Jobs beyond them have Job.Beyond
}

// Lifts are limits of partitions that the QOS of a job lifts from it.
type Lifts struct{ MaxTime, MaxNodes, MinNodes bool }

// NewPartition is a partition as policies see it.
func NewPartition(p *slurmplug.Partition) Partition {
	o := Partition{
		Name: p.Name, Draining: strings.HasPrefix(p.State, "DRAIN"), NodeCPUs: p.MaxNodeCPUs, NodeMemMB: p.DefNodeMem, Open: p.NodeLimit, Tier: p.PriorityTier, JobFactor: p.JobFactor,
		Preemptable: p.PreemptMode != "" && p.PreemptMode != "OFF", MaxTime: p.MaxTime, DefaultTime: p.DefaultTime, MinNodes: p.MinNodes, MaxNodes: p.MaxNodes,
		Accounts: p.Accounts, NotAccounts: p.NotAccounts, QOS: p.AllowsQOS, NotQOS: p.NotQOS, Groups: p.Groups != nil, OwnQOS: p.QOS,
	}
	if o.Closed = p.State; p.State == "UP" || o.Draining {
		o.Closed = ""
	}
	return o
}

// Starts says why the partition starts no job of this size and time limit; "" when it does.
func (p *Partition) Starts(j *Job) string {
	switch {
	case p.Closed != "":
		return "it is " + p.Closed
	case !j.Lifts.MaxTime && p.MaxTime != slurmplug.Unlimited && p.MaxTime > 0 && (j.TimeLimit == slurmplug.Unlimited || j.TimeLimit > p.MaxTime):
		return fmt.Sprintf("its MaxTime is %s", slurmplug.FormatTimeLimit(p.MaxTime))
	case !j.Lifts.MaxNodes && p.MaxNodes > 0 && j.Nodes > p.MaxNodes:
		return fmt.Sprintf("its MaxNodes is %d", p.MaxNodes)
	}
	return ""
}

// Admits says why the partition may not start a job that is bound to it alone; "" when it does.
func (p *Partition) Admits(j *Job) string {
	switch why := p.Starts(j); {
	case why != "":
		return why
	case p.Draining:
		return "it is DRAIN"
	case !j.Lifts.MinNodes && j.Nodes < p.MinNodes:
		return fmt.Sprintf("its MinNodes is %d", p.MinNodes)
	case p.Groups:
		return "it admits some groups alone"
	}
	return p.denies(j)
}

// denies says which account or QOS of a job the partition does not admit, or that the job exceeds limits there; "" for neither.
func (p *Partition) denies(j *Job) string {
	denied := func(who string) string { return fmt.Sprintf("it does not admit %.80s", who) }
	switch {
	case p.Accounts != nil && !slices.Contains(p.Accounts, j.Account), slices.Contains(p.NotAccounts, j.Account):
		return denied("account " + j.Account)
	case j.Beyond != "" && slices.Contains(PartitionNames(j.Beyond), p.Name):
		return "its QOS allows less"
	}
	for qos := range slurmplug.EachQOS(j.QOS) {
		if p.QOS != nil && !slices.Contains(p.QOS, qos) || slices.Contains(p.NotQOS, qos) {
			return denied("QOS " + qos)
		}
	}
	return ""
}

// Partitions are those of a snapshot by name.
type Partitions map[string]*Partition

// PartitionsByName are those of the snapshot.
func (s *Snapshot) PartitionsByName() Partitions {
	all := make(Partitions, len(s.Partitions))
	for i := range s.Partitions {
		all[s.Partitions[i].Name] = &s.Partitions[i]
	}
	return all
}

// Starting are those of a list that start a job of this size, time limit, account and QOS, in its order. Where none does,
// all: Slurm's reason says so. What is known without an account counts in all that are open to some.
func (all Partitions) Starting(list string, j *Job) string {
	refuses := func(name string) bool {
		p := all[name]
		return p != nil && (p.Starts(j) != "" || j.Account != "" && p.denies(j) != "")
	}
	for name := range strings.SplitSeq(list, ",") {
		if refuses(name) {
			if left := slices.DeleteFunc(PartitionNames(list), refuses); len(left) > 0 {
				return strings.Join(left, ",")
			}
			break
		}
	}
	return list
}

// MostNodes is on how many nodes a job may lie in some of its partitions; 0: on any number.
func (all Partitions) MostNodes(list string, j *Job) (most int) {
	for name := range strings.SplitSeq(list, ",") {
		p := all[name]
		if p == nil || p.MaxNodes == 0 || j.Lifts.MaxNodes {
			return 0
		}
		most = max(most, p.MaxNodes)
	}
	return most
}

// Union is a list of partitions, and what another has beyond it.
func Union(own, other string) string {
	names := PartitionNames(own)
	for name := range strings.SplitSeq(other, ",") {
		if !slices.Contains(names, name) {
			own += "," + name
		}
	}
	return own
}

// Elsewhere reports whether one of a job's partitions does not start it, by Slurm's reason, and another one admits it: Slurm
// looks at one after the other, and the reason is that of the last.
func (all Partitions) Elsewhere(j *Job) bool {
	if !j.InSeveral() || !ofPartition(j.Reason) && !(j.Beyond != "" && strings.HasPrefix(j.Reason, "QOS")) {
		return false
	}
	return slices.ContainsFunc(PartitionNames(j.Partition), func(name string) bool { p := all[name]; return p != nil && p.Admits(j) == "" })
}

// ofPartition reports whether a reason is what one partition lacks or refuses: PartitionConfig, PartitionDown,
// PartitionInactive, PartitionNodeLimit, PartitionTimeLimit, or in Slurm's text its account, QOS or user's group.
func ofPartition(reason string) bool {
	return strings.HasPrefix(reason, "Partition") || reason == "AccountNotAllowed" || reason == "QOSNotAllowed" ||
		strings.Contains(strings.ReplaceAll(reason, "_", " "), "permitted to use this partition")
}

// PartitionNames are those of a job's list, in its order.
func PartitionNames(list string) []string { return strings.Split(list, ",") }

// PartitionSet is a list of partitions without the order in which its user wrote it: of "v100,a100" and "a100,v100" the latter.
func PartitionSet(list string) string {
	if !strings.Contains(list, ",") {
		return list
	}
	names := PartitionNames(list)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}
