package slurmplug

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Size is the lever on the CPUs and the memory that a pending job asks for, with
// the node that it shall get them on. Slurm gives a job the most that any of the
// fields says which mention CPUs (select/cons_tres/job_test.c), so a value is all
// the words of one scontrol update, a SizeRequest: "CPUsPerTask=9 MinCPUsNode=9
// NumCPUs=9 MinMemoryNode=64000 ReqNodeList=a1".
const Size Lever = "Size"

// sizeWords are what a value of Size may consist of.
var sizeWords = regexp.MustCompile(`^(?:(?:CPUsPerTask|MinCPUsNode|NumCPUs|MinMemoryNode|MinMemoryCPU)=[0-9]{1,18}` +
	`|(?:CpusPerTres|MemPerTres)=(?:gres[:/])?gpu:[0-9]{1,18}|TresPer(?:Job|Node|Task)=[A-Za-z0-9_.,:/+-]+|ReqNodeList=[A-Za-z0-9_.-]*)$`)

// validateSize refuses what would change more than a size.
func validateSize(value string) error {
	seen := map[string]bool{}
	for word := range strings.SplitSeq(value, " ") {
		key, _, _ := strings.Cut(word, "=")
		if !sizeWords.MatchString(word) || seen[key] {
			return fmt.Errorf("%s=%.80q: %.40q is no word of a size, or comes twice", Size, value, word)
		}
		seen[key] = true
	}
	return nil
}

// Memory is by what a job asks for memory.
type Memory uint8

// Ways to ask for memory.
const (
	ByNode Memory = iota + 1 // --mem
	ByCPU                    // --mem-per-cpu, DefMemPerCPU
	ByGPU                    // --mem-per-gpu, DefMemPerGPU
)

// Asked is how a pending job asks for CPUs and memory on its one node.
type Asked struct {
	GPUs  int
	CPUs  int    // that it gets as it stands
	MemMB int64  // likewise, all of it
	Least int    // CPUs that it cannot be brought below
	Nodes string // that it has to run on, as a host list; "" for any
	// Fixed says why the size cannot be changed; "" when it can.
	Fixed string
	// KeepsCPUs and KeepsMemory say why only the other of the two can be changed.
	KeepsCPUs, KeepsMemory string
	// Allowances are what limits leave: of those for several jobs beside what they hold,
	// which is without a job that waits, such as this one.
	Allowances []*Allowance
	// Holds is the value of Size that the job has: writing it again after another
	// one undoes that.
	Holds Value

	tasks, perTask, node int   // --ntasks, CPUs for each, MinCPUsNode
	cpus                 int   // NumCPUs
	perGPU               int   // CPUs for each GPU, 0: the job does not count so
	memory               int64 // MB by what memory says
	by                   Memory
	hidden               bool   // Slurm does not show what memory the job asks for
	gpus                 string // word that asks for the GPUs
	prefix               string // of a request in this Slurm: "gres:" up to 23.02, then "gres/"
	follows              bool   // NumCPUs follows CpusPerTres (24.05 and later)
}

// Asked reads how a job that is pending asks for its size; nil when it is not
// pending any more. The task of an array that has no record of its own asks as
// its array does. The record is the queue's, of the job or of the array that holds
// the task; nodeMB are the memory of the nodes, each amount once.
func (c *Client) Asked(ctx context.Context, conf Config, job JobID, record *Job, nodeMB ...int64) (*Asked, error) {
	a, err := shownOf(ctx, c, job, record, func(record *Job, out string) (*Asked, error) { return ParseAsked(conf, record, out, nodeMB...) })
	if errors.Is(err, ErrNoJob) {
		return nil, nil
	}
	return a, err
}

// of takes in which Slurm it is: up to 23.11 a change of CpusPerTres can be written
// and does nothing (seen on 22.05), so such a job can get more CPUs and not fewer.
func (a *Asked) of(conf Config) {
	a.follows = conf.AtLeast(24, 5)
	a.Holds = a.size().Value()
	if a.perGPU > 0 && !a.follows {
		a.Least = max(a.Least, a.perGPU*a.GPUs)
	}
}

