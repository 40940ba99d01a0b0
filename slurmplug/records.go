package slurmplug

import "time"

// Job is one record of the queue as squeue prints it. Times that Slurm leaves
// unset are zero. An unsplit array is one record with Tasks set; when one task
// is left in it, the record is that task. Account, the TRES strings and Comment
// are text that users can choose freely: any bytes at all.
type Job struct {
	Unread    string // why the record cannot be read, with the text as it was; its names count all the same
	ID        JobID
	RawID     uint32 // Slurm's own id of this record
	Tasks     string // the tasks of an unsplit array without "%limit": "1-9,12"; else ""
	TaskCount int    // tasks this record stands for; 1 for all but unsplit arrays
	AtOnce    int    // tasks of its array that may run at a time (--array=...%N), where squeue shows it; 0: any number, or it does not
	HetID     uint32 // leader's id of a heterogeneous job, 0 otherwise
	HetOffset int    // component within the heterogeneous job

	// SLUID names this run of the job, and no later one, where Slurm has such names
	// (26.05): "s4C5M81FV4NT00". The tasks of a record share one.
	SLUID string

	UID                           uint32 // of the user
	User, Account, Partition, QOS string // Partition and, since 24.11, QOS may be a list: "a,b"; a User without a name is a number since 23.11
	Name                          string // the job's
	Reservation                   string
	State, Reason                 string // squeue's long state: PENDING, RUNNING, ...
	Dependency                    string // unmet dependencies, "" when none

	Priority uint32 // as squeue's PriorityLong
	Nice     int64
	Restarts int

	Nodes, CPUs int
	NumTasks    int    // tasks of the job in the sense of --ntasks, which is not Tasks
	Sockets     int    // sockets of each node as asked for, 0 when not
	Threads     int    // of each core as asked for, 0 when not: 1 takes whole cores
	MinCPUs     int    // of each node: --mincpus, or what its tasks there take
	MinMemMB    int64  // for each node, or each CPU where that times CPUs is what TRES says; 0: all of a node
	TRES        string // tres-alloc: the request while pending, the allocation after
	TresPerJob  string
	TresPerNode string
	TresPerSock string
	TresPerTask string
	CPUsPerTRES string // "gres:gpu:3"
	Features    string
	Prefer      string
	Interactive bool          // of srun or salloc
	Whole       bool          // it gets nodes for itself: --exclusive, and of some Slurms its partition
	SharedWith  string        // whose jobs alone may start on its nodes: USER, MCS or TOPO; "" for any
	Shares      bool          // it shares its resources with jobs that do so, too: --oversubscribe
	NodeList    string        // compact host list of a job that holds nodes
	TimeLimit   time.Duration // 0 when not set
	Submit      time.Time
	Eligible    time.Time
	Start       time.Time
	Comment     string
}

// Node is one node as scontrol show node -d prints it.
type Node struct {
	Name       string
	State      []string // base state first, flags after: ["IDLE", "DRAIN"]
	Reason     string
	Features   []string // active features
	Available  []string // features that it can be given, the active ones among them
	Partitions []string
	CPUs       int // effective CPUs (22.05 and later), else all
	CPUsAlloc  int
	SocketCPUs int   // of each socket
	Threads    int   // per core, at least 1: Slurm gives out whole cores
	RealMB     int64 // RealMemory
	MemMB      int64 // that jobs can have: RealMemory without MemSpecLimit
	MemAllocMB int64
	Gres       []Gres // configured
	GresUsed   []Gres // in use now
	Bound      bool   // GPUs, or another GRES, belong to sockets

	TmpMB     int64   // TmpDisk
	Load      float64 // CPULoad, a mean of five minutes of the whole machine; of a node with LoadKnown
	LoadKnown bool
	Owner     string // uid of the only user whose jobs may start there now (ExclusiveUser, --exclusive=user); "": any
	Weight    int    // Slurm takes nodes of the least weight first
	GPUCores  int    // cores for each GPU that jobs without GPUs do not get (RestrictedCoresPerGPU, 24.05)

	Unread string // why the record cannot be read, with the text as it was; at most its name counts
}

