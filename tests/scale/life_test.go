package scale

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// life is a generated cluster on which all goes its way between two polls: users keep the
// queue equally long, cancel jobs and change their Nice; jobs start by priority, end, fail,
// and are requeued; nodes go down; victims leave in their grace, or at its end.
type life struct {
	*slurm
	passed   time.Duration // since the last poll
	pending  int           // records that wait
	minutes  int           // mean run time of a job
	patient  bool          // nobody cancels a job
	kept     map[cluster.JobID]failedJob
	reserved map[string]reserved // by the reservation's name
	stays    []cluster.PastStay  // ended within pastKept
	ended    int                 // runs so far
	failed   int                 // of these
	commands map[plan.CommandKind]int
}

// failedJob is one that failed: slurmctld keeps its record for minJobAge.
type failedJob struct {
	job
	final string
	at    time.Time
}

type reserved struct {
	nodes []string
	until time.Time
}

const (
	minJobAge  = time.Hour
	pastKept   = 2 * time.Hour
	requeueGap = 2 * time.Minute // after a requeue Slurm waits so long
	leafNodes  = 3
	maxNodes   = 4 // of a job
)

// newLife brings a generated cluster to life, with so many records that wait.
func newLife(s *slurm, pending, minutes int) *life {
	l := &life{slurm: s, pending: pending, minutes: minutes, kept: map[cluster.JobID]failedJob{}, reserved: map[string]reserved{}, commands: map[plan.CommandKind]int{}}
	for i := range l.nodes {
		n, leaf := &l.nodes[i], i/leafNodes
		l.leaves[n.Name] = "leaf" + strconv.Itoa(leaf)
		n.Features, n.Partitions = []string{n.GPUType, []string{"ib", "eth"}[leaf%2]}, []string{"gpu", "long"}[:1+leaf%2]
	}
	for i := range l.jobs {
		if j := &l.jobs[i]; j.State == cluster.Running {
			j.Start, j.run = l.now, l.runTime()
		}
	}
	return l
}

func (l *life) runTime() time.Duration {
	return time.Duration((0.2 + 1.6*l.rnd.Float64()) * float64(l.minutes) * float64(time.Minute))
}

func (l *life) oneIn(n int) bool { return l.rnd.IntN(n) == 0 }

// happens reports whether what happens once in mean, by chance, happened since the last poll.
func (l *life) happens(mean time.Duration) bool {
	return l.rnd.Float64() < 1-math.Exp(-l.passed.Seconds()/mean.Seconds())
}

// pass lets time go on to the next poll.
func (l *life) pass(d time.Duration) {
	l.passed = d
	l.tick(d)
	for i := range l.nodes {
		n := &l.nodes[i]
		n.Usable, n.State = !l.happens(100*time.Hour) && (n.Usable || l.happens(time.Hour)), "IDLE"
		if !n.Usable {
			n.State = "DOWN"
		}
	}
	for i := range l.jobs {
		switch j := &l.jobs[i]; j.State {
		case cluster.Pending:
			l.touch(j)
		case cluster.Running:
			if l.onDown(j) || l.happens(40*time.Hour) {
				l.ran(j, "NODE_FAIL", l.now)
				l.requeue(j, requeueGap)
			}
		}
	}
	l.drop()
	for l.waiting() < l.pending {
		l.submit(l.now)
		j := &l.jobs[len(l.jobs)-1]
		if j.Nodes > maxNodes {
			j.CPUs, j.MemMB, j.GPUs = j.CPUs/j.Nodes*maxNodes, j.MemMB/int64(j.Nodes)*maxNodes, gpusPerNode*maxNodes
			j.Nodes = maxNodes
		}
		if j.Nodes == 1 && j.Tasks == "" && j.ID.Task == slurmplug.NoTask && j.GPUs > 2 && l.oneIn(3) {
			j.most = 4
		}
	}
	l.schedule()
}