// ParseAsked reads what scontrol shows of one job, beside its record in the queue; nil of one that is not pending.
func ParseAsked(conf Config, record *Job, out string, nodeMB ...int64) (*Asked, error) {
	words, err := askedWords(record, out)
	if err != nil || words["JobState"] != "PENDING" {
		return nil, err
	}
	a := &Asked{}
	if err = a.read(conf, record, words, nodeMB); err != nil {
		return nil, err
	}
	if a.Fixed, err = a.fixed(words); err != nil {
		return nil, err
	}
	a.of(conf)
	return a, nil
}

func (a *Asked) read(conf Config, record *Job, words map[string]string, nodeMB []int64) error {
	for _, field := range []struct {
		key  string
		into *int
	}{{"NumTasks", &a.tasks}, {"CPUs/Task", &a.perTask}, {"MinCPUsNode", &a.node}, {"NumCPUs", &a.cpus}} {
		text := words[field.key]
		n, err := parseUint(text, math.MaxInt32)
		if err != nil && text != "N/A" {
			return fmt.Errorf("%s=%.40q is no number", field.key, text)
		}
		*field.into = int(n)
	}
	if !isUnset(words["ReqNodeList"]) {
		a.Nodes = words["ReqNodeList"]
	}
	if err := a.readGPUs(record); err != nil {
		return err
	}
	perGPU, err := perGPU(words["CpusPerTres"])
	if err != nil {
		return fmt.Errorf("CpusPerTres: %w", err)
	}
	a.perGPU, a.Least = perGPU, max(a.tasks, 1)
	a.CPUs = max(a.cpus, a.node, a.perGPU*a.GPUs)
	// The environment of the job's script says what its user asked for by GPU, whatever is
	// written later, and srun asks for that again: it fails, waits for ever, or leaves the
	// rest (22.05.8, 24.11.5 and 26.05.5). A default of the partition is in no environment.
	if a.perGPU > 0 && strings.HasPrefix(words["CpusPerTres"], "gres") {
		a.KeepsCPUs = "requests CPUs by GPU (--cpus-per-gpu), which its script's environment keeps, and srun asks for those"
	}
	if isByTask(record.TresPerTask, "cpu") {
		a.KeepsCPUs = "requests CPUs by --tres-per-task"
	}
	return a.readMemory(conf, words, nodeMB)
}

// readGPUs reads the GPUs from the job's record in the queue.
func (a *Asked) readGPUs(record *Job) error {
	asks := Job{Nodes: 1, NumTasks: a.tasks, TresPerJob: record.TresPerJob, TresPerNode: record.TresPerNode, TresPerTask: record.TresPerTask}
	for _, list := range []struct{ key, value string }{{"TresPerJob", asks.TresPerJob}, {"TresPerNode", asks.TresPerNode}, {"TresPerTask", asks.TresPerTask}} {
		all, err := requestedGres(list.value)
		if err != nil {
			return fmt.Errorf("%s: %w", list.key, err)
		}
		if n, _ := countGPUs(all); n > 0 {
			a.gpus = list.key + "=" + list.value
		}
	}
	a.prefix = "gres/"
	if strings.Contains(a.gpus, "gres:") {
		a.prefix = "gres:"
	}
	_, a.GPUs, _ = asks.requestedGPUs()
	return nil
}

const keptByGPU = "requests memory by GPU (--mem-per-gpu), which its script's environment keeps, and srun asks for that"

