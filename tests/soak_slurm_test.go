package tests

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// soakSlurm is a small Slurm in memory and virtual time: users whose queue
// stays equally long submit jobs and arrays, cancel them and change their Nice;
// jobs start by priority, end, fail with their node and are requeued; another
// tool takes values away; some writes come to nothing.
type soakSlurm struct {
	r       *rand.Rand
	now     time.Time
	passed  time.Duration // since the last poll
	pending int           // records that wait, as long as the users keep the queue
	minutes int           // mean run time of a job
	nextID  uint32
	jobs    []soakJob // in the order of submission, tasks beside their array
	nodes   []cluster.Node
	past    []cluster.PastStay // ended within pastKept
	ended   int                // runs so far
}

// soakJob is a record of the queue. own is Slurm's part of its priority but for
// age and Nice.
type soakJob struct {
	cluster.Job
	tasks []int32 // of an unsplit array
	own   int64
	node  int           // that it runs on
	run   time.Duration // how long it will run
	left  bool
}

const (
	soakGPUs   = 8                // of a node
	requeueGap = 2 * time.Minute  // after a requeue Slurm waits so long
	pastKept   = 30 * time.Minute // longer than the daemon looks back
)

func newSoakSlurm(seed uint64, nodes, pending, minutes int) *soakSlurm {
	s := &soakSlurm{r: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_800_000_000, 0), pending: pending, minutes: minutes, nextID: 1000}
	for n := range nodes {
		s.nodes = append(s.nodes, cluster.Node{
			Name: "n" + strconv.Itoa(n), Usable: true, State: "IDLE", Features: []string{"a100"}, GPUType: "a100",
			GPUs: soakGPUs, CPUs: 64, MemMB: 512_000,
		})
	}
	s.submit()
	return s
}

func (s *soakSlurm) oneIn(n int) bool { return s.r.IntN(n) == 0 }

// happens reports whether what happens once in mean, by chance, happened since
// the last poll.
func (s *soakSlurm) happens(mean time.Duration) bool {
	return s.r.Float64() < 1-math.Exp(-s.passed.Seconds()/mean.Seconds())
}

// pass lets virtual time pass: what happens on a cluster between two polls.
func (s *soakSlurm) pass(d time.Duration) {
	s.now, s.passed = s.now.Add(d), d
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.Usable = !s.happens(100*time.Hour) && (n.Usable || s.happens(time.Hour)); !n.Usable {
			n.State = "DOWN"
		}
	}
	for i := range s.jobs {
		switch j := &s.jobs[i]; {
		case j.State == cluster.Completing:
			j.left = true
		case j.State == cluster.Running && !s.nodes[j.node].Usable:
			s.requeue(j, s.now)
		case j.State == cluster.Running && !s.now.Before(j.Start.Add(j.run)):
			s.end(j, j.Start.Add(j.run))
			if j.left = true; s.oneIn(20) { // its processes hang on
				j.left, j.State = false, cluster.Completing
			}
		case j.State == cluster.Running && s.happens(20*time.Hour):
			s.requeue(j, s.now)
		case j.State == cluster.Pending:
			s.touch(j)
		}
	}
	s.jobs = slices.DeleteFunc(s.jobs, func(j soakJob) bool { return j.left })
	s.past = slices.DeleteFunc(s.past, func(p cluster.PastStay) bool { return p.End.Before(s.now.Add(-pastKept)) })
	s.submit()
	s.schedule()
}

// touch is what users and other tools do to a pending job.
func (s *soakSlurm) touch(j *soakJob) {
	if !s.happens(8 * time.Hour) {
		return
	}
	switch s.r.IntN(6) {
	case 0, 1:
		j.left = true // cancelled
	case 2, 3:
		j.Nice = int64(s.r.IntN(500))
	case 4:
		j.SiteFactor = 0
	case 5:
		j.SiteFactor = 12345
	}
}