// tick lets a short time go on, in which nothing but runs end: the daemon tends its
// evictions meanwhile.
func (l *life) tick(d time.Duration) {
	l.now, l.at = l.now.Add(d), nil
	for i := range l.jobs {
		j := &l.jobs[i]
		if j.State != cluster.Running {
			continue
		}
		end, final := j.Start.Add(j.run), "COMPLETED"
		if j.RawID%10 == 3 && j.Restarts%3 < 2 {
			final = "FAILED"
		}
		if !j.leaves.IsZero() && j.leaves.Before(end) { // it saves its state, and says that it is not done
			end, final = j.leaves, "FAILED"
		}
		if !end.After(l.now) {
			l.ran(j, final, end)
			j.gone = true
		}
	}
	l.drop()
	for id, f := range l.kept {
		if l.now.Sub(f.at) >= minJobAge {
			delete(l.kept, id)
		}
	}
	for id, p := range l.past {
		if l.now.Sub(p.End) >= pastKept {
			delete(l.past, id)
		}
	}
	for name, r := range l.reserved {
		if !l.now.Before(r.until) {
			delete(l.reserved, name)
		}
	}
	l.stays = slices.DeleteFunc(l.stays, func(p cluster.PastStay) bool { return p.End.Before(l.now.Add(-pastKept)) })
}

// drop takes out of the queue who has left it.
func (l *life) drop() {
	l.jobs = slices.DeleteFunc(l.jobs, func(j job) bool { return j.gone })
	l.at = nil
}

func (l *life) waiting() (n int) {
	for i := range l.jobs {
		if l.jobs[i].State == cluster.Pending {
			n++
		}
	}
	return n
}

func (l *life) onDown(j *job) bool {
	return slices.ContainsFunc(l.nodesOf(j), func(i int) bool { return !l.nodes[i].Usable })
}

func (l *life) nodesOf(j *job) (on []int) {
	names, err := slurmplug.ExpandHosts(j.NodeList)
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		on = append(on, l.index(name))
	}
	return on
}

// touch is what happens to a job that waits.
func (l *life) touch(j *job) {
	switch {
	case j.Reason == "BeginTime":
		if !j.Eligible.After(l.now) {
			j.Reason, j.SiteFactorKnown = "Priority", true
		}
	case j.Reason != "Priority":
		if l.happens(time.Hour) {
			j.Reason, j.Dependency, j.SiteFactorKnown = "Priority", false, true
		}
	case l.happens(4 * time.Hour):
		switch l.rnd.IntN(4) {
		case 0, 1:
			j.gone = !l.patient // cancelled
		case 2:
			j.Nice = int64(l.rnd.IntN(500))
		case 3:
			j.SiteFactor = int64(12345 * l.rnd.IntN(2)) // another tool
		}
	}
}

// ran takes a job off its nodes, of which accounting then tells.
func (l *life) ran(j *job, final string, at time.Time) {
	l.end(j)
	l.ended++
	l.past[j.ID] = plan.JobStatus{Job: j.Job, Gone: true, Final: final, End: at}
	l.stays = append(l.stays, cluster.PastStay{
		Stay: cluster.Stay{
			Job: j.ID, Start: j.Start, End: at, Closed: true, GPUType: l.nodes[l.nodesOf(j)[0]].GPUType, GPUs: j.GPUs, User: j.User, Account: j.Account, Restarts: j.Restarts,
		},
		RawID: j.RawID, Name: j.Name, QOS: j.QOS, NodeList: j.NodeList, State: final, Submit: j.Submit, Eligible: j.Eligible, Tag: jobtag.Text{Tag: j.Tag, Text: j.TagText},
	})
	if final == "FAILED" {
		l.failed++
		own := *j
		own.State = cluster.Other
		l.kept[j.ID] = failedJob{own, final, at}
	}
}

// requeue puts a job that left its nodes back into the queue.
func (l *life) requeue(j *job, wait time.Duration) {
	j.State, j.Reason, j.Start, j.NodeList, j.SiteFactorKnown = cluster.Pending, "BeginTime", time.Time{}, "", false
	j.Restarts++
	j.leaves, j.Submit, j.Eligible = time.Time{}, l.now, l.now.Add(max(wait, requeueGap))
	if j.most > 0 {
		j.Nodes = 1
	}
}

