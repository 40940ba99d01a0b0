// Package cluster is the domain as plain data: jobs, nodes, GPU types, one
// Snapshot for each cycle, and the History that outlives snapshots. It reads
// no clock: below the cycle, Snapshot.At is the time.
package cluster

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// JobID names a job for its whole life.
type JobID = slurmplug.JobID

// State is what a job is doing, as far as a policy cares.
type State uint8

// Job states. Other covers states that no policy acts on.
const (
	Other State = iota
	Pending
	Running
	Suspended
	Completing
	Unread // its record cannot be read, see Snapshot.Unread: it is there, and no more is known
)

var stateNames = [...]string{"other", "pending", "running", "suspended", "completing", "unread"}

func (s State) String() string { return stateNames[s] }

// Class is a job's type in the sense of FitGpp (OpML'19).
type Class uint8

// Untagged jobs rank with BE but never consent to anything.
const (
	BE Class = iota
	TE
)

func (c Class) String() string {
	if c == TE {
		return "te"
	}
	return "be"
}

// MarshalText renders the class as String does.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (c *Class) UnmarshalText(text []byte) error {
	switch string(text) {
	case TE.String():
		*c = TE
	case BE.String():
		*c = BE
	default:
		return fmt.Errorf("class %.20q: want te or be", text)
	}
	return nil
}

// Job is one record of the queue. Times that are not set are zero. What most features look at
// stands first, close together: a cycle goes through a long queue many times.
type Job struct {
	ID    JobID
	RawID uint32
	State State
	// SiteFactorKnown is false for jobs that sprio does not list: not yet
	// eligible, requeued, held, running.
	SiteFactorKnown bool
	Dependency      bool      // waits for another job
	Elsewhere       bool      // Reason is of one of its partitions, which does not start it, and another one admits it
	Interactive     bool      // of srun or salloc: it cannot be requeued
	Whole           bool      // it gets nodes for itself, by --exclusive or its partition
	OneThread       bool      // of each core it takes one CPU and holds all: --hint=nomultithread, --threads-per-core=1
	AllMem          bool      // it gets all memory of each of its nodes: --mem=0
	MemByCPU        bool      // MemMB grows with the CPUs that Slurm adds to fill cores: --mem-per-cpu, DefMemPerCPU
	GPUs            int       // whole job, one task: that it holds, or that Slurm will give it
	Right           Right     // by the guaranteed shares of accounts: set by guarantee, in each cycle
	EntitledSince   time.Time // of one that waits: likewise
	RightTasks      int       // of a waiting array, how many tasks have Right; 0: all: likewise
	Idle            bool      // it holds GPUs and does not work, and leaves first where it agrees to leave: set by idle, in each cycle
	Admitted        bool      // it waits, and priod opens nodes for it that are kept for TE jobs: set by headroom, in each cycle
	Nodes, CPUs     int       // whole job
	SiteFactor      int64     // what Slurm holds now; see SiteFactorKnown
	Priority        int64     // what Slurm orders by now
	TaskCount       int       // tasks that the record stands for, at least 1
	AtOnce          int       // tasks of its array that may run at a time, of a job that waits; 0: any number, or it is not known
	ArrayRuns       int       // tasks of its array that run, of a job with AtOnce

	Reason    string // Slurm's reason code
	Partition string
	GPUType   string // the GRES type asked for, "" when left open
	Nice      int64
	HetLeader uint32 // leader of a heterogeneous job, 0 otherwise

	User, Account, QOS, Reservation string
	Name                            string // "" where not asked for
	SLUID                           string // names this run, where Slurm has such names and it means as many jobs as ID; else ""
	Tasks                           string // tasks of an unsplit array: "1-9,12"; else ""
	HetOffset                       int
	Restarts                        int

	MemMB    int64
	Node     Least  // of each node, of a job that waits
	TaskCPUs int    // CPUs that lie on one node together, of a job that waits; 0: any number
	Lifts    Lifts  // by its QOS, of a job that waits
	Gres     string // GRES beside GPUs of each of its nodes, "lscratch:60"
	Beyond   string // partitions in which it exceeds limits of QOS, of a job that waits: "v100,t4"
	Open     string // what it asks for that cannot be counted, so that it is not known where it fits: "shard"; "": nothing
	Features string
	Prefer   string
	NodeList string // nodes it holds, as a host list
	Parts    []Part // what it holds of each of several nodes, in NodeList's order; nil: not known

	TimeLimit time.Duration // slurmplug.Unlimited when there is none
	Submit    time.Time     // reset by a requeue
	Eligible  time.Time
	Start     time.Time

	Site *Site // what the site's rules add to its tag; nil: nothing

	Asked *slurmplug.Asked // how it asks for its size; nil where not read

	Switches  string // that it accepts, as a value of the lever; "" where not read
	NodeCount string // how many nodes it asks for, as a value of the lever NumNodes, or slurmplug.HiddenNodes; "" where not read

	Fragile string // what any write would do to its request on this Slurm, in words; "": nothing, it may be written to

	TagErr  string // why the comment's tag does not count; "" when it does or there is none
	Tag     jobtag.Tag
	TagText string // what Tag was parsed from; "" when the comment has no tag that counts
}

