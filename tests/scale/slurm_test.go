package scale

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// slurm is a generated cluster as priod sees it: polls are texts of Slurm 22.05, which
// live.Cluster parses; closer looks at single jobs, of which there are some hundreds at most
// in a cycle, are answered from memory.
type slurm struct {
	*live.Cluster
	*generated
	texts   map[string][]byte // what the commands of a poll print, made before the cycle
	past    map[cluster.JobID]plan.JobStatus
	at      map[cluster.JobID]int // the place in jobs; nil: to be made
	marking time.Duration         // processor time that Run needed to put in priod's marks
	sent    int                   // commands that evictions and retries sent
}

func newSlurm(seed uint64, jobs int) *slurm {
	s := &slurm{generated: generate(seed, jobs), past: map[cluster.JobID]plan.JobStatus{}}
	s.Cluster = live.New(slurmplug.NewClient(s, slurmplug.Options{}))
	return s
}

// recorded is what a command of Slurm 22.05 printed.
func recorded(name string) []byte {
	text, err := os.ReadFile("../../slurmplug/testdata/22.05/" + name + ".out")
	if err != nil {
		panic(err)
	}
	return text
}

// fields and ends stand for the marks that priod asks for between columns and behind a
// record, until it has said which.
const (
	fieldMark = "\x1fFFFFFF"
	endMark   = "\x1eEEEEEEEEEEEEEEEEEEEEEE"
)

// print makes what the commands of the next poll print.
func (s *slurm) print() {
	var queue, factors, nodes bytes.Buffer
	for _, j := range s.sorted() {
		s.printJob(&queue, &factors, j)
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		fmt.Fprintf(&nodes, "NodeName=%s Arch=x86_64 CoresPerSocket=48  CPUAlloc=%d CPUEfctv=%d CPUTot=%d CPULoad=5.26 AvailableFeatures=%s ActiveFeatures=%s Gres=gpu:%s:%d GresDrain=N/A GresUsed=gpu:%s:%d(IDX:0-7) NodeAddr=10.0.0.1 NodeHostName=%s Version=22.05.8 OS=Linux 6.1.0 #1 SMP  RealMemory=%d AllocMem=%d FreeMem=20635 Sockets=2 Boards=1 State=%s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=%s  BootTime=1795345957 CfgTRES=cpu=96,mem=768000M,billing=96,gres/gpu=8 AllocTRES=\n",
			n.Name, n.CPUsUsed, n.CPUs, n.CPUs, strings.Join(n.Features, ","), strings.Join(n.Features, ","), n.GPUType, n.GPUs, n.GPUType, n.GPUsUsed, n.Name, n.MemMB, n.MemUsedMB, n.State, strings.Join(n.Partitions, ","))
	}
	s.texts = map[string][]byte{"queue": queue.Bytes(), "sprio": factors.Bytes(), "node": nodes.Bytes()}
}

// sorted are the jobs as squeue sorts them where nobody says how (squeue(1), --sort): by
// partition, state, and then the highest priority first.
func (s *slurm) sorted() []*job {
	type key struct {
		*job
		priority int64
	}
	keys := make([]key, len(s.jobs))
	for i := range s.jobs {
		keys[i] = key{&s.jobs[i], s.priority(&s.jobs[i])}
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.State, b.State), cmp.Compare(b.priority, a.priority))
	})
	jobs := make([]*job, len(keys))
	for i := range keys {
		jobs[i] = keys[i].job
	}
	return jobs
}

func (s *slurm) priority(j *job) int64 {
	if j.Reason == "JobHeldUser" {
		return 0
	}
	return j.own + j.SiteFactor - j.Nice
}