// schedule starts what fits, by priority.
func (l *life) schedule() {
	l.find(cluster.JobID{})
	var order []int
	for i := range l.jobs {
		if j := &l.jobs[i]; j.State == cluster.Pending && j.Reason == "Priority" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.priority(&l.jobs[b]), l.priority(&l.jobs[a])) })
	for _, i := range order {
		for l.jobs[i].State == cluster.Pending {
			on := l.room(&l.jobs[i])
			if on == nil {
				break
			}
			at := i
			if list := l.jobs[i].Tasks; list != "" {
				tasks, err := slurmplug.ExpandTasks(list)
				if err != nil {
					panic(err)
				}
				at = l.split(&l.jobs[i], slurmplug.CompactTasks(tasks[:1]))[0]
				l.jobs[at].Tasks, l.jobs[at].TaskCount, l.jobs[at].ID.Task = "", 1, tasks[0]
			}
			j := &l.jobs[at]
			j.Nodes, j.run = len(on), l.runTime()
			l.start(j, on, l.now)
		}
	}
	for i := range l.nodes {
		if n := &l.nodes[i]; n.Usable && n.GPUsUsed > 0 {
			n.State = "MIXED"
		}
	}
	l.at = nil
}

// room are nodes of one GPU type on which a job may start now; nil: there are none.
func (l *life) room(j *job) []int {
	constraint, err := slurmplug.ParseConstraint(j.Features)
	if err != nil {
		panic(err)
	}
	refused, err := slurmplug.ExpandHosts(j.refused)
	if err != nil {
		panic(err)
	}
	required, err := slurmplug.ExpandHosts(j.required)
	if err != nil {
		panic(err)
	}
	leaves := l.accepted(j)
	for n := j.Nodes; n <= max(j.Nodes, j.most) && j.GPUs%n == 0; n *= 2 {
		for _, gpus := range gpuTypes {
			var on []int
			for i := range l.nodes {
				node := &l.nodes[i]
				if node.GPUType != gpus || j.GPUType != "" && j.GPUType != gpus || !l.holds(i, j, n) || l.isReserved(node.Name) || slices.Contains(refused, node.Name) ||
					len(required) > 0 && !slices.Contains(required, node.Name) || !constraint.Allows(node.Features) ||
					!slices.ContainsFunc(strings.Split(j.Partition, ","), func(p string) bool { return slices.Contains(node.Partitions, p) }) {
					continue
				}
				if on = append(on, i); len(on) == n {
					if on[n-1]/leafNodes-on[0]/leafNodes < leaves {
						return on
					}
					on = on[1:]
				}
			}
		}
	}
	return nil
}

// accepted is how many switches a job accepts now.
func (l *life) accepted(j *job) int {
	if j.accepts == "" {
		return math.MaxInt
	}
	count, wait, err := slurmplug.ParseSwitches(j.accepts)
	if err != nil {
		panic(err)
	}
	if count == 0 || l.now.Sub(j.Eligible) >= wait {
		return math.MaxInt
	}
	return count
}

func (l *life) isReserved(node string) bool {
	for _, r := range l.reserved {
		if slices.Contains(r.nodes, node) {
			return true
		}
	}
	return false
}

// Look shows single jobs, also those that failed a while ago.
func (l *life) Look(ctx context.Context, targets []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	sights, err := l.slurm.Look(ctx, targets)
	for id := range sights {
		if f, known := l.kept[id]; known && l.find(id) == nil {
			sights[id] = plan.JobStatus{Job: f.Job, Final: f.final, ExitCode: 1, CanRequeue: true, ReqNodes: f.required}
		}
	}
	return sights, err
}

// Excluded are the nodes that a job refuses.
func (l *life) Excluded(ctx context.Context, t plan.Target) (string, error) {
	if f, known := l.kept[t.Job]; known {
		return f.refused, nil
	}
	return l.slurm.Excluded(ctx, t)
}

