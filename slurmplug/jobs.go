package slurmplug

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// jobColumns are squeue's names (squeue/opts.c) for what a Job holds, in the
// order in which parser.job reads them.
var jobColumns = [...]string{
	colJobID: "JobID", colArrayID: "ArrayJobID", colTasks: "ArrayTaskID", colSLUID: "SLUID", colHetID: "HetJobID", colHetOffset: "HetJobOffset",
	colUID: "UserID", colUser: "UserName", colName: "Name", colAccount: "Account", colPartition: "Partition", colQOS: "QOS", colReservation: "Reservation",
	colState: "State", colReason: "Reason", colDependency: "Dependency", colPriority: "PriorityLong", colNice: "Nice",
	colRestarts: "RestartCnt", colNodes: "NumNodes", colCPUs: "NumCPUs", colNumTasks: "NumTasks", colLayout: "SCT", colMinMemory: "MinMemory", colMinCPUs: "MinCpus",
	colTRES: "tres-alloc", colPerJob: "tres-per-job", colPerNode: "tres-per-node", colPerSocket: "tres-per-socket",
	colPerTask: "tres-per-task", colCPUsPerTRES: "cpus-per-tres", colFeatures: "Feature", colPrefer: "Prefer", colWhole: "OverSubscribe", colBatch: "BatchFlag", colNodeList: "NodeList", colLimit: "TimeLimit",
	colSubmit: "SubmitTime", colEligible: "EligibleTime", colStart: "StartTime",
	colComment: "Comment",
}

const (
	colJobID = iota
	colArrayID
	colTasks
	colHetID
	colHetOffset
	colSLUID
	colUID
	colUser
	colName
	colAccount
	colPartition
	colQOS
	colReservation
	colState
	colReason
	colDependency
	colPriority
	colNice
	colRestarts
	colNodes
	colCPUs
	colNumTasks
	colLayout
	colMinMemory
	colMinCPUs
	colTRES
	colPerJob
	colPerNode
	colPerSocket
	colPerTask
	colCPUsPerTRES
	colFeatures
	colPrefer
	colWhole
	colBatch
	colNodeList
	colLimit
	colSubmit
	colEligible
	colStart
	colComment
)

// squeueArgs asks for the queue of this cluster, each record of its own: without
// either option squeue shows pending tasks that have records, and priorities, of
// their own as part of the array's (squeue/print.c, _combine_pending_array_tasks).
func (a Abilities) squeueArgs(more ...string) []string {
	records := "--array"
	if a.ArrayUnique {
		records = "--array-unique"
	}
	return append([]string{"--all", "--local", "--noheader", records}, more...)
}

// jobFormat asks for columns. "Field:SUFFIX" prints a field in full and SUFFIX
// behind it; without the colon it is cut at 20 characters (squeue/opts.c).
func (a Abilities) jobFormat(s separators, columns ...string) []string {
	columns = append(columns, jobColumns[:]...)
	var format strings.Builder
	for i, name := range columns {
		switch {
		case name == jobColumns[colSLUID] && !a.SLUID:
			name = jobColumns[colJobID] // as many columns everywhere; no SLUID is a number
		case name == jobColumns[colWhole] && a.Exclusive:
			name = "Exclusive"
		}
		format.WriteString(name)
		format.WriteByte(':')
		if i == len(columns)-1 {
			format.WriteString(s.end)
			break
		}
		format.WriteString(s.field)
		format.WriteByte(',')
	}
	return []string{"--noconvert", "-O", format.String()}
}

// whole is what a job shows in colWhole that gets whole nodes (seen on 22.05.8, 24.11.5
// and 26.05.5). Ordinary ones show OK there, or NO in the column Exclusive; USER, MCS
// and TOPO are of jobs that share their nodes with some others.
func (a Abilities) whole() string {
	if a.Exclusive {
		return "NODE"
	}
	return "NO"
}

// Jobs reads the queue: every record that is not finished, in squeue's order.
// A queue that lost more than half of its records since the last read is read
// once more and accepted only when both reads agree.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) { return c.ReuseJobs(ctx, nil) }

