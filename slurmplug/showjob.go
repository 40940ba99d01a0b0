package slurmplug

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// askedHead are the words of scontrol show job that say how a job asks for its size
// and stand between its name and the first text that its user chooses freely, and
// whether a Slurm may leave one out.
var askedHead = map[string]bool{
	"UserId": false, "JobState": false, "NumNodes": false, "NumCPUs": false, "NumTasks": false, "CPUs/Task": false,
	"ReqB:S:C:T": false, "Socks/Node": false, "NtasksPerN:B:S:C": false, "CoreSpec": false, "MinCPUsNode": false,
	"OverSubscribe": false, "ReqNodeList": false, "ExcNodeList": false,
	"ReqTRES": true, "Exclusive": true, "MinMemoryNode": true, "MinMemoryCPU": true, "MinMemoryTRES": true,
}

// askedTail are those that stand behind all such texts but the address for mail.
var askedTail = map[string]bool{"CpusPerTres": true, "MemPerTres": true, "TresPerSocket": true, "NtasksPerTRES": true}

// shown is what scontrol --oneliner shows of a job, cut where its user's free texts
// are: a name, a comment, a path, and from 26.05 the command line, may hold any words.
// So words count by where they stand (slurm_sprint_job_info).
type shown struct {
	first string // before the name
	head  string // behind the name and before "Network="
	free  string // texts, and some words that only leave a job alone
	tail  string // at the end, but for the address for mail
}

// cutShown cuts the first record of what scontrol shows of a job whose record in the
// queue knows its name and account: their ends cannot be forged. A user who has a word
// and its place forged by a path only misleads priod about the own job: what is written
// is read back.
func cutShown(record *Job, out string) (shown, error) {
	first, named, ok := strings.Cut(out, " JobName=")
	if !ok || !strings.HasPrefix(first, "JobId=") {
		return shown{}, fmt.Errorf("JobId= and JobName= are missing: %.80q", out)
	}
	rest, ok := behind(named, record.Name)
	if !ok {
		return shown{}, fmt.Errorf("JobName= is not %.80q, as in the queue", record.Name)
	}
	s := shown{first: first}
	if before, after, ok := strings.Cut(rest, " Account="); ok {
		if after, ok = behind(after, record.Account); ok {
			s.head, rest = before+" ", after
		}
	}
	own := rest
	for _, end := range []string{" Network=", " Command=", " WorkDir="} { // --network is any text
		own, _, _ = strings.Cut(own, end)
	}
	s.head += own
	s.free = rest[len(own):]
	s.tail = s.free[strings.LastIndex(s.free, " WorkDir=")+1:]
	s.tail = s.tail[strings.LastIndex(s.tail, " StdOut=")+1:]
	s.tail, _, _ = strings.Cut(s.tail, " MailUser=")
	return s, nil
}

// shownOf reads what scontrol shows of one job, by its record in the queue. ErrNoJob when slurmctld does not know it.
func shownOf[T any](ctx context.Context, c *Client, id JobID, record *Job, parse func(record *Job, out string) (T, error), options ...string) (none T, err error) {
	out, err := c.showJob(ctx, id.String(), options...)
	if err != nil {
		return none, err
	}
	value, err := parse(record, out)
	if err != nil {
		return none, doubtful("scontrol show job", "job %s: %w", id, err)
	}
	return value, nil
}

// askedWords finds the words that say how a job asks for its size.
func askedWords(record *Job, out string) (map[string]string, error) {
	s, err := cutShown(record, out)
	if err != nil {
		return nil, err
	}
	words := map[string]string{}
	if strings.Contains(s.first, " HetJobId=") {
		words["HetJobId"] = ""
	}
	if strings.Contains(s.free, " CronJob=") { // a comment that says so leaves the job alone
		words["CronJob"] = ""
	}
	if err := addWords(words, s.head, func(key string) bool { _, counts := askedHead[key]; return counts }); err != nil {
		return nil, err
	}
	for key, optional := range askedHead {
		if _, known := words[key]; !known && !optional {
			return nil, fmt.Errorf("%s= is missing", key)
		}
	}
	if err := oneMemory(words, s.head); err != nil {
		return nil, err
	}
	return words, addWords(words, s.tail, func(key string) bool { return askedTail[key] })
}

// behind is what follows a value of Slurm's that is known, and a blank.
func behind(s, value string) (rest string, ok bool) {
	if value != "" {
		if s, ok = strings.CutPrefix(s, value); ok && strings.HasPrefix(s, " ") {
			return s, true
		}
		return "", false
	}
	for _, none := range []string{"", "(null)", "N/A"} { // as squeue's reader takes them
		if rest, ok = strings.CutPrefix(s, none); ok && strings.HasPrefix(rest, " ") {
			return rest, true
		}
	}
	return "", false
}