func (s *soakSlurm) end(j *soakJob, at time.Time) {
	s.nodes[j.node].GPUsUsed -= j.GPUs
	s.ended++
	tag, _ := jobtag.Encode(j.Tag)
	s.past = append(s.past, cluster.PastStay{
		Stay: cluster.Stay{
			Job: j.ID, Start: j.Start, End: at, Closed: true, GPUType: "a100", GPUs: j.GPUs, User: j.User, Account: j.Account, Restarts: j.Restarts,
		},
		Eligible: j.Eligible, Tag: jobtag.Read(tag),
	})
}

func (s *soakSlurm) requeue(j *soakJob, at time.Time) {
	s.end(j, at)
	j.State, j.Reason, j.NodeList, j.GPUType = cluster.Pending, "BeginTime", "", ""
	j.Restarts++
	j.Submit, j.Eligible, j.Start = at, at.Add(requeueGap), time.Time{}
}

// submit fills the queue up.
func (s *soakSlurm) submit() {
	waiting := 0
	for i := range s.jobs {
		if s.jobs[i].State == cluster.Pending {
			waiting++
		}
	}
	for ; waiting < s.pending; waiting++ {
		n := s.r.IntN(40)
		id := s.nextID
		s.nextID++
		j := soakJob{own: 1000 + int64(s.r.IntN(1000)), Job: cluster.Job{
			ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "user" + strconv.Itoa(n), Account: "account" + strconv.Itoa(n%7),
			Partition: "gpu", QOS: "normal", State: cluster.Pending, Reason: "Priority", Nodes: 1, CPUs: 8, MemMB: 64_000,
			GPUs: 1 << s.r.IntN(3), TimeLimit: time.Hour, Submit: s.now, Eligible: s.now,
		}}
		switch s.r.IntN(10) {
		case 0, 1, 2, 3:
			j.Tag.Type = "te"
		case 4:
			j.Tag = jobtag.Tag{Type: "be", Grace: time.Duration(s.r.IntN(600)) * time.Second}
		case 5:
			j.TagErr = "type: want te, be or none"
		case 6:
			if j.Reason, j.Dependency = "Dependency", true; s.oneIn(10) {
				j.Reason, j.Dependency = "JobHeldUser", false
			}
		}
		if s.oneIn(20) {
			for t := range 2 + s.r.IntN(30) {
				j.tasks = append(j.tasks, int32(t))
			}
			j.list()
		}
		s.jobs = append(s.jobs, j)
	}
}

// list brings the record up to the tasks that it still holds.
func (j *soakJob) list() {
	j.Tasks, j.TaskCount = slurmplug.CompactTasks(j.tasks), len(j.tasks)
}

// split gives a task of an array a record of its own; the last one takes over
// the array's.
func (s *soakSlurm) split(j *soakJob, task int32) soakJob {
	at, held := slices.BinarySearch(j.tasks, task)
	if !held {
		panic(fmt.Sprintf("job %s holds no task %d", j.ID, task))
	}
	own := *j
	own.ID.Task, own.Tasks, own.TaskCount, own.tasks = task, "", 1, nil
	if len(j.tasks) == 1 {
		j.left = true
		return own
	}
	own.RawID = s.nextID
	s.nextID++
	j.tasks = slices.Delete(j.tasks, at, at+1)
	j.list()
	return own
}

// schedule starts what fits, by priority. Held jobs and dependencies end
// after a while.
func (s *soakSlurm) schedule() {
	order := make([]int, 0, len(s.jobs))
	for i := range s.jobs {
		j := &s.jobs[i]
		j.Priority = s.priority(j)
		if j.Held() || j.Dependency {
			if s.happens(time.Hour) {
				j.Reason, j.Dependency = "Priority", false
			}
			continue
		}
		if j.State == cluster.Pending && !j.Eligible.After(s.now) {
			j.Reason = "Priority"
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(s.jobs[b].Priority - s.jobs[a].Priority) })
	free := 0
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Usable {
			free += n.GPUs - n.GPUsUsed
		}
	}
	var started []soakJob
	for _, i := range order {
		for free > 0 && s.jobs[i].State == cluster.Pending && !s.jobs[i].left {
			node := slices.IndexFunc(s.nodes, func(n cluster.Node) bool { return n.Usable && n.GPUs-n.GPUsUsed >= s.jobs[i].GPUs })
			if node < 0 {
				break
			}
			free -= s.jobs[i].GPUs
			if j := &s.jobs[i]; j.Tasks != "" {
				task := s.split(j, j.tasks[0])
				s.start(&task, node)
				started = append(started, task)
			} else {
				s.start(j, node)
			}
		}
	}
	s.jobs = slices.DeleteFunc(append(s.jobs, started...), func(j soakJob) bool { return j.left })
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Usable {
			n.CPUsUsed, n.MemUsedMB = 8*n.GPUsUsed, int64(n.GPUsUsed)*64_000
			n.State = []string{"IDLE", "MIXED"}[min(n.GPUsUsed, 1)]
		}
	}
}