// printJob prints the columns of slurmplug's jobColumns in their order.
func (s *slurm) printJob(queue, factors *bytes.Buffer, j *job) {
	task := "N/A"
	if j.Tasks != "" {
		task = j.Tasks
	} else if j.ID.Task != slurmplug.NoTask {
		task = strconv.Itoa(int(j.ID.Task))
	}
	typed, perNode, state, list := "", "gres:gpu:", "PENDING", ""
	if j.GPUType != "" {
		typed, perNode = ",gres/gpu:"+j.GPUType+"="+strconv.Itoa(j.GPUs), perNode+j.GPUType+":"
	}
	if j.State == cluster.Running {
		state, list = "RUNNING", j.NodeList
	}
	dependency := "(null)"
	if j.Dependency {
		dependency = "afterok:" + strconv.Itoa(int(j.RawID-1)) + "(unfulfilled)"
	}
	priority := s.priority(j)
	perJob := "N/A"
	perNode += strconv.Itoa(j.GPUs / j.Nodes)
	if j.most > 0 { // so many GPUs in all
		perJob, perNode = perNode, "N/A"
	}
	columns := [...]string{
		strconv.Itoa(int(j.RawID)), strconv.Itoa(int(j.ID.ID)), task, "N/A", "N/A", strconv.Itoa(int(j.RawID)), "1000", j.User, j.Name, j.Account, j.Partition, j.QOS, "(null)",
		state, j.Reason, dependency, strconv.FormatInt(priority, 10), strconv.FormatInt(j.Nice, 10), strconv.Itoa(j.Restarts),
		strconv.Itoa(j.Nodes), strconv.Itoa(j.CPUs), strconv.Itoa(j.CPUs), "*:*:*", "0", "1",
		fmt.Sprintf("cpu=%d,mem=%dM,node=%d,billing=%d,gres/gpu=%d%s", j.CPUs, j.MemMB, j.Nodes, j.CPUs, j.GPUs, typed),
		perJob, perNode, "N/A", "N/A", "N/A", or(j.Features), "(null)", "OK", "1", list, limit(j.TimeLimit.Minutes()),
		epoch(j.Submit.Unix()), epoch(j.Eligible.Unix()), epoch(j.Start.Unix()), j.TagText,
	}
	for i, c := range columns {
		if i > 0 {
			queue.WriteString(fieldMark)
		}
		queue.WriteString(c)
	}
	queue.WriteString(endMark + "\n")
	if j.State == cluster.Pending && j.SiteFactorKnown {
		fmt.Fprintf(factors, "%d|%d|%d|%d|1000|0|1000|94|100|0|cpu=2,mem=1,gres/gpu=27\n", j.RawID, priority, j.SiteFactor, j.Nice)
	}
}

func or(text string) string {
	if text == "" {
		return "(null)"
	}
	return text
}

func epoch(seconds int64) string {
	if seconds <= 0 {
		return "N/A"
	}
	return strconv.FormatInt(seconds, 10)
}

func limit(minutes float64) string {
	return fmt.Sprintf("%d-%02d:%02d:00", int(minutes)/1440, int(minutes)/60%24, int(minutes)%60)
}

// Run is Slurm's commands as far as a poll runs them.
func (s *slurm) Run(_ context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	line := cmd.Name + " " + strings.Join(cmd.Args, " ")
	var out []byte
	switch {
	case line == "squeue --help" || line == "squeue --version":
		out = recorded("squeue" + cmd.Args[0])
	case line == "scontrol show config":
		out = recorded("config")
	case strings.HasSuffix(line, "show partition"):
		out = []byte("PartitionName=gpu DefaultTime=NONE MaxTime=UNLIMITED PriorityTier=1 OverSubscribe=NO State=UP\nPartitionName=long DefaultTime=NONE MaxTime=UNLIMITED PriorityTier=1 OverSubscribe=NO State=UP\n")
	case strings.HasSuffix(line, "show reservation"):
		out = []byte("No reservations in the system\n")
	case strings.HasSuffix(line, "show node"):
		out = s.texts["node"]
	case cmd.Name == "sprio":
		out = s.texts["sprio"]
	case cmd.Name == "squeue":
		format := cmd.Args[len(cmd.Args)-1]
		field, end := format[strings.Index(format, "\x1f"):], format[strings.Index(format, "\x1e"):]
		out = s.texts["queue"]
		// In place: both are as long as their marks, and a text is read once. This is no part
		// of what a poll costs priod.
		runtime.LockOSThread()
		begun := threadTime()
		defer func() {
			s.marking += threadTime() - begun
			runtime.UnlockOSThread()
		}()
		for from, to := range map[string]string{fieldMark: field[:len(fieldMark)], endMark: end} {
			for at, rest := 0, out; ; {
				if at = bytes.Index(rest, []byte(from)); at < 0 {
					break
				}
				copy(rest[at:], to)
				rest = rest[at+len(to):]
			}
		}
	default:
		return slurmplug.Output{}, fmt.Errorf("nobody expects %q", line)
	}
	return slurmplug.Output{Stdout: out}, nil
}