// addWords adds the words KEY=VALUE that count, each of which has to stand there once.
func addWords(words map[string]string, text string, counts func(key string) bool) error {
	for word := range strings.FieldsSeq(text) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || !counts(key) {
			continue
		}
		if _, twice := words[key]; twice {
			return fmt.Errorf("%s= comes twice", key)
		}
		words[key] = value
	}
	return nil
}

// oneMemory makes sure that the memory is said once, in a form that is known.
func oneMemory(words map[string]string, head string) error {
	found := ""
	for word := range strings.FieldsSeq(head) {
		key, _, ok := strings.Cut(word, "=")
		if !ok || !strings.HasPrefix(key, "MinMemory") {
			continue
		}
		if _, known := words[key]; !known {
			return fmt.Errorf("%.40s= is no form of memory that priod knows", key)
		}
		if found != "" {
			return fmt.Errorf("%s= and %s= both stand there", found, key)
		}
		found = key
	}
	if found == "" {
		return fmt.Errorf("MinMemoryNode=, MinMemoryCPU= and MinMemoryTRES= are all missing")
	}
	return nil
}

// Bounds is what a pending job says of its nodes that squeue does not tell; 0 is
// what is not said.
type Bounds struct {
	Most                int // nodes
	Tasks, TasksPerNode int
	CPUs, CPUsPerGPU    int   // CPUs: of each node
	TasksPerGPU         int   // --ntasks-per-gpu
	MemMB               int64 // of each node
	MemPerCPU           int64 // MB for each CPU; by a default, too
	MemPerGPU           int64 // MB for each GPU, by a default, too: beside --mem, Slurm starts it where these are free (22.05.8, 26.05.5)
	AllMem              bool  // all memory of each node: --mem=0
	TmpMB               int64 // disk for temporary files, of each node
	OfJob               bool  // it asks for several GPUs in all, for tasks on any number of nodes: --gpus or --ntasks-per-gpu, without --nodes=1
	Binds               bool  // it gets CPUs of the sockets of its GPUs alone: --gres-flags=enforce-binding
	Fills               bool  // it asks for GPUs, and not by node: see Config.FillsFirstNodes
	AddsUp              bool  // the same: see Config.AddsUpGPUs
	LosesThread         bool  // see Config.LosesThread
	// Open is what is asked for that does not count by amounts: sockets or cores of a layout, tasks of each socket or core,
	// cores kept for the system, adjacent nodes, licences; "" for none.
	Open string
}

// Bounds reads what a job says of its nodes, by its record in the queue; the tasks of
// an array all say the same.
func (c *Client) Bounds(ctx context.Context, record *Job) (Bounds, error) {
	return shownOf(ctx, c, Plain(record.RawID), record, parseBounds)
}