// ReuseJobs is Jobs in the memory of dst, whose records it overwrites: one poll
// after the other needs it only once.
func (c *Client) ReuseJobs(ctx context.Context, dst []Job) ([]Job, error) {
	jobs, err := c.readJobs(ctx, dst)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	last := c.lastJobs
	c.mu.Unlock()
	if shrunk(last, len(jobs)) {
		first := len(jobs)
		if jobs, err = c.readJobs(ctx, jobs); err != nil {
			return nil, err
		}
		if !shrunk(last, len(jobs)) || shrunk(first, len(jobs)) || shrunk(len(jobs), first) {
			return nil, doubtful("squeue", "%d records, then %d, then %d", last, first, len(jobs))
		}
	}
	c.mu.Lock()
	c.lastJobs = len(jobs)
	c.mu.Unlock()
	return jobs, nil
}

// shrunk reports whether more than half of before is gone.
func shrunk(before, now int) bool { return 2*now < before }

func (c *Client) readJobs(ctx context.Context, dst []Job) ([]Job, error) {
	able, err := c.Abilities(ctx)
	if err != nil {
		return nil, err
	}
	s := c.nonce()
	out, err := c.read(ctx, "squeue", able.squeueArgs(able.jobFormat(s)...)...)
	if err != nil {
		c.forgetAbilities(err)
		return nil, err
	}
	return parseJobsInto(dst, out, s, able)
}

// minPart is how many bytes of squeue's output are worth a goroutine of their own, mostParts how
// many there are at most.
const minPart, mostParts = 1 << 20, 4

// parseJobsInto reads squeue's output, records that end with s.end and a newline,
// and overwrites dst.
func parseJobsInto(dst []Job, out []byte, s separators, able Abilities) ([]Job, error) {
	return parseJobsInParts(dst, out, s, able, min(runtime.GOMAXPROCS(0), mostParts, 1+len(out)/minPart))
}

func parseJobsInParts(dst []Job, out []byte, s separators, able Abilities, parts int) ([]Job, error) {
	type part struct {
		out         []byte
		first, most int // its records, by their place in all
		jobs        []Job
		err         error
	}
	all, most := make([]part, 0, parts), 0
	for text := range s.parts(out, parts) {
		n := bytes.Count(text, []byte(s.end))
		all = append(all, part{out: text, first: most, most: n})
		most += n
	}
	jobs := slices.Grow(dst[:0], most)[:most]
	var done sync.WaitGroup
	for i := range all {
		p := &all[i]
		into := jobs[p.first : p.first : p.first+p.most]
		done.Go(func() { p.jobs, p.err = parseJobsOf(p.out, into, p.first, s, able) })
	}
	done.Wait()
	jobs = jobs[:0]
	for i := range all {
		if err := all[i].err; err != nil {
			return nil, doubtful("squeue", "%w", err)
		}
		jobs = append(jobs, all[i].jobs...) // most often they stand there
	}
	id, found := twice(jobs)
	if found {
		jobs = gather(jobs)
		id, found = twice(jobs)
	}
	if found {
		return nil, doubtful("squeue", "job %s comes twice", id)
	}
	if err := mostlyRead(jobs, func(j *Job) string { return j.Unread }); err != nil {
		return nil, doubtful("squeue", "%w", err)
	}
	return jobs, nil
}