// readMemory reads by what the job asks for memory. Where a partition's default by
// GPU stands beside the user's own --mem or --mem-per-cpu the latter counts; 22.05
// shows both, 24.11 and 26.05 only MinMemoryTRES=, and in ReqTRES= what the job gets
// (24.11.5 of a job that asks for none what other defaults would give, or all memory
// of a node). Where that is
// the user's own a write of MemPerTres= does nothing, and what is asked for by CPU goes
// down with the CPUs: so these do not.
// Beside --mem=0 it may look as if there were nothing else: such a job is taken for
// one by GPU.
func (a *Asked) readMemory(conf Config, words map[string]string, nodeMB []int64) error {
	memPerGPU, err := perGPU64(words["MemPerTres"])
	if err != nil {
		return fmt.Errorf("MemPerTres: %w", err)
	}
	users := strings.HasPrefix(words["MemPerTres"], "gres")
	kind, text := "", ""
	for _, key := range []string{"MinMemoryNode", "MinMemoryCPU", "MinMemoryTRES"} {
		if value, ok := words[key]; ok {
			kind, text = key, value
		}
	}
	if a.memory, err = ParseMemory(text); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	byGPU := memPerGPU * int64(a.GPUs)
	switch {
	case kind == "MinMemoryTRES" && memPerGPU == 0:
		return fmt.Errorf("%s=%.40q without MemPerTres= by GPU", kind, text)
	case kind == "MinMemoryTRES" && !users:
		all, err := memoryOf(words["ReqTRES"])
		if err != nil {
			return err
		}
		a.by, a.memory, a.MemMB = ByGPU, memPerGPU, byGPU
		perCPU, perNode := conf.DefaultMemory()
		other := perCPU > 0 && all == perCPU*int64(a.cpus) || perNode > 0 && all == perNode ||
			perCPU == 0 && perNode == 0 && slices.Contains(nodeMB, all)
		if a.hidden = all != byGPU && !other; a.hidden {
			a.MemMB = all
		}
		if all%int64(max(a.cpus, 1)) == 0 { // it may be the user's --mem-per-cpu, by chance
			a.Least = max(a.Least, a.CPUs)
		}
	case memPerGPU > 0 && (users || a.memory == 0):
		a.by, a.memory, a.MemMB = ByGPU, memPerGPU, byGPU
		if users {
			a.KeepsMemory = keptByGPU
		}
	case kind == "MinMemoryNode":
		a.by, a.MemMB = ByNode, a.memory
	default:
		a.by, a.MemMB = ByCPU, a.memory*int64(a.CPUs)
	}
	return nil
}

// memoryOf is the memory of a list of TRES, which may be cut off in the name of a licence that has a blank.
func memoryOf(tres string) (int64, error) {
	for item := range strings.SplitSeq(tres, ",") {
		if amount, is := strings.CutPrefix(item, "mem="); is {
			mb, err := ParseMemory(amount)
			if err != nil {
				return 0, fmt.Errorf("ReqTRES: %w", err)
			}
			return mb, nil
		}
	}
	return 0, nil
}

func perGPU(s string) (int, error) {
	n, err := perGPU64(s)
	if n > math.MaxInt16 {
		return 0, fmt.Errorf("%d is out of range", n)
	}
	return int(n), err
}

// perGPU64 reads "gres:gpu:4", "gres/gpu:4" or, for a default, "gpu:4"; 0 for none.
func perGPU64(s string) (int64, error) {
	if isUnset(s) {
		return 0, nil
	}
	all, err := ParseGres(s)
	if err != nil {
		return 0, err
	}
	if len(all) != 1 || all[0].Name != "gpu" || all[0].Type != "" || all[0].Count > math.MaxInt32 {
		return 0, fmt.Errorf("%.40q is not by GPU", s)
	}
	return all[0].Count, nil
}

// alone says how a job wants its node to itself, or shares it; "" when it is an
// ordinary one. 26.05 shows OverSubscribe=NO of all jobs, and the rest as Exclusive=.
func alone(words map[string]string) (string, error) {
	share := words["OverSubscribe"]
	exclusive, split := words["Exclusive"]
	known := map[string]bool{"OK": true, "NO": true, "YES": true, "USER": true, "MCS": true, "TOPO": true, "NODE": true}
	switch {
	case !known[share]:
		return "", fmt.Errorf("OverSubscribe=%.40q is no form that priod knows", share)
	case split && !known[exclusive]:
		return "", fmt.Errorf("Exclusive=%.40q is no form that priod knows", exclusive)
	case split && exclusive != "NO":
		return "Exclusive=" + exclusive, nil
	case share == "OK", split && share == "NO":
		return "", nil
	}
	return "OverSubscribe=" + share, nil
}