// threadTime is the processor time of this thread in user mode.
func threadTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_THREAD, &u)
	return time.Duration(u.Utime.Nano())
}

// Observe is live.Cluster's, at the time of the generated cluster.
func (s *slurm) Observe(ctx context.Context) (cluster.Snapshot, error) {
	snap, err := s.Cluster.Observe(ctx)
	snap.At = s.now
	return snap, err
}

// find is the record of a job; nil: there is none.
func (s *slurm) find(id cluster.JobID) *job {
	if s.at == nil {
		s.at = make(map[cluster.JobID]int, len(s.jobs))
		for i := range s.jobs {
			s.at[s.jobs[i].ID] = i
		}
	}
	if i, known := s.at[id]; known {
		return &s.jobs[i]
	}
	return nil
}

// Apply writes at once. An array of which only some tasks are written is split.
func (s *slurm) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	out := make([]plan.Outcome, len(actions))
	for k, a := range actions {
		out[k] = plan.Outcome{Action: a, Status: slurmplug.Applied}
		j := s.find(a.Job)
		if j == nil {
			if j = s.find(slurmplug.Plain(a.Job.ID)); j != nil && a.Job.Task != slurmplug.NoTask { // a task that has no record of its own yet
				a.Part, a.Tasks = true, strconv.Itoa(int(a.Job.Task))
			}
		}
		if j == nil {
			out[k].Status, out[k].Message = slurmplug.Raced, "Invalid job id specified"
			continue
		}
		if !a.Part {
			s.write(j, &a)
			continue
		}
		for _, at := range s.split(j, a.Tasks) {
			s.write(&s.jobs[at], &a)
		}
	}
	return out
}

func (s *slurm) write(j *job, a *plan.Action) {
	switch a.Lever {
	case slurmplug.SiteFactor:
		j.SiteFactor = a.After.Number()
	case slurmplug.Features:
		j.Features = a.After.String()
	case slurmplug.NumNodes:
		_, most, err := slurmplug.ParseNodes(a.After.String())
		if err != nil {
			panic(err)
		}
		j.most = most
	case slurmplug.Switches:
		j.accepts = a.After.String()
	case slurmplug.ExcNodeList:
		j.refused = a.After.String()
	case slurmplug.Size:
		size := a.After.Size()
		j.CPUs, j.MemMB, j.required = max(size.PerTask, size.PerNode, size.CPUs), size.Memory, size.Nodes
	default:
		panic(fmt.Sprintf("%+v", a))
	}
}

// split gives these tasks of an array records of their own, and returns their places.
func (s *slurm) split(j *job, list string) []int {
	tasks, err := slurmplug.ExpandTasks(list)
	all, err2 := slurmplug.ExpandTasks(j.Tasks)
	if err != nil || err2 != nil {
		panic(fmt.Sprint(list, err, err2))
	}
	if len(tasks) == len(all) {
		return []int{s.at[j.ID]}
	}
	own := *j
	own.Tasks, own.TaskCount = "", 1
	rest := slices.DeleteFunc(all, func(t int32) bool { return slices.Contains(tasks, t) })
	j.Tasks, j.TaskCount = slurmplug.CompactTasks(rest), len(rest)
	var places []int
	for _, t := range tasks {
		own.ID.Task, own.RawID = t, s.nextID
		s.nextID++
		s.at[own.ID] = len(s.jobs)
		places = append(places, len(s.jobs))
		s.jobs = append(s.jobs, own)
	}
	return places
}