// parseJobsOf reads a part of the output, whose first record is behind so many others. A record's
// lines that the part before has begun are a record of their own, which gather joins.
func parseJobsOf(out []byte, jobs []Job, before int, s separators, able Abilities) ([]Job, error) {
	p := newJobParser(able)
	n, field := before, []byte(s.field)
	err := s.each(out, before, func(record []byte) error {
		n++
		raw, rest, _ := bytes.Cut(record, field) // colJobID, colArrayID and colTasks come first
		array, rest, _ := bytes.Cut(rest, field)
		task, _, more := bytes.Cut(rest, field)
		if more && p.joins(raw, array, task) {
			return nil
		}
		if err := s.cut(record, p.fields[:]); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		if len(jobs) > 0 {
			p.close(&jobs[len(jobs)-1])
		}
		jobs = append(jobs, Job{})
		if err := p.job(&jobs[len(jobs)-1]); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(jobs) > 0 {
		p.close(&jobs[len(jobs)-1])
	}
	return jobs, nil
}

// joins reports whether a line that begins with these columns is of one more task of the
// record before: squeue --array prints a line for each task, and all but the task's
// number is the same, so nothing else of it is read.
func (p *jobParser) joins(raw, array, number []byte) bool {
	r := &p.record
	if len(r.tasks) == 0 || string(raw) != r.raw || string(array) != r.array {
		return false
	}
	task, ok := decimal(number, math.MaxInt32)
	if !ok || int32(task) <= r.tasks[len(r.tasks)-1] { // squeue counts upwards
		return false
	}
	r.tasks = append(r.tasks, int32(task))
	return true
}

// close makes j, the job read last, the record of all its tasks.
func (p *jobParser) close(j *Job) {
	if len(p.record.tasks) > 1 {
		j.hold(p.record.tasks)
	}
	p.record.tasks = p.record.tasks[:0]
}

// hold makes a task the record of several, in rising order.
func (j *Job) hold(tasks []int32) {
	j.ID.Task, j.Tasks, j.TaskCount = NoTask, CompactTasks(tasks), len(tasks)
}

// gather joins the lines of records that squeue did not print one after the other,
// as a sort that is not stable could leave them.
func gather(jobs []Job) []Job {
	at := map[uint32]int{}
	kept := jobs[:0]
	for i := range jobs {
		j := jobs[i]
		first, known := at[j.RawID]
		if known && j.ID.ID == kept[first].ID.ID {
			own, more := kept[first].tasks(), j.tasks()
			all := slices.Compact(slices.Sorted(slices.Values(append(own, more...))))
			if own != nil && more != nil && len(all) == len(own)+len(more) {
				kept[first].hold(all)
				continue
			}
		}
		at[j.RawID] = len(kept)
		kept = append(kept, j)
	}
	return kept
}

// tasks are those of an array that the record holds; nil for another job.
func (j *Job) tasks() []int32 {
	if j.Tasks == "" && j.ID.Task != NoTask {
		return []int32{j.ID.Task}
	}
	tasks, err := ExpandTasks(j.Tasks)
	if err != nil {
		return nil
	}
	return tasks
}

// twice finds a job that stands in the queue twice, by its name or by Slurm's
// own id. To sort numbers costs less than a map.
func twice(jobs []Job) (JobID, bool) {
	raw, ids := make([]uint32, len(jobs)), make([]uint64, len(jobs))
	for i := range jobs {
		raw[i], ids[i] = jobs[i].RawID, uint64(jobs[i].ID.ID)<<32|uint64(uint32(jobs[i].ID.Task))
	}
	slices.Sort(raw)
	slices.Sort(ids)
	for i := 1; i < len(jobs); i++ {
		switch {
		case raw[i] == raw[i-1]:
			return Plain(raw[i]), true
		case ids[i] == ids[i-1]:
			return JobID{ID: uint32(ids[i] >> 32), Task: int32(uint32(ids[i]))}, true
		}
	}
	return JobID{}, false
}

// jobParser turns fields into Jobs. It remembers, for each column, the last
// value and what became of it: neighbours in the queue are much alike.
type jobParser struct {
	fields  [len(jobColumns)][]byte
	strings interner
	last    [len(jobColumns)]string // as squeue printed it
	value   [len(jobColumns)]string // as the Job holds it
	limits  map[string]time.Duration
	memMB   int64  // of last[colMinMemory]
	whole   string // what colWhole shows of jobs that get whole nodes
	tasks   struct {
		list  string
		count int
	}
	record struct { // the one read last, when it is of an array's task
		raw, array string
		tasks      []int32
	}
	err error
}

func newJobParser(able Abilities) *jobParser {
	return &jobParser{strings: interner{}, limits: map[string]time.Duration{}, whole: able.whole()}
}

// text is a column whose values repeat.
func (p *jobParser) text(col int) string {
	b := p.fields[col]
	if p.last[col] != string(b) || p.last[col] == "" {
		p.value[col] = p.strings.value(b)
		p.last[col] = p.strings.get(b)
	}
	return p.value[col]
}

// free is a column of free text, whose values may all differ.
func (p *jobParser) free(col int) string {
	b := p.fields[col]
	if p.last[col] != string(b) {
		p.last[col] = string(b)
	}
	if p.last[col] == "(null)" || p.last[col] == "N/A" {
		return ""
	}
	return p.last[col]
}

// fail takes down the first error of a record.
func (p *jobParser) fail(col int, err error) {
	if p.err == nil && err != nil {
		p.err = fmt.Errorf("%s: %w", jobColumns[col], err)
	}
}

func (p *jobParser) number(col int, limit uint64) uint64 {
	n, err := parseUint(p.fields[col], limit)
	p.fail(col, err)
	return n
}

// noVal is Slurm's NO_VAL (slurm.h), which squeue prints in some columns.
const noVal = "4294967294"

// count is a column that squeue may shorten to "2K", 0 when unset.
func (p *jobParser) count(col int) int {
	b := p.fields[col]
	if n, ok := decimal(b, math.MaxInt32); ok {
		return int(n)
	}
	switch string(b) {
	case "N/A", "", noVal: // tasks of a job that was cancelled early
		return 0
	}
	n, err := parseCount(string(b))
	if err == nil && n > math.MaxInt32 {
		err = fmt.Errorf("%d is out of range", n)
	}
	p.fail(col, err)
	return int(n)
}

// layout reads "SOCKETS:CORES:THREADS", each "*" where the job leaves it open: the sockets of
// each node and the threads of each core, 0 where they are open. One thread is what --hint=nomultithread and
// --threads-per-core=1 ask for (seen on 22.05.8, 24.11.5 and 26.05.5).
func (p *jobParser) layout(col int) (sockets, threads int) {
	if string(p.fields[col]) == "*:*:*" || unsetBytes(p.fields[col]) {
		return 0, 0
	}
	parts := bytes.Split(p.fields[col], []byte(":"))
	if len(parts) != 3 {
		p.fail(col, fmt.Errorf("%q is not SOCKETS:CORES:THREADS", clip(p.fields[col])))
		return 0, 0
	}
	for i, n := range []*int{&sockets, nil, &threads} {
		if n == nil || string(parts[i]) == "*" {
			continue
		}
		count, err := parseUint(parts[i], math.MaxUint16)
		p.fail(col, err)
		*n = int(count)
	}
	return sockets, threads
}

// memory is a column with an amount of memory, MB.
func (p *jobParser) memory(col int) int64 {
	b := p.fields[col]
	if p.last[col] == string(b) && p.last[col] != "" {
		return p.memMB
	}
	mb, err := ParseMemory(string(b))
	if unsetBytes(b) {
		mb, err = 0, nil
	}
	p.fail(col, err)
	p.last[col], p.memMB = string(b), mb
	return mb
}

func (p *jobParser) time(col int) time.Time {
	t, err := parseEpoch(p.fields[col])
	p.fail(col, err)
	return t
}

func (p *jobParser) limit(col int) time.Duration {
	if d, known := p.limits[string(p.fields[col])]; known {
		return d
	}
	d, err := ParseTimeLimit(string(p.fields[col]))
	if p.fail(col, err); err == nil {
		p.limits[string(p.fields[col])] = d
	}
	return d
}

func (p *jobParser) nice(col int) int64 {
	n, err := strconv.ParseInt(string(p.fields[col]), 10, 33)
	if err != nil {
		p.fail(col, fmt.Errorf("%q is no number", clip(p.fields[col])))
	}
	return n
}

// job fills j from the fields. A job that cannot be named is an error: the read does not tell
// which jobs are still there.
func (p *jobParser) job(j *Job) error {
	p.err = nil
	j.RawID = uint32(p.number(colJobID, math.MaxUint32))
	if p.identify(j); p.err != nil {
		return fmt.Errorf("job %d: %w", j.RawID, p.err)
	}
	j.UID = uint32(p.number(colUID, math.MaxUint32))
	if sluid := p.fields[colSLUID]; bytes.HasPrefix(sluid, []byte("s")) {
		j.SLUID = string(sluid)
	}
	if !unsetBytes(p.fields[colHetID]) {
		j.HetID = uint32(p.number(colHetID, math.MaxUint32))
		if j.HetID != 0 {
			j.HetOffset = int(p.number(colHetOffset, math.MaxInt32))
		}
	}
	j.User, j.Name, j.Account, j.Partition = p.text(colUser), p.text(colName), p.text(colAccount), p.text(colPartition)
	j.QOS, j.Reservation = p.text(colQOS), p.text(colReservation)
	j.State, j.Reason, j.Dependency = p.text(colState), p.text(colReason), p.free(colDependency)
	if j.State == "" {
		p.fail(colState, fmt.Errorf("is empty"))
	}
	j.Priority, j.Nice = uint32(p.number(colPriority, math.MaxUint32)), p.nice(colNice)
	j.Restarts = p.count(colRestarts)
	j.Nodes, j.CPUs, j.NumTasks = p.count(colNodes), p.count(colCPUs), p.count(colNumTasks)
	j.Sockets, j.Threads = p.layout(colLayout)
	j.MinMemMB, j.MinCPUs = p.memory(colMinMemory), p.count(colMinCPUs)
	j.TRES, j.TresPerJob, j.TresPerNode = p.text(colTRES), p.text(colPerJob), p.text(colPerNode)
	j.TresPerSock, j.TresPerTask, j.CPUsPerTRES = p.text(colPerSocket), p.text(colPerTask), p.text(colCPUsPerTRES)
	j.Features, j.Prefer = p.text(colFeatures), p.text(colPrefer)
	switch shown := string(p.fields[colWhole]); shown {
	case p.whole:
		j.Whole = true
	case "USER", "MCS", "TOPO":
		j.SharedWith = shown
	case "YES":
		j.Shares = true
	}
	j.Interactive = string(p.fields[colBatch]) == "0"
	j.NodeList = p.free(colNodeList)
	j.TimeLimit = p.limit(colLimit)
	j.Submit, j.Eligible = p.time(colSubmit), p.time(colEligible)
	j.Start = p.time(colStart)
	j.Comment = p.free(colComment)
	if p.err != nil {
		j.Unread = p.err.Error()
	}
	return nil
}

// identify sets what names the record: a plain job, an array task, or what is
// left of an array in one record.
func (p *jobParser) identify(j *Job) {
	j.ID, j.TaskCount = Plain(j.RawID), 1
	if j.RawID == 0 {
		p.fail(colJobID, fmt.Errorf("is 0"))
	}
	b := p.fields[colTasks]
	if unsetBytes(b) {
		return
	}
	j.ID.ID = uint32(p.number(colArrayID, math.MaxUint32))
	if j.ID.ID == 0 {
		p.fail(colArrayID, fmt.Errorf("is 0"))
	}
	if cut := bytes.IndexByte(b, '%'); cut >= 0 {
		if n, ok := decimal(b[cut+1:], math.MaxInt32); ok {
			j.AtOnce = int(n)
		}
		b = b[:cut]
	}
	if task, ok := decimal(b, math.MaxInt32); ok {
		j.ID.Task = int32(task)
		p.record.raw, p.record.array = string(p.fields[colJobID]), string(p.fields[colArrayID])
		p.record.tasks = append(p.record.tasks[:0], j.ID.Task)
		return
	}
	if p.tasks.list != string(b) || p.tasks.list == "" {
		list := string(b)
		n, err := CountTasks(list)
		if err != nil {
			p.fail(colTasks, err)
			return
		}
		p.tasks.list, p.tasks.count = list, n
	}
	j.Tasks, j.TaskCount = p.tasks.list, p.tasks.count
}

func unsetBytes(b []byte) bool {
	return len(b) == 0 || string(b) == "N/A" || string(b) == "(null)"
}