func (s *soakSlurm) start(j *soakJob, node int) {
	j.State, j.Reason, j.Start, j.node = cluster.Running, "None", s.now, node
	j.GPUType, j.NodeList = "a100", s.nodes[node].Name
	j.run = time.Duration((0.2 + 1.6*s.r.Float64()) * float64(s.minutes) * float64(time.Minute))
	s.nodes[node].GPUsUsed += j.GPUs
}

func (s *soakSlurm) priority(j *soakJob) int64 {
	if j.Reason == "JobHeldUser" {
		return 0
	}
	return j.own + min(int64(s.now.Sub(j.Submit)/time.Minute), 1000) - j.Nice + j.SiteFactor
}

// Observe implements plan.Slurm. Each snapshot has memory of its own, as a
// poll's has.
func (s *soakSlurm) Observe(context.Context) (cluster.Snapshot, error) {
	snap := cluster.Snapshot{At: s.now, Cluster: "soak", Nodes: slices.Clone(s.nodes), Jobs: make([]cluster.Job, len(s.jobs))}
	snap.Multifactor.Span = 4000
	for i := range s.jobs {
		j := &s.jobs[i]
		snap.Jobs[i] = j.Job
		o := &snap.Jobs[i]
		o.Priority = s.priority(j)
		if o.SiteFactorKnown = j.State == cluster.Pending && !j.Held() && !j.Dependency && !j.Eligible.After(s.now); !o.SiteFactorKnown {
			o.SiteFactor = 0
		}
	}
	return snap, nil
}

// Apply implements plan.Slurm.
func (s *soakSlurm) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	at := make(map[cluster.JobID]int, len(s.jobs))
	for i := range s.jobs {
		at[s.jobs[i].ID] = i
	}
	out := make([]plan.Outcome, len(actions))
	for k, a := range actions {
		out[k] = plan.Outcome{Action: a, Status: slurmplug.Applied}
		i, there := at[a.Job]
		switch {
		case !there || s.oneIn(500):
			out[k].Status, out[k].Message = slurmplug.Raced, "Invalid job id specified"
			continue
		case s.oneIn(500):
			out[k].Status, out[k].Message = slurmplug.Unknown, "timed out"
			if s.oneIn(2) {
				continue
			}
		}
		value := a.After.Number()
		if !a.After.IsNumber() || a.Lever != slurmplug.SiteFactor {
			panic(fmt.Sprintf("%+v", a))
		}
		if !a.Part {
			s.jobs[i].SiteFactor = value
			continue
		}
		tasks, err := slurmplug.ExpandTasks(a.Tasks)
		if err != nil {
			panic(err)
		}
		for _, t := range tasks {
			own := s.split(&s.jobs[i], t)
			own.SiteFactor = value
			s.jobs = append(s.jobs, own)
		}
	}
	s.jobs = slices.DeleteFunc(s.jobs, func(j soakJob) bool { return j.left })
	return out
}

// Past is what accounting tells.
func (s *soakSlurm) Past(since, until time.Time) (past []cluster.PastStay) {
	for _, p := range s.past {
		if p.End.After(since) && !p.End.After(until) {
			past = append(past, p)
		}
	}
	return past
}