// Places are what waiting jobs say of their nodes.
func (s *slurm) Places(_ context.Context, raw map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	places := map[cluster.JobID]cluster.Place{}
	for id := range raw {
		if j := s.find(id); j != nil {
			places[id] = cluster.Place{Required: j.required, Excluded: j.refused, Bounds: slurmplug.Bounds{Tasks: 1, CPUs: j.CPUs / j.Nodes}}
		}
	}
	return places, nil
}

// Ask says how jobs ask for their sizes.
func (s *slurm) Ask(_ context.Context, jobs []*cluster.Job) error {
	for _, row := range jobs {
		if j := s.find(row.ID); j != nil && j.State == cluster.Pending {
			row.Asked = slurmplug.AskedBy(j.GPUs, j.CPUs, j.MemMB, j.required)
			if j.Nodes > 1 {
				row.Asked.Fixed = "asks for several nodes"
			}
		}
	}
	return nil
}

// Topology is a tree of switches.
func (s *slurm) Topology(context.Context) (cluster.Topology, error) {
	return cluster.Topology{Leaves: s.leaves, MaxWait: -1}, nil
}

// AskSwitches says what jobs ask of switches.
func (s *slurm) AskSwitches(_ context.Context, jobs []*cluster.Job) error {
	for _, row := range jobs {
		if j := s.find(row.ID); j != nil {
			if row.Switches = j.accepts; row.Switches == "" {
				row.Switches = slurmplug.NoSwitches
			}
		}
	}
	return nil
}

// AskNodeCounts says how many nodes jobs ask for.
func (s *slurm) AskNodeCounts(_ context.Context, jobs []*cluster.Job) error {
	for _, row := range jobs {
		if j := s.find(row.ID); j != nil {
			row.NodeCount = slurmplug.NodesText(j.Nodes, max(j.Nodes, j.most))
		}
	}
	return nil
}

// Look shows single jobs.
func (s *slurm) Look(_ context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	sights := map[cluster.JobID]plan.JobStatus{}
	for _, t := range targets {
		if j := s.find(t.Job); j != nil {
			row := j.Job
			row.Priority = s.priority(j) // 0: held
			sights[t.Job] = plan.JobStatus{Job: row, CanRequeue: true, ReqNodes: j.required}
		} else if past, known := s.past[t.Job]; known {
			sights[t.Job] = past
		} else {
			sights[t.Job] = plan.JobStatus{Gone: true}
		}
	}
	return sights, nil
}

// Excluded are the nodes that a job refuses.
func (s *slurm) Excluded(_ context.Context, t plan.Target) (string, error) {
	if j := s.find(t.Job); j != nil {
		return j.refused, nil
	}
	return "", nil
}

// AtOnce is unlimited.
func (s *slurm) AtOnce(context.Context, plan.Target) (int, error) { return 0, nil }

// Ends are no more than what Look shows.
func (s *slurm) Ends(context.Context, map[cluster.JobID]plan.JobStatus, bool, map[cluster.JobID]plan.Mark) map[cluster.JobID]plan.End {
	return nil
}

// MostRestarts is unlimited.
func (s *slurm) MostRestarts() int { return 0 }

// Do carries out what evictions and retries send.
func (s *slurm) Do(_ context.Context, commands []plan.Command) []plan.Result {
	results := make([]plan.Result, len(commands))
	s.sent += len(commands)
	for i, c := range commands {
		results[i] = plan.Result{Command: c, Status: slurmplug.Applied}
		j := s.find(c.Job)
		if j == nil {
			continue
		}
		switch c.Kind {
		case plan.Requeue:
			if j.State == cluster.Running {
				s.end(j)
				j.State, j.Reason, j.Start, j.NodeList = cluster.Pending, "BeginTime", time.Time{}, ""
				j.Restarts++
				j.Submit, j.Eligible = s.now, s.now.Add(c.Value.Delay())
			}
		case plan.Begin:
			j.Eligible = s.now.Add(c.Value.Delay())
		case plan.Pin, plan.Unpin:
			j.required = c.Value.String()
		case plan.Exclude:
			j.refused = c.Value.String()
		}
	}
	return results
}

// Signs: no source beside the nodes' load.
func (s *slurm) Signs(context.Context, *cluster.Snapshot, []cluster.JobID) (map[cluster.JobID][]cluster.Sign, error) {
	return nil, nil
}
