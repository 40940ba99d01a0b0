package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/store"
)

// Seen is a record of the queue, by Slurm's own words.
type Seen struct {
	ID, Shown           string // 83; 83, 80_3, 80_[4-7%2], 83+0
	State, Reason       string
	Priority            int64
	Nice                string
	Features, Prefer    string
	ReqNodes, ExcNodes  string
	CPUs, MinCPUs, Mem  string
	Limit               string
	Partition, QOS      string
	Nodes               string // that it runs on
	Start, Submit       time.Time
	Restarts            int
	Dependency, Comment string
	Switches            string // how many switches it accepts, and for how long: 1@5:00
}

// columns are squeue's names of these. The comment is text of users and stands last.
var columns = []string{"JobID", "JobArrayID", "State", "Reason", "PriorityLong", "Nice", "Feature", "Prefer", "ReqNodes", "NumCPUs", "MinCpus", "MinMemory", "TimeLimit", "Partition", "QOS",
	"NodeList", "StartTime", "SubmitTime", "RestartCnt", "Dependency", "ExcNodes", "ReqSwitch", "Wait4Switch", "Comment"}

const sep = "\x1f"

// QueueFormat is squeue's --Format of what ParseQueue reads. Without SubmitTime and
// the like in UTC the machine's zone counts.
func QueueFormat() string { return strings.Join(columns, ":"+sep+",") + ":" + sep }

// ParseQueue reads what squeue printed.
func ParseQueue(text string) (all []Seen, err error) {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), sep, len(columns))
		if len(f) != len(columns) {
			return nil, fmt.Errorf("squeue: %q has %d fields", line, len(f))
		}
		for i := range f {
			f[i] = strings.TrimSuffix(f[i], sep)
			if f[i] == "(null)" || f[i] == "N/A" {
				f[i] = ""
			}
		}
		s := Seen{ID: f[0], Shown: f[1], State: f[2], Reason: f[3], Nice: f[5], Features: f[6], Prefer: f[7], ReqNodes: f[8], CPUs: f[9], MinCPUs: f[10], Mem: f[11], Limit: f[12],
			Partition: f[13], QOS: f[14], Nodes: f[15], Start: Instant(f[16]), Submit: Instant(f[17]), Dependency: f[19], ExcNodes: f[20], Switches: f[21] + "@" + f[22], Comment: f[23]}
		s.Priority, _ = strconv.ParseInt(f[4], 10, 64)
		s.Restarts, _ = strconv.Atoi(f[18])
		all = append(all, s)
	}
	return all, nil
}

// Instant reads a time of Slurm's; zero for Unknown and the like.
func Instant(text string) time.Time {
	at, _ := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local)
	return at
}

// Node is one of the cluster's, as scontrol shows it.
type Node struct {
	Name       string
	Up         bool
	GPUs, Used int
	FreeCPUs   int
	FreeMB     int
}

// ParseNodes reads what scontrol --oneliner show node printed.
func ParseNodes(text string) (all []Node) {
	for line := range strings.Lines(text) {
		value := func(key string) string {
			_, after, _ := strings.Cut(" "+line, " "+key+"=")
			v, _, _ := strings.Cut(after, " ")
			return strings.TrimSpace(v)
		}
		number := func(key string) int { n, _ := strconv.Atoi(value(key)); return n }
		gpus := func(tres string) int {
			_, after, _ := strings.Cut(","+tres, ",gres/gpu=")
			n, _, _ := strings.Cut(after, ",")
			v, _ := strconv.Atoi(n)
			return v
		}
		state := value("State")
		n := Node{Name: value("NodeName"), Up: !strings.Contains(state, "*") && !strings.Contains(state, "DOWN") && !strings.Contains(state, "DRAIN"),
			GPUs: gpus(value("CfgTRES")), Used: gpus(value("AllocTRES")), FreeCPUs: number("CPUTot") - number("CPUAlloc"), FreeMB: number("RealMemory") - number("AllocMem")}
		if n.Name != "" {
			all = append(all, n)
		}
	}
	return all
}

// View is the cluster at one moment.
type View struct {
	At    time.Time
	Queue []Seen
	Nodes []Node
}

// Event is a line of a job's own log.
type Event struct {
	At   time.Time
	What string // start, piece, saved, signal, exit, failed, complete
	More []string
}

