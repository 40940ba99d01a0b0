package slurmplug

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Size is the lever on the CPUs and the memory that a pending job asks for, with
// the node that it shall get them on. Slurm gives a job the most that any of the
// fields says which mention CPUs (select/cons_tres/job_test.c), so a value is all
// the words of one scontrol update, as Asked has them: "CPUsPerTask=9
// MinCPUsNode=9 NumCPUs=9 MinMemoryNode=64000 ReqNodeList=a1".
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
	ByNode Memory = iota // --mem
	ByCPU                // --mem-per-cpu, DefMemPerCPU
	ByGPU                // --mem-per-gpu, DefMemPerGPU
)

// Asked is how a pending job asks for CPUs and memory on its one node.
type Asked struct {
	GPUs  int
	CPUs  int    // that it gets as it stands
	MemMB int64  // likewise, all of it
	Least int    // CPUs that it cannot be brought below
	Nodes string // that it has to run on, as a host list; "" for any
	UID   string // of its user; "" when Slurm did not say
	// Fixed says why the size cannot be changed; "" when it can.
	Fixed string
	// Allowances are what limits leave: of those for several jobs beside what they hold,
	// which is without a job that waits, such as this one.
	Allowances []*Allowance
	// Text is the value of Size that the job holds: writing it again after another
	// one undoes that.
	Text string

	tasks, perTask, node int   // --ntasks, CPUs for each, MinCPUsNode
	cpus                 int   // NumCPUs
	perGPU               int   // CPUs for each GPU, 0: the job does not count so
	memory               int64 // MB by what memory says
	by                   Memory
	gpus                 string // word that asks for the GPUs
	prefix               string // of a request in this Slurm: "gres:" up to 23.02, then "gres/"
	follows              bool   // NumCPUs follows CpusPerTres (24.05 and later)
}

// Asked reads how a job that is pending asks for its size; false when it is not
// pending any more. The task of an array that has no record of its own asks as
// its array does.
func (c *Client) Asked(ctx context.Context, conf Config, job JobID) (a Asked, pending bool, err error) {
	out, err := c.readLines(ctx, "scontrol", "--oneliner", "show", "job", job.String())
	if err != nil {
		if strings.Contains(err.Error(), "Invalid job id specified") {
			return a, false, nil
		}
		return a, false, err
	}
	if a, pending, err = ParseAsked(conf, string(out)); err != nil {
		return a, false, doubtful("scontrol show job", "job %s: %w", job, err)
	}
	return a, pending, nil
}

// of takes in which Slurm it is: up to 23.11 a change of CpusPerTres can be written
// and does nothing (seen on 22.05), so such a job can get more CPUs and not fewer.
func (a *Asked) of(conf Config) {
	a.follows = conf.AtLeast(24, 5)
	a.Text = a.text()
	if a.perGPU > 0 && !a.follows {
		a.Least = max(a.Least, a.perGPU*a.GPUs)
	}
}

// askedKeys are the words that count, and whether a job may be without one.
var askedKeys = map[string]bool{
	"JobState": false, "NumNodes": false, "NumCPUs": false, "NumTasks": false, "CPUs/Task": false, "ReqB:S:C:T": false,
	"Socks/Node": false, "NtasksPerN:B:S:C": false, "CoreSpec": false, "MinCPUsNode": false, "OverSubscribe": false,
	"ReqNodeList": false, "ExcNodeList": false,
	"MinMemoryNode": true, "MinMemoryCPU": true, "CpusPerTres": true, "MemPerTres": true, "TresPerJob": true, "TresPerNode": true,
	"TresPerSocket": true, "TresPerTask": true, "NtasksPerTRES": true, "HetJobId": true, "CronJob": true, "UserId": true,
}