// Site is what the rules of a site add to what a job's tag says: see package consent.
type Site struct {
	Class                   string // name of the rule that made it TE or BE; ""
	Consent                 string // which jobs its consent is for, in words: "partition gpu"; "": none
	Evict                   bool
	Signal                  string // told to a victim that names none
	GPUType, Size, Switches bool
	AnyOf                   string // partitions in which steering may have it run beside its own, "a100,v100"
}

// writable reports whether what the job's comment says counts, and its request may be written to.
func (j *Job) writable() bool { return j.TagErr == "" && j.Fragile == "" }

// AllowsGPUType reports whether priod may choose the job's GPU type: its tag says how fast it is on several, or
// its site decides.
func (j *Job) AllowsGPUType() bool {
	return j.writable() && (j.Tag.AllowsSteering() || j.Site != nil && j.Site.GPUType)
}

// AllowsSize reports whether priod may change the job's CPUs and memory.
func (j *Job) AllowsSize() bool {
	return j.writable() && (len(j.Tag.CPU) > 0 || len(j.Tag.Mem) > 0 || j.Tag.Workload != "" || j.Site != nil && j.Site.Size)
}

// AllowsWaiting reports whether priod may keep the job waiting for few switches or other nodes: any tag says so,
// or its site does.
func (j *Job) AllowsWaiting() bool {
	return j.writable() && (j.TagText != "" && j.Tag.Type != jobtag.None || j.Site != nil && j.Site.Switches)
}

// Signal is what the job is told when it is to leave, "" for TERM.
func (j *Job) Signal() string {
	if j.Tag.Signal == "" && j.Site != nil {
		return j.Site.Signal
	}
	return j.Tag.Signal
}

// Least is what one node has to have for a job; 0: as far as is known, any will do.
type Least struct {
	GPUs, CPUs int
	MemMB      int64
	GPUCPUs    int  // CPUs of one socket that each of its GPUs needs, where GPUs belong to sockets; 0: of any
	BySocket   bool // with GPUCPUs: GPUs of a socket without free CPUs do not count
}

// Part is what a job holds of one node.
type Part struct {
	GPUs, CPUs int
	MemMB      int64
}

// TasksNow is how many of the record's tasks may run beside those of its array that run: all of them, unless
// sbatch --array=...%N limits them.
func (j *Job) TasksNow() int {
	tasks := max(j.TaskCount, 1)
	if j.AtOnce > 0 {
		tasks = min(tasks, max(j.AtOnce-j.ArrayRuns, 0))
	}
	return tasks
}

// FirstTask is the job, or of an unsplit array the task that starts next.
func (j *Job) FirstTask() JobID {
	if j.Tasks == "" {
		return j.ID
	}
	if first, err := slurmplug.FirstTasks(j.Tasks, 1); err == nil {
		if tasks, err := slurmplug.ExpandTasks(first); err == nil && len(tasks) == 1 {
			return JobID{ID: j.ID.ID, Task: tasks[0]}
		}
	}
	return j.ID
}

// Held reports whether a user or an administrator holds the job; priority 0 is
// how Slurm stores a hold.
func (j *Job) Held() bool {
	return j.State == Pending && (j.Priority == 0 || slurmplug.WaitsFor(j.Reason) == slurmplug.ForHold)
}

// soon is how long before it may run a job is planned for.
const soon = time.Minute

// Begins reports whether a pending job may run within a minute, but not yet: its
// user, or a requeue, gave it a begin time.
func (j *Job) Begins(at time.Time) bool {
	return j.State == Pending && slurmplug.WaitsFor(j.Reason) == slurmplug.ForTime && !j.Eligible.IsZero() && j.Eligible.Sub(at) <= soon
}