// Ends says that some programs fail by themselves, and others with their nodes.
func (l *life) Ends(_ context.Context, sights map[cluster.JobID]plan.JobStatus, _ bool, _ map[cluster.JobID]plan.Mark) map[cluster.JobID]plan.End {
	ends := map[cluster.JobID]plan.End{}
	for id := range sights {
		ends[id] = plan.End{StepCode: 1 + int(id.ID%3)}
	}
	return ends
}

// Apply writes, but for one write in 500 whose job has just ended, and one of which priod does not hear what became of it.
func (l *life) Apply(ctx context.Context, actions []plan.Action) []plan.Outcome {
	out := make([]plan.Outcome, len(actions))
	for k, a := range actions {
		odd := slurmplug.Applied
		switch {
		case l.oneIn(500):
			odd = slurmplug.Raced
		case l.oneIn(500):
			odd = slurmplug.Unknown
		}
		if out[k] = (plan.Outcome{Action: a, Status: odd}); odd == slurmplug.Applied || odd == slurmplug.Unknown && l.oneIn(2) {
			out[k] = l.slurm.Apply(ctx, actions[k:k+1])[0]
		}
		if odd != slurmplug.Applied {
			out[k].Status, out[k].Message = odd, "timed out"
		}
	}
	return out
}

// Do carries out what evictions and retries send.
func (l *life) Do(ctx context.Context, commands []plan.Command) []plan.Result {
	results := make([]plan.Result, len(commands))
	for i, c := range commands {
		l.commands[c.Kind]++
		l.sent++
		results[i] = plan.Result{Command: c, Status: slurmplug.Applied}
		if why := l.do(&c); why != "" {
			results[i].Status, results[i].Message = slurmplug.Refused, why
		}
	}
	return results
}

func (l *life) do(c *plan.Command) (refused string) {
	switch c.Kind {
	case plan.Reserve:
		names, err := slurmplug.ExpandHosts(c.Nodes)
		if err != nil {
			return err.Error()
		}
		l.reserved[c.Value.String()] = reserved{names, l.now.Add(c.For)}
		return ""
	case plan.Free:
		delete(l.reserved, c.Value.String())
		return ""
	case plan.Drain:
		return "Access/permission denied"
	}
	if f, known := l.kept[c.Job]; known && l.find(c.Job) == nil && (c.Kind == plan.Requeue || c.Kind == plan.HoldBack) {
		delete(l.kept, c.Job)
		l.requeue(&f.job, c.Value.Delay())
		if c.Kind == plan.HoldBack {
			f.Reason, f.Eligible = "JobHeldUser", l.now
		}
		l.jobs, l.at = append(l.jobs, f.job), nil
		return ""
	}
	j := l.find(c.Job)
	if j == nil {
		return "Invalid job id specified"
	}
	switch c.Kind {
	case plan.Signal:
		if j.leaves.IsZero() && j.RawID%2 == 0 { // the others don't listen
			j.leaves = l.now.Add(j.Tag.Grace / 2)
		}
	case plan.Requeue:
		if j.State != cluster.Running {
			return "Job is not running"
		}
		l.ran(j, "REQUEUED", l.now)
		l.requeue(j, c.Value.Delay())
	case plan.Begin:
		if j.Eligible = l.now.Add(c.Value.Delay()); j.Eligible.After(l.now) {
			j.Reason, j.SiteFactorKnown = "BeginTime", false
		}
	case plan.Pin, plan.Unpin:
		j.required = c.Value.String()
	case plan.Exclude:
		j.refused = c.Value.String()
	}
	return ""
}

// Past is what accounting tells of a span of time.
func (l *life) Past(since, until time.Time) (past []cluster.PastStay) {
	for _, p := range l.stays {
		if p.End.After(since) && !p.End.After(until) {
			past = append(past, p)
		}
	}
	return past
}

// Signs: no source beside the nodes' load.
func (l *life) Signs(context.Context, *cluster.Snapshot, []cluster.JobID) (map[cluster.JobID][]cluster.Sign, error) {
	return nil, nil
}