// Number is the n-th word behind What.
func (e Event) Number(n int) int {
	if n >= len(e.More) {
		return 0
	}
	v, _ := strconv.Atoi(e.More[n])
	return v
}

// ParseLog reads a job's log. A line that was cut off, as its process was killed,
// says nothing.
func ParseLog(text string) (all []Event) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasSuffix(line, "\n") {
			continue
		}
		s, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			continue
		}
		all = append(all, Event{time.UnixMicro(int64(s * 1e6)), f[1], f[2:]})
	}
	return all
}

// Ran is a run of a job, as accounting has it.
type Ran struct {
	Start, End time.Time
	State      string
}

// Run is all that was seen of one run.
type Run struct {
	Seed    uint64
	Size    Size
	Jobs    []Job
	IDs     []string // of Jobs; "" where Slurm refused
	Done    []Done
	Views   []View
	Logs    map[string][]Event // by name
	Ran     map[string][]Ran   // by Slurm's id, such as 83 and 80_3
	Journal []store.Eviction   // every eviction that the store had at any time
	Faults  []Happened
	Weather []Weathered
	Cap     int           // of evictions of one job
	Budget  time.Duration // that a job may wait longer than without priod
	Begun   time.Time
	Stopped time.Time // priod was, for that reset
	Reset   View      // the queue after a reset in the middle of the run
	Left    []string  // what else it left: priorities, reservations
	Answers []string  // of priod's verbs that failed
	Words   string    // priod's log
	Grown   []string  // what the daemon holds more and more of
	Off     *Run      // the same without priod

	numbers map[string]int // of jobs by Slurm\'s id, as they were asked for
}

// ControllerEnded is a slurmctld that ended by itself: 22.05.8 does so now and then as a job
// ends, beside priod and without it.
const ControllerEnded = "slurmctld ended by itself"

// Happened is a fault as it came.
type Happened struct {
	At   time.Time
	What string
}

// Part is a job, or a task of an array.
type Part struct {
	Job  *Job
	N    int // of the job
	Task int // -1: no array
	Name string
	ID   string // of Slurm's, 83 or 80_3
}

// Parts are all that have to end.
func (r *Run) Parts() (all []Part) {
	for n := range r.Jobs {
		j := &r.Jobs[n]
		if r.IDs[n] == "" {
			continue
		}
		for k, name := range j.Names() {
			p := Part{j, n, -1, name, r.IDs[n]}
			if j.Tasks > 0 {
				p.Task, p.ID = k, fmt.Sprintf("%s_%d", r.IDs[n], k)
			}
			all = append(all, p)
		}
	}
	return all
}

// Number is the number of the job that a record is of; -1: none of the run.
func (r *Run) Number(shown string) int {
	id, _, _ := strings.Cut(shown, "_")
	id, _, _ = strings.Cut(id, "+")
	if n, known := r.numbers[id]; known && r.IDs[n] == id {
		return n
	}
	n := slices.Index(r.IDs, id)
	if n >= 0 {
		if r.numbers == nil {
			r.numbers = map[string]int{}
		}
		r.numbers[id] = n
	}
	return n
}

// Unaccounted is how many GPUs Slurm counts as in use beyond those of jobs that run or end.
func (v *View) Unaccounted(r *Run) int {
	used := 0
	for _, n := range v.Nodes {
		used += n.Used
	}
	for _, s := range v.Queue {
		if n := r.Number(s.Shown); n >= 0 && (s.State == "RUNNING" || s.State == "COMPLETING") {
			used -= r.Jobs[n].GPUs * max(r.Jobs[n].Nodes, 1)
		}
	}
	return used
}

// ParseRuns reads what sacct printed of JobID, Start, End and State.
func ParseRuns(text string) (map[string][]Ran, error) {
	all := map[string][]Ran{}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 4 {
			return nil, fmt.Errorf("sacct: %q has %d fields", line, len(f))
		}
		id, _, _ := strings.Cut(f[0], "+")
		if strings.HasSuffix(f[0], "+1") {
			continue // the second component of a heterogeneous job ends with the first
		}
		all[id] = append(all[id], Ran{Instant(f[1]), Instant(f[2]), f[3]})
	}
	return all, nil
}