// WantsRoom reports whether room alone can end what Slurm says that a pending job waits
// for. For others Slurm keeps no place.
func (j *Job) WantsRoom() bool {
	w := slurmplug.WaitsFor(j.Reason)
	return w == slurmplug.ForRoom || w == slurmplug.Forever && j.InSeveral() || j.Elsewhere
}

// Unsatisfied reports whether Slurm says that no node satisfies what a job asks for. Of a job in several
// partitions it shows the reason of one, and another may satisfy it.
func (j *Job) Unsatisfied() bool {
	return slurmplug.WaitsFor(j.Reason) == slurmplug.Forever && !j.InSeveral()
}

// InSeveral reports whether the job may run in more than one partition: Slurm's reason is that of one of them.
func (j *Job) InSeveral() bool { return strings.Contains(j.Partition, ",") }

// epilog is how long a job that has ended may still hold its nodes, s.
const epilog = 5

// Remaining is how long a job that holds nodes may still hold them, s: to its time
// limit, +Inf without one.
func (j *Job) Remaining(at time.Time) float64 {
	switch {
	case j.State == Completing:
		return epilog
	case j.TimeLimit == slurmplug.Unlimited:
		return math.Inf(1)
	}
	return max(j.Start.Add(j.TimeLimit).Sub(at).Seconds(), 0)
}

// Request is what Slurm shows in the field of a lever on the job's request, as
// the lever would write it; false for a field that no poll reads.
func (j *Job) Request(l slurmplug.Lever) (v slurmplug.Value, shown bool) {
	switch {
	case j.State == Unread:
		return v, false
	case l == slurmplug.Features:
		return slurmplug.Text(j.Features), true
	case l == slurmplug.PartitionList:
		return slurmplug.Text(j.Partition), j.State == Pending // of a job that runs it is the one in which it does
	case l == slurmplug.Size:
		if j.Asked != nil {
			return j.Asked.Holds, true
		}
	case l == slurmplug.Switches:
		return slurmplug.Text(j.Switches), j.Switches != ""
	case l == slurmplug.StartTime:
		return slurmplug.BeginAt(j.Eligible), j.State == Pending && !j.Eligible.IsZero()
	case l == slurmplug.TimeLimit:
		return slurmplug.LimitOf(j.TimeLimit), j.TimeLimit != 0 && (j.State == Pending || j.State == Running)
	case l == slurmplug.NumNodes:
		return slurmplug.Text(j.NodeCount), j.NodeCount != "" && j.NodeCount != slurmplug.HiddenNodes
	}
	return v, false
}

// Node is one node.
type Node struct {
	Name       string
	Usable     bool   // not down, drained or reserved for maintenance
	Silent     bool   // not usable only because it does not answer now: it soon will, or goes down
	State      string // as Slurm says it: "IDLE+DRAIN"
	Features   []string
	Spare      []string // features that it has not now, and that Slurm can give it
	Partitions []string
	GPUType    string // GRES type, "" on a node without GPUs or with untyped ones
	GPUs       int
	GPUsUsed   int
	CPUs       int
	CPUsUsed   int
	Threads    int         // per core: Slurm gives out whole cores; 0 where not asked for
	Together   int         // CPUs that are given out together: those of a core, or a socket
	Socket     int         // CPUs of a socket, where GPUs belong to several; else 0
	TmpMB      int64       // for temporary files
	Gres       []GresCount // beside GPUs and parts of them
	Owned      bool        // only some jobs start on it now: of the user who runs there, or such as share like those that run there
	MemMB      int64
	MemUsedMB  int64
	MixedTypes bool      // more than one GPU type on this node
	Load       Load      // of its CPUs
	Parts      []GPUPart // of a node with several GPU types; nil of others, and where they could not be read
}

// In reports whether the node is in one of the partitions of a list ("a100,v100"), where a job with this list may run.
func (n *Node) In(partitions string) bool {
	for p := range strings.SplitSeq(partitions, ",") {
		if slices.Contains(n.Partitions, p) {
			return true
		}
	}
	return false
}

// Load is the load of a node's CPUs, as Slurm shows it: a mean of five minutes of the whole machine.
type Load struct {
	Known bool
	CPUs  float64 // that run or wait for the disk
}

// GresCount is one generic resource of a node.
type GresCount struct {
	Name        string
	Count, Used int64
}

// GPUPart is the GPUs of one type on a node that has several.
type GPUPart struct {
	Type        string // GRES type, "" for untyped ones
	Count, Used int
}