// ParseAsked reads the words KEY=VALUE that scontrol shows of one job. The job's
// name and comment are among them: what stands there twice is believed in neither
// place.
func ParseAsked(conf Config, out string) (a Asked, pending bool, err error) {
	words := map[string]string{}
	for word := range strings.FieldsSeq(out) {
		key, value, ok := strings.Cut(word, "=")
		if _, counts := askedKeys[key]; !ok || !counts {
			continue
		}
		if _, twice := words[key]; twice {
			return a, false, fmt.Errorf("%s= comes twice: a name or comment of the job says it too", key)
		}
		words[key] = value
	}
	for key, optional := range askedKeys {
		if _, known := words[key]; !known && !optional {
			return a, false, fmt.Errorf("%s= is missing", key)
		}
	}
	if words["JobState"] != "PENDING" {
		return a, false, nil
	}
	if err = a.read(words); err != nil {
		return Asked{}, false, err
	}
	a.Fixed = a.fixed(words)
	a.of(conf)
	return a, true, nil
}

func (a *Asked) read(words map[string]string) error {
	if user, closed := strings.CutSuffix(words["UserId"], ")"); closed { // "games(5)"
		uid := user[strings.LastIndexByte(user, '(')+1:]
		if _, ok := decimal(uid, math.MaxUint32-2); ok && len(uid) < len(user) {
			a.UID = uid
		}
	}
	number := func(key string) int {
		n, _ := parseUint(words[key], math.MaxInt32) // what is no number is fixed
		return int(n)
	}
	a.tasks, a.perTask, a.node, a.cpus = number("NumTasks"), number("CPUs/Task"), number("MinCPUsNode"), number("NumCPUs")
	if !isUnset(words["ReqNodeList"]) {
		a.Nodes = words["ReqNodeList"]
	}
	for _, key := range []string{"TresPerJob", "TresPerNode", "TresPerTask"} {
		if value, ok := words[key]; ok && !isUnset(value) {
			a.gpus = key + "=" + value
			a.prefix = value[:min(len(value), len("gres:"))]
		}
	}
	asks := Job{Nodes: 1, NumTasks: a.tasks, TresPerJob: words["TresPerJob"], TresPerNode: words["TresPerNode"], TresPerTask: words["TresPerTask"]}
	for _, list := range []*string{&asks.TresPerJob, &asks.TresPerNode, &asks.TresPerTask} {
		if isUnset(*list) {
			*list = ""
		}
	}
	var ok bool
	if _, a.GPUs, ok = asks.requestedGPUs(); !ok {
		return fmt.Errorf("GPUs %.80q cannot be read", a.gpus)
	}
	perGPU, err := perGPU(words["CpusPerTres"])
	if err != nil {
		return fmt.Errorf("CpusPerTres: %w", err)
	}
	memPerGPU, err := perGPU64(words["MemPerTres"])
	if err != nil {
		return fmt.Errorf("MemPerTres: %w", err)
	}
	a.perGPU, a.Least = perGPU, max(a.tasks, 1)
	a.CPUs = max(a.cpus, a.node, a.perGPU*a.GPUs)

	text, byNode := words["MinMemoryNode"]
	byCPU, other := words["MinMemoryCPU"]
	if byNode && other {
		return errors.New("MinMemoryNode= and MinMemoryCPU= both stand there: a name or comment of the job says one")
	}
	if !byNode {
		text = byCPU
	}
	if a.memory, err = ParseMemory(text); err != nil {
		return err
	}
	// A default by GPU stands there without prefix, also beside the user's own
	// --mem and --mem-per-cpu, which then count (seen on 22.05). Beside --mem=0 it
	// looks as if there were nothing else: such a job is taken for one by GPU.
	switch asked := strings.HasPrefix(words["MemPerTres"], "gres"); {
	case memPerGPU > 0 && (asked || a.memory == 0):
		a.by, a.memory = ByGPU, memPerGPU
		a.MemMB = memPerGPU * int64(a.GPUs)
	case byNode:
		a.by, a.MemMB = ByNode, a.memory
	default:
		a.by, a.MemMB = ByCPU, a.memory*int64(a.CPUs)
	}
	return nil
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

// fixed says why a job is left as it is.
func (a *Asked) fixed(words map[string]string) string {
	_, het := words["HetJobId"]
	_, cron := words["CronJob"]
	_, perTRES := words["NtasksPerTRES"]
	nodes := words["NumNodes"]
	switch {
	case het:
		return "is part of a heterogeneous job"
	case cron:
		return "comes from scrontab: Slurm refuses every change of it"
	case words["OverSubscribe"] != "OK":
		return "asks for its node alone, or to share it (OverSubscribe=" + words["OverSubscribe"] + ")"
	case nodes != "1-1" && nodes != "1":
		return "asks for several nodes (NumNodes=" + nodes + ")"
	case nodes == "1" && a.tasks > 1:
		return fmt.Sprintf("asks for %d tasks without --nodes=1: they may spread over nodes", a.tasks)
	case !isUnset(words["ExcNodeList"]):
		return "excludes nodes"
	case a.GPUs == 0:
		return "asks for no GPU"
	case perTRES, words["TresPerSocket"] != "":
		return "asks for tasks by GPU, or GPUs by socket"
	case a.tasks < 1, a.perTask < 1, a.node < 1:
		return "Slurm does not say its tasks or CPUs"
	case a.prefix != "gres:" && a.prefix != "gres/", !sizeWords.MatchString(a.gpus), strings.Contains(a.gpus, "cpu"), strings.Contains(a.gpus, "mem"):
		return "asks for more than GPUs by TRES"
	case words["ReqB:S:C:T"] != "0:0:*:*" || words["Socks/Node"] != "*" || words["CoreSpec"] != "*",
		!strings.HasSuffix(words["NtasksPerN:B:S:C"], ":0:*:*"):
		return "asks for sockets, cores or threads"
	case a.perGPU == 0 && a.cpus != a.tasks*a.perTask:
		return "asks for other CPUs than its tasks need (--overcommit?)"
	case a.perGPU == 0 && a.node != a.perTask && a.node != a.tasks*a.perTask:
		return "asks for --mincpus"
	case a.perGPU > 0 && a.perTask > 1:
		return "asks for CPUs by task and by GPU"
	case a.memory == 0 && a.by == ByNode:
		return "asks for all memory of its node (--mem=0)"
	case a.memory == 0:
		return "asks for no memory, and no default gives it any (DefMemPerGPU)"
	case a.by == ByCPU && words["MemPerTres"] != "":
		return "asks for memory by CPU where a default gives it by GPU"
	}
	return ""
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
func (a *Asked) Resize(cpus int, memMB int64, node string) (value string, gets int, getsMB int64) {
	b := *a
	b.Nodes = node
	gpus := max(a.GPUs, 1)
	switch {
	case a.perGPU > 0 && a.follows:
		b.perGPU = max(cpus/a.Unit(), 1)
		b.CPUs = b.perGPU * gpus
	case a.perGPU > 0:
		b.CPUs = max(cpus, a.Least)
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
	switch a.by {
	case ByNode:
		b.memory = up(1)
		b.MemMB = b.memory
	case ByCPU:
		b.memory = up(int64(b.CPUs))
		b.MemMB = b.memory * int64(b.CPUs)
	case ByGPU:
		b.memory = up(int64(gpus))
		b.MemMB = b.memory * int64(gpus)
	}
	return b.text(), b.CPUs, b.MemMB
}

// text is the job's size as words of an update. The memory stands there even when
// only CPUs change: Slurm reckons the job's TRES anew only then (22.05), and the
// GPUs beside what counts by them, because the update would else find none.
func (a *Asked) text() string {
	var words []string
	say := func(key string, value int64) { words = append(words, key+"="+strconv.FormatInt(value, 10)) }
	byGPU := func(key string, value int64) {
		words = append(words, fmt.Sprintf("%s=%sgpu:%d", key, a.prefix, value))
	}
	switch {
	case a.perGPU > 0 && a.follows:
		byGPU("CpusPerTres", int64(a.perGPU))
	case a.perGPU > 0:
		say("MinCPUsNode", int64(a.node))
		say("NumCPUs", int64(a.cpus))
	default:
		say("CPUsPerTask", int64(a.perTask))
		say("MinCPUsNode", int64(a.node))
		say("NumCPUs", int64(a.cpus))
	}
	switch a.by {
	case ByNode:
		say("MinMemoryNode", a.memory)
	case ByCPU:
		say("MinMemoryCPU", a.memory)
	case ByGPU:
		byGPU("MemPerTres", a.memory)
	}
	if a.by == ByGPU || a.perGPU > 0 && a.follows {
		words = append(words, a.gpus)
	}
	words = append(words, "ReqNodeList="+a.Nodes)
	return strings.Join(words, " ")
}