// Partition is one partition as scontrol show partition prints it.
type Partition struct {
	Name         string
	State        string
	Nodes        string // host list
	Default      bool
	PriorityTier int
	JobFactor    int      // PriorityJobFactor
	PreemptMode  string   // "OFF", "REQUEUE", ...
	Accounts     []string // AllowAccounts; nil: all
	NotAccounts  []string // DenyAccounts
	AllowsQOS    []string // AllowQos; nil: all
	NotQOS       []string // DenyQos
	Groups       []string // AllowGroups; nil: all
	MinNodes     int
	MaxNodes     int // 0: any number
	MaxTime      time.Duration
	DefaultTime  time.Duration
	QOS          string // of the partition itself, "" for none
	MaxNodeCPUs  int    // of one node that its jobs together may hold (MaxCPUsPerNode); 0: all
	DefNodeMem   int64  // MB of each node of a job that asks for none (DefMemPerNode); 0: none is set
	NodeLimit    string // another limit on which jobs start on one node: "MaxCPUsPerSocket", "ExclusiveUser"; "" for none
	SizeLimit    string // what bounds or rounds the CPUs or memory of its jobs, "MaxCPUsPerNode=8"; "" for nothing
	WholeNodes   string // the setting that gives its jobs whole nodes, "Exclusive=NODE"; "" for none
	LeastLoaded  bool   // jobs get the least loaded nodes (LLN=YES)
	Defaults     string // "DefCpuPerGPU=4,DefMemPerGPU=8192", "" for none
	Unread       string // why a time or tier cannot be read, with the text as it was; the rest counts
}

// Account is one account of a cluster.
type Account struct {
	Name, Parent string // Parent is "" for the root
	Share        int64  // fairshare among its siblings; 0 with UseParent
	UseParent    bool   // fairshare=parent
	Users        int    // associations of users in it
}

// Run is one row of sacct: one job, or one of its earlier runs. Name, Account
// and Comment are text that users can choose freely.
type Run struct {
	ID                       JobID
	RawID                    uint32
	User, Account, Partition string
	QOS, Name                string
	State                    string // first word: "CANCELLED by 1001" is CANCELLED
	ExitCode                 int
	Signal                   int
	Submit                   time.Time
	Eligible                 time.Time
	Start                    time.Time     // zero when the job never started
	End                      time.Time     // zero when it has not ended
	TimeLimit                time.Duration // 0 when it is the partition's
	AllocTRES, ReqTRES       string
	NodeList                 string
	Comment                  string // of a run that ended, with AccountingStoreFlags=job_comment

	Unread string // why the record cannot be read, with its text; then only ids count, as far as they are known
}

// Ended reports whether a state, as squeue and sacct print it, is one that a job does not leave by
// itself.
func Ended(state string) bool {
	switch state {
	case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT":
		return true
	}
	return false
}

// Usage is what one run of a job used, as its steps were measured.
type Usage struct {
	RawID      uint32
	Start      time.Time // of the run
	Nodes      int       // that it held, at least 1
	CPUSeconds float64   // of CPU time of all its processes; 0 when not measured
	NodeMB     int64     // the most memory that its processes used at one time on one node; 0 when not measured

	// GPUUse is the largest sample of the GPU use of its tasks, percent of one GPU: gres/gpuutil, which slurmd takes at
	// each poll where gres.conf has AutoDetect (gpu_nvml.c, common_jag.c). nil when not measured. A mean over time is not kept.
	GPUUse *float64
}

// Factors is a pending job's priority as sprio breaks it down. All weighted.
// A job in several partitions has one for each; this is its highest.
type Factors struct {
	RawID      uint32 `json:"raw_id"`
	Priority   int64  `json:"priority"`
	SiteFactor int64  `json:"site_factor"`
	Nice       int64  `json:"nice"`
	Age        int64  `json:"age"`
	Assoc      int64  `json:"association"`
	FairShare  int64  `json:"fair_share"`
	JobSize    int64  `json:"job_size"`
	Partition  int64  `json:"partition"`
	QOS        int64  `json:"qos"`
	TRES       int64  `json:"tres"` // sum over the TRES terms
	Unread     string `json:"-"`    // why the line cannot be read, with the text as it was; nothing else of it counts
}

// Diag is what sdiag says about the controller's load.
type Diag struct {
	AgentQueue    int // messages that wait for nodes and clients
	DBDAgentQueue int // messages that wait for slurmdbd
}

// Controller is one slurmctld as scontrol ping sees it.
type Controller struct {
	Role string // "primary", "backup", "backup1", ...
	Host string
	Up   bool
}

// Rights are what Slurm lets an account do.
type Rights struct {
	User  string
	Level AdminLevel
	Why   string // where that was read: "uid 0", "SlurmUser", "sacctmgr"
}

// AdminLevel is Slurm's AdminLevel. Operator may change SiteFactor and every
// job's priority; AdminComment needs Administrator.
type AdminLevel string

// Admin levels.
const (
	NoAdmin       AdminLevel = "None"
	Operator      AdminLevel = "Operator"
	Administrator AdminLevel = "Administrator"
)