// HeadroomReservation is the name of the reservation of the nodes that priod keeps for TE jobs.
const HeadroomReservation = "priod_headroom"

var ownReservation = regexp.MustCompile(`^priod_([0-9]+_[0-9]+|headroom)$`)

// OwnReservation reports whether a reservation has a name that priod gives.
func OwnReservation(name string) bool { return ownReservation.MatchString(name) }

// StateHeadroom stands in the State of nodes that priod keeps for TE jobs, in place of Slurm's "+RESERVED".
const StateHeadroom = "+HEADROOM"

// Headroom reports whether priod keeps the node for TE jobs: no other job starts there.
func (n *Node) Headroom() bool { return strings.HasSuffix(n.State, StateHeadroom) }

// Reserved reports whether the node is in a reservation that has begun, of a maintenance too, or is kept for TE jobs.
func (n *Node) Reserved() bool {
	return n.Headroom() || strings.Contains(n.State, "RESERVED") || strings.Contains(n.State, "MAINT")
}

// Stranded is why free GPUs of a node in service can start no job; "" where they can, or none is free.
func (n *Node) Stranded() string {
	switch {
	case n.GPUs <= n.GPUsUsed, !n.Usable:
		return ""
	case n.CPUs > 0 && n.CPUsUsed >= n.CPUs:
		return "no CPU is free next to them"
	case n.MemMB > 0 && n.MemUsedMB >= n.MemMB:
		return "no memory is free next to them"
	}
	return ""
}

// Reserved reports whether the job is bound to a reservation of others than priod, whose own let no job in.
func (j *Job) Reserved() bool { return j.Reservation != "" && !OwnReservation(j.Reservation) }

// Alike tells of two nodes at a glance that they have GPUs of the same one type, if any, and the
// same features and partitions, and are both kept for TE jobs or not. What was found of one need not be worked out for the next.
func (n *Node) Alike(o *Node) bool {
	return n.GPUType == o.GPUType && !n.MixedTypes && !o.MixedTypes && n.Headroom() == o.Headroom() && (n.GPUs == 0) == (o.GPUs == 0) &&
		slices.Equal(n.Features, o.Features) && slices.Equal(n.Partitions, o.Partitions)
}

// UnreadRecord is a record of Slurm's with a field in a form that is not known.
type UnreadRecord struct {
	Kind string // UnreadNode, ..., or the table in which it stands
	Name string
	Why  string // with the text as it was
}

// Kinds of records that may not be read.
const (
	UnreadNode      = "node"
	UnreadJob       = "job"
	UnreadPartition = "partition"
	UnreadFactors   = "priority factors of job"
	UnreadParts     = "nodes of job" // what a running job holds of each of its nodes
)

// String is a sentence about the record.
func (u UnreadRecord) String() string { return fmt.Sprintf("%s %.40q: %s", u.Kind, u.Name, u.Why) }

// SeesNodes reports whether every node could be read.
func (s *Snapshot) SeesNodes() bool {
	return len(s.Nodes) > 0 && !slices.ContainsFunc(s.Unread, func(u UnreadRecord) bool { return u.Kind == UnreadNode })
}

// Topology is a cluster's tree of switches.
type Topology struct {
	Leaves  map[string]string // by node, the leaf switch of the node; nil: Slurm knows no tree
	MaxWait time.Duration     // longer, Slurm has no job wait for its switches; below 0: no limit
}

// Multifactor is what the snapshot knows about Slurm's own ranking.
type Multifactor struct {
	// Span is the largest difference that Slurm's own factors can make between
	// two jobs: the sum of the site's priority weights, and no less than what
	// this poll saw.
	Span int64
	// Seen is the difference that they make between the jobs in the queue now, Highest the most
	// that they add up to; they count where Polled.
	Seen, Highest int64
	Polled        bool
}

// Snapshot is the cluster as one poll saw it. Policies read it and nothing else.
type Snapshot struct {
	At          time.Time
	Cluster     string
	Jobs        []Job
	Nodes       []Node
	Partitions  []Partition // nil: not known
	Windows     []Window    // by their start; those that are over are left out
	Multifactor Multifactor
	MemShared   bool   // Slurm does not hand out memory: a job that names none, or much, leaves the others theirs
	Config      string // names slurm.conf and the partitions as they are: another name when they change

	// Unread are records that the poll could not read. Nodes are left out of Nodes, jobs stand
	// in Jobs by their names alone.
	Unread []UnreadRecord

	// Fresh says that Jobs stands in memory of its own, where no later snapshot is written.
	Fresh bool
}