// fixed says why a job is left as it is.
func (a *Asked) fixed(words map[string]string) (string, error) {
	alone, err := alone(words)
	if err != nil {
		return "", err
	}
	nodes := words["NumNodes"]
	least, _, _ := strings.Cut(nodes, "-")
	if _, err := parseUint(least, math.MaxInt32); err != nil {
		return "", fmt.Errorf("NumNodes=%.40q is no number", nodes)
	}
	_, het := words["HetJobId"]
	_, cron := words["CronJob"]
	_, perTRES := words["NtasksPerTRES"]
	_, perSocket := words["TresPerSocket"]
	byGPU := a.by == ByGPU || a.perGPU > 0
	switch {
	case het:
		return "is part of a heterogeneous job", nil
	case cron:
		return "comes from scrontab: Slurm refuses every change of it", nil
	case alone != "":
		return "requests its node alone, or to share it (" + alone + ")", nil
	case a.tasks > 1 && least == "1" && nodes != "1-1":
		return fmt.Sprintf("requests %d tasks without --nodes=1: they may spread over nodes", a.tasks), nil
	case nodes != "1-1" && nodes != "1":
		return "requests several nodes (NumNodes=" + nodes + ")", nil
	case !isUnset(words["ExcNodeList"]):
		return "excludes nodes", nil
	case perTRES, perSocket:
		return "requests tasks by GPU, or GPUs by socket", nil
	case a.GPUs == 0:
		return "requests no GPU", nil
	case a.tasks < 1, a.perTask < 1, a.node < 1:
		return "Slurm does not say its tasks or CPUs", nil
	case byGPU && !sizeWords.MatchString(a.gpus):
		return "requests more than GPUs by TRES, and counts CPUs or memory by GPU", nil
	case words["ReqB:S:C:T"] != "0:0:*:*" || words["Socks/Node"] != "*" || words["CoreSpec"] != "*",
		!strings.HasSuffix(words["NtasksPerN:B:S:C"], ":0:*:*"):
		return "requests sockets, cores or threads", nil
	case a.perGPU == 0 && a.cpus != a.tasks*a.perTask:
		return "requests other CPUs than its tasks need (--overcommit?)", nil
	case a.perGPU == 0 && a.node != a.perTask && a.node != a.tasks*a.perTask:
		return "requests --mincpus", nil
	case a.perGPU > 0 && a.perTask > 1:
		return "requests CPUs by task and by GPU", nil
	case a.memory == 0 && a.by == ByNode:
		return "requests all memory of its node (--mem=0)", nil
	case a.memory == 0:
		return "requests no memory, and no default gives it any (DefMemPerGPU)", nil
	case a.hidden:
		return "requests memory in a way that a default by GPU hides (MinMemoryTRES)", nil
	case a.by == ByCPU && words["MemPerTres"] != "":
		return "requests memory by CPU where a default gives it by GPU", nil
	}
	return "", nil
}

// Unit is what the job's CPUs come in multiples of.
func (a *Asked) Unit() int {
	switch {
	case a.perGPU > 0 && a.follows:
		return max(a.GPUs, 1)
	case a.perGPU > 0:
		return 1
	}
	return max(a.tasks, 1)
}