// parseBounds reads the first record: those of an array's tasks follow. A word that
// stands there twice is not accepted.
func parseBounds(record *Job, out string) (b Bounds, err error) {
	s, err := cutShown(record, out)
	if err != nil {
		return b, err
	}
	words, twice := map[string]string{}, map[string]bool{}
	collect := func(text string, counts func(key string) bool) {
		for word := range strings.FieldsSeq(text) {
			if key, value, ok := strings.Cut(word, "="); ok && counts(key) {
				_, twice[key] = words[key]
				words[key] = value
			}
		}
	}
	byGPU := func(key string) bool { return key == "CpusPerTres" || key == "MemPerTres" || key == "NtasksPerTRES" }
	collect(s.head, func(key string) bool { return !byGPU(key) })
	collect(s.tail, byGPU)
	number := func(key, text string) int {
		n, err := parseUint(text, math.MaxInt32)
		if err != nil || twice[key] {
			return 0
		}
		return int(n)
	}
	// The lower bound is Slurm's estimate once it has looked at the job: of -N1-4 it then
	// says 4-4 (seen on 22.05.8).
	if _, most, bounded := strings.Cut(words["NumNodes"], "-"); bounded {
		b.Most = number("NumNodes", most)
	}
	perNode, _, _ := strings.Cut(words["NtasksPerN:B:S:C"], ":")
	b.Tasks, b.TasksPerNode, b.CPUs = number("NumTasks", words["NumTasks"]), number("NtasksPerN:B:S:C", perNode), number("MinCPUsNode", words["MinCPUsNode"])
	if n, err := perGPU(words["CpusPerTres"]); err == nil && !twice["CpusPerTres"] {
		b.CPUsPerGPU = n
	}
	b.TasksPerGPU = number("NtasksPerTRES", words["NtasksPerTRES"])
	if mb, err := ParseMemory(words["MinTmpDiskNode"]); err == nil {
		b.TmpMB = mb
	}
	all, _ := requestedGres(record.TresPerJob)
	gpus, _ := countGPUs(all)
	b.OfJob = (gpus > 1 || words["NtasksPerTRES"] != "") && b.Tasks > 1 && b.Most != 1
	b.Fills = gpus > 0 || words["NtasksPerTRES"] != "" || record.ByTask()
	b.AddsUp = b.Fills
	b.Binds = strings.Contains(s.free, "GresEnforceBind=Yes") // a comment that says so, or the next, leaves the job waiting
	_, held := record.GPUs()
	perTask, cpus := number("CPUs/Task", words["CPUs/Task"]), number("NumCPUs", words["NumCPUs"])
	switch b.Open = openWords(words); {
	case b.Open != "":
	case strings.Contains(s.free, "SpreadJob=Yes") && b.Most != 1:
		b.Open = "as many nodes as there are (--spread-job)"
	case b.TasksPerNode > 0 && b.Tasks != b.TasksPerNode*max(record.NodeCount(), 1) && record.ByTask():
		b.Open = "GPUs by task, and other tasks of each node than there are" // 22.05 may want GPUs for these
	case cpus > 0 && cpus < max(perTask, 1)*b.Tasks: // 24.11.5 starts none with several CPUs for each, even on an idle node
		b.Open = "fewer CPUs than its tasks need (--overcommit)"
	// 22.05.8 starts the first where all GPUs of a node are free, and nowhere else; 26.05.5 spreads the second over nodes.
	case b.CPUsPerGPU > 0 && (b.TasksPerGPU > b.CPUsPerGPU || b.Most != 1 && b.Tasks > b.CPUsPerGPU*max(held, 1)):
		b.Open = "more tasks than CPUs for each GPU"
	case b.CPUsPerGPU > 0 && perTask > 1: // by MaxMemPerCPU: 22.05 starts none whose task gets fewer by GPU
		b.Open = "CPUs by task and by GPU"
	}
	if mb, err := ParseMemory(words["MinMemoryNode"]); err == nil && !twice["MinMemoryNode"] {
		b.MemMB = mb
		b.AllMem = mb == 0 && words["MinMemoryNode"] != "" && words["MemPerTres"] == ""
	}
	if !twice["MemPerTres"] {
		b.MemPerGPU, _ = perGPU64(words["MemPerTres"])
	}
	if mb, err := ParseMemory(words["MinMemoryCPU"]); err == nil && !twice["MinMemoryCPU"] {
		b.MemPerCPU = mb
	}
	if b.Open == "" && words["MinMemoryTRES"] != "" && record.MemMB() > b.MemPerGPU*int64(held) {
		b.Open = "all memory of each node (--mem=0) where the default is by GPU (DefMemPerGPU)" // shown as by GPU, and ReqTRES has that of a node
	}
	return b, nil
}

// openWords are Slurm's words for what a job asks for, and the values that ask for nothing (slurm_sprint_job_info).
func openWords(words map[string]string) string {
	layout, perNode := strings.Split(words["ReqB:S:C:T"], ":"), strings.Split(words["NtasksPerN:B:S:C"], ":")
	asks := func(parts []string, at int) bool {
		return at < len(parts) && parts[at] != "" && parts[at] != "0" && parts[at] != "*" && parts[at] != "65534"
	}
	for _, x := range []struct {
		what string
		asks bool
	}{
		{"sockets or cores of each node (--extra-node-info)", asks(layout, 1) || asks(layout, 2)},
		{"sockets of each node (--sockets-per-node)", asks([]string{words["Socks/Node"]}, 0)},
		{"tasks of each socket (--ntasks-per-socket)", asks(perNode, 2)},
		{"tasks of each core (--ntasks-per-core)", asks(perNode, 3)},
		{"specialized cores (--core-spec)", words["CoreSpec"] != "" && words["CoreSpec"] != "*"},
		{"adjacent nodes (--contiguous)", words["Contiguous"] == "1"},
		{"shared CPUs (--oversubscribe)", words["OverSubscribe"] == "YES"},
		{"licences", words["Licenses"] != "" && words["Licenses"] != "(null)"},
	} {
		if x.asks {
			return x.what
		}
	}
	return ""
}

// MeasuresMemory reports whether the memory that jobs use is measured.
func (c Config) MeasuresMemory() bool {
	kind := c.values["JobAcctGatherType"]
	return kind != "" && !strings.HasSuffix(kind, "/none")
}