// Resize is the value of Size by which the job gets so many CPUs and so much
// memory, asked for in its own way, on the node named; "" names none. In units of
// that way the job may get fewer CPUs than said, and a few MB more of memory: what
// it really gets is returned. A job is never brought below Least.
func (a *Asked) Resize(cpus int, memMB int64, node string) (value Value, gets int, getsMB int64) {
	b := *a
	b.Nodes = node
	cpus = max(cpus, a.Least)
	gpus := max(a.GPUs, 1)
	switch {
	case a.KeepsCPUs != "":
	case a.perGPU > 0 && a.follows:
		b.perGPU = max(cpus/a.Unit(), 1)
		b.CPUs = b.perGPU * gpus
	case a.perGPU > 0:
		b.CPUs = cpus
		b.node, b.cpus = b.CPUs, b.CPUs
	default:
		b.perTask = max(cpus/a.Unit(), 1)
		b.CPUs = b.perTask * a.tasks
		b.cpus = b.CPUs
		if b.node = b.perTask; a.node != a.perTask {
			b.node = b.CPUs
		}
	}
	up := func(n int64) int64 { return max((memMB+n-1)/n, 1) }
	switch {
	case a.KeepsMemory != "":
	case a.by == ByNode:
		b.memory = up(1)
		b.MemMB = b.memory
	case a.by == ByCPU:
		b.memory = up(int64(b.CPUs))
		b.MemMB = b.memory * int64(b.CPUs)
	default:
		b.memory = up(int64(gpus))
		b.MemMB = b.memory * int64(gpus)
	}
	return b.size().Value(), b.CPUs, b.MemMB
}

// Of is the job as it is with a value of Size that Holds or Resize gave for it.
func (a *Asked) Of(value Value) Asked {
	b, s := *a, value.Size()
	b.Holds, b.Nodes = value, s.Nodes
	for _, said := range []struct {
		into  *int
		value int
	}{{&b.perTask, s.PerTask}, {&b.node, s.PerNode}, {&b.cpus, s.CPUs}, {&b.perGPU, s.PerGPU}} {
		if said.value > 0 {
			*said.into = said.value
		}
	}
	switch {
	case a.perGPU == 0 || !a.follows:
		b.CPUs = max(b.cpus, b.node, b.perGPU*b.GPUs)
	case b.perGPU != a.perGPU: // NumCPUs follows
		b.CPUs = b.perGPU * b.GPUs
	}
	if s.By > 0 {
		b.memory = s.Memory
	}
	switch s.By {
	case ByNode:
		b.MemMB = s.Memory
	case ByCPU:
		b.MemMB = s.Memory * int64(b.CPUs)
	case ByGPU:
		b.MemMB = s.Memory * int64(a.GPUs)
	}
	return b
}

// size is what the job asks for, as it would be written. The memory stands there even
// when only CPUs change: Slurm recomputes the job's TRES only then (22.05), and the
// GPUs beside what counts by them, because the update would else find none.
func (a *Asked) size() SizeRequest {
	s := SizeRequest{Nodes: a.Nodes}
	switch {
	case a.perGPU > 0 && a.follows:
		s.PerGPU = a.perGPU
	case a.perGPU > 0:
		s.PerNode, s.CPUs = a.node, a.cpus
	default:
		s.PerTask, s.PerNode, s.CPUs = a.perTask, a.node, a.cpus
	}
	if !a.hidden {
		s.Memory, s.By = a.memory, a.by
	}
	if a.by == ByGPU || s.PerGPU > 0 {
		s.GPUs = a.gpus
	}
	if s.By == ByGPU || s.PerGPU > 0 {
		s.prefix = a.prefix
	}
	return s
}

// AskedBy is how a job asks that says no more than -c, --mem and, unless node is
// "", -w: what a simulated job can say.
func AskedBy(gpus, cpus int, memMB int64, node string) *Asked {
	a := &Asked{
		GPUs: gpus, CPUs: cpus, MemMB: memMB, Least: 1, Nodes: node,
		tasks: 1, perTask: cpus, node: cpus, cpus: cpus, memory: memMB, by: ByNode,
		gpus: fmt.Sprintf("TresPerNode=gres:gpu:%d", gpus), prefix: "gres:",
	}
	a.Holds = a.size().Value()
	return a
}
