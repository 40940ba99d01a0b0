package fit

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"slurmprio/priod/cluster"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// forms are the ways in which a job asks that a write must not change. Each has nodes @a1, @b1 and @c1 to itself.
var forms = []string{
	"-n3", "-c3", "-n2 -c3", "-N2 -n3", "-N1-2 -n4", "-N2-3", "--ntasks-per-node=2", "-N2 --ntasks-per-node=2", "-n3 --ntasks-per-node=4", "-N2 -n3 --ntasks-per-node=2",
	"--ntasks-per-core=1 -n2", "--ntasks-per-socket=2 -n4", "--mincpus=4", "--exclusive", "--exclusive=user", "--hint=nomultithread -n2", "--threads-per-core=1 -c4", "--overcommit -n4",
	"--gres=gpu:2", "--gres=gpu:a100:2,lscratch:10 -n4", "--gpus=2", "--gpus=3 -n6", "--gpus-per-node=2 -N2", "--gpus-per-task=1 -n3", "--gpus-per-socket=1 --sockets-per-node=2",
	"-n4 --ntasks-per-gpu=2", "--gpus=4 --ntasks-per-gpu=1", "--gres=gpu:2 --ntasks-per-gpu=2", "-N2 --gpus=4 --ntasks-per-gpu=2", "-N1-2 -n4 --ntasks-per-gpu=2",
	"--gpus=2 --cpus-per-gpu=3", "--gpus=2 --mem-per-gpu=1500", "--gres=gpu:1 --cpus-per-gpu=2 --mem-per-gpu=1500", "--gres=gpu:1 --mem=3000", "--gres=gpu:1 --mem-per-cpu=700 -c3", "--mem=0",
	"--constraint=fast", "--constraint=fast|slow", "--licenses=@lic:1", "--array=1-3 -n2", "--array=1-4%2 --gres=gpu:1 -c2", "-w @b1 -n2", "-x @a1", "--contiguous -N2", "--spread-job -N2 -n4",
	"-n1 --gres=gpu:1 : -n2 --gres=gpu:2",
}

// write is a lever, and the values that priod may write to a waiting job and take back.
type write struct {
	lever slurmplug.Lever // "": nothing is written
	// ask reads what the poll does not show; may be nil.
	ask func(context.Context, *live.Cluster, []*cluster.Job) error
	// of is what is written and what takes it back; false for a job to which priod does not write it.
	of func(j *cluster.Job) (value, back slurmplug.Value, ok bool)
}

func always(value, back slurmplug.Value) func(*cluster.Job) (slurmplug.Value, slurmplug.Value, bool) {
	return func(*cluster.Job) (slurmplug.Value, slurmplug.Value, bool) { return value, back, true }
}

// plain reports whether a job is a record of its own that names no nodes.
func plain(j *cluster.Job) bool {
	return j.Tasks == "" && j.HetLeader == 0 && !strings.Contains(j.Name, "-w") && !strings.Contains(j.Name, "-x")
}

// writes are priod's levers (slurmplug/update.go).
var writes = []write{
	{of: func(*cluster.Job) (v, b slurmplug.Value, ok bool) { return }},
	{lever: slurmplug.SiteFactor, of: always(slurmplug.Number(1000), slurmplug.Number(0))},
	{lever: slurmplug.Features, of: func(j *cluster.Job) (slurmplug.Value, slurmplug.Value, bool) {
		both := "fast"
		if j.Features != "" {
			both = "(" + j.Features + ")&fast"
		}
		return slurmplug.Text(both), slurmplug.Text(j.Features), j.HetLeader == 0
	}},
	{lever: slurmplug.ReqNodeList, of: func(j *cluster.Job) (slurmplug.Value, slurmplug.Value, bool) {
		return slurmplug.Text(j.Partition + "b1"), slurmplug.Text(""), plain(j) && j.Nodes == 1
	}},
	{lever: slurmplug.ExcNodeList, of: func(j *cluster.Job) (slurmplug.Value, slurmplug.Value, bool) {
		return slurmplug.Text(j.Partition + "b1"), slurmplug.Text(""), plain(j)
	}},
	{lever: "ReservationName", of: func(j *cluster.Job) (slurmplug.Value, slurmplug.Value, bool) {
		return slurmplug.Text(reserved), slurmplug.Text(""), j.HetLeader == 0
	}},
	{lever: slurmplug.Switches, ask: func(ctx context.Context, c *live.Cluster, jobs []*cluster.Job) error { return c.AskSwitches(ctx, jobs) },
		of: func(j *cluster.Job) (slurmplug.Value, slurmplug.Value, bool) {
			own := cmp.Or(j.Switches, slurmplug.NoSwitches)
			return slurmplug.Text(slurmplug.SwitchesText(1, 5*time.Minute)), slurmplug.Text(own), j.HetLeader == 0
		}},
	{lever: slurmplug.NumNodes, ask: func(ctx context.Context, c *live.Cluster, jobs []*cluster.Job) error {
		return c.AskNodeCounts(ctx, jobs)
	},
		of: func(j *cluster.Job) (slurmplug.Value, slurmplug.Value, bool) {
			least, most, err := slurmplug.ParseNodes(j.NodeCount)
			ok := err == nil && plain(j) && j.GPUs > 0 && least == 1 && most != 1 && (most > 0 || lab.AtLeast(24, 11))
			return slurmplug.Text(slurmplug.NodesText(1, 2)), slurmplug.Text(j.NodeCount), ok
		}},
	{lever: slurmplug.Size, ask: func(ctx context.Context, c *live.Cluster, jobs []*cluster.Job) error { return c.Ask(ctx, jobs) },
		of: func(j *cluster.Job) (v, b slurmplug.Value, ok bool) {
			a := j.Asked
			if a == nil || a.Fixed != "" || j.GPUs == 0 || j.HetLeader != 0 || j.Tasks != "" {
				return v, b, false
			}
			value, _, _ := a.Resize(a.CPUs+a.Unit(), a.MemMB+1000, "")
			return value, a.Holds, value != a.Holds
		}},
}

const reserved = "fit" // the name of the reservation

// TestWrites writes each lever to each form of a waiting job, and takes it back: the job asks for what it asked for, and
// starts as one to which nothing was written. Forms that this Slurm breaks are those that priod leaves alone.
func TestWrites(t *testing.T) {
	s := newSite(t)
	s.tree = true
	s.submitter = s.As(lab.PlainUser) // a write to a job of root's is one of an administrator's, which lifts its limits
	var places []*place
	const node = "CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=32000 Gres=gpu:a100:4,lscratch:100 Feature=fast"
	for i, form := range forms {
		if os.Getenv("SLURMPRIO_LONG") == "1" || i%4 == 3 {
			places = append(places, newPlace(form, node))
		}
	}
	for some := range slices.Chunk(places, mostPlaces/2) {
		if err := s.configure(t.Context(), some); err != nil {
			t.Fatal(err)
		}
		s.testWrites(t)
	}
}

func newPlace(form, node string) *place {
	return &place{cases: []*Case{{Name: form, Select: "CR_Core_Memory", Nodes: []string{node, node, strings.ReplaceAll(node, "fast", "fast,slow")}, Licences: "@lic:2", Asks: form}}}
}

func (s *site) testWrites(t *testing.T) {
	started := map[string]string{} // what a form gets to which nothing is written
	for _, lever := range writes {
		written, err := s.write(t, &lever)
		if err != nil {
			t.Fatalf("%s: %v", lever.lever, err)
		}
		for _, j := range written {
			want, known := started[j.form]
			if !known {
				started[j.form] = j.started
			} else if j.started != want {
				t.Errorf("%s, after %s: started with\n  %s, without with\n  %s", j.form, lever.lever, j.started, want)
			}
		}
	}
}

// written is a form and what became of its job.
type written struct {
	form, id string
	started  string // what it got
}

// write submits one job of each form, writes, takes back, and lets all start.
func (s *site) write(t *testing.T, lever *write) ([]*written, error) {
	ctx := t.Context()
	if err := s.partitions(ctx, "DOWN"); err != nil {
		return nil, err
	}
	all, err := s.submitForms(ctx)
	if err != nil {
		return nil, err
	}
	before, err := s.requests(ctx)
	if err != nil {
		return nil, err
	}
	if lever.lever == slurmplug.Lever("ReservationName") { // there, and gone again before the jobs are to start
		if _, err := s.Run(ctx, "scontrol", "create", "reservation", "ReservationName="+reserved, "StartTime=now", "Duration=1:00:00", "Users=root,"+lab.PlainUser, "Nodes=ALL", "Flags=IGNORE_JOBS"); err != nil {
			return nil, err
		}
	}
	if err := s.thereAndBack(t, lever); err != nil {
		return nil, err
	}
	if lever.lever == slurmplug.Lever("ReservationName") {
		if _, err := s.Run(ctx, "scontrol", "delete", "reservation", reserved); err != nil {
			return nil, err
		}
	}
	after, err := s.requests(ctx)
	if err != nil {
		return nil, err
	}
	for _, j := range all {
		if before[j.id] == "" || after[j.id] != before[j.id] {
			t.Errorf("%s: %s changes the request: %s", j.form, lever.lever, differences(before[j.id], after[j.id]))
		}
	}
	return all, s.start(ctx, all)
}

// thereAndBack has priod write to all jobs that wait, and take back what it wrote.
func (s *site) thereAndBack(t *testing.T, lever *write) error {
	if lever.lever == "" {
		return nil
	}
	c := live.New(slurmplug.NewClient(slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: s.Conf()}), slurmplug.Options{}))
	own := map[cluster.JobID]slurmplug.Value{}
	for _, back := range []bool{false, true} {
		snapshot, err := c.Observe(t.Context())
		if err != nil {
			return err
		}
		var jobs []*cluster.Job
		for i := range snapshot.Jobs {
			if j := &snapshot.Jobs[i]; j.State == cluster.Pending && j.Fragile == "" && j.HetOffset == 0 {
				jobs = append(jobs, j)
			}
		}
		if lever.ask != nil {
			if err := lever.ask(t.Context(), c, jobs); err != nil {
				return err
			}
		}
		var actions []plan.Action
		for _, j := range jobs {
			value, was, ok := lever.of(j)
			a := plan.Action{Job: j.ID, Tasks: j.Tasks, Lever: lever.lever, After: value, Was: was, Reason: "fit"}
			if back {
				a.After, ok = own[j.ID]
			} else if ok {
				own[j.ID] = was
			}
			if ok {
				actions = append(actions, a)
			}
		}
		for _, o := range c.Apply(t.Context(), actions) {
			if o.Status != slurmplug.Applied {
				t.Errorf("%s=%s of job %s: %s: %s", o.Lever, o.After, o.Job, o.Status, o.Message)
			}
		}
	}
	t.Logf("%s: to %d jobs", lever.lever, len(own))
	return nil
}

// submitForms submits a job of each form, which does not start.
func (s *site) submitForms(ctx context.Context) ([]*written, error) {
	all := make([]*written, len(s.places))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelSubmissions)
	for i, p := range s.places {
		g.Go(func() error {
			args := p.cases[0].Asks
			args = strings.ReplaceAll(args, " : ", " : --partition="+p.prefix+" --time=1-0 ")
			id, refused, err := s.sbatch(gctx, p, args, "", "--job-name="+args)
			if refused != "" {
				err = fmt.Errorf("sbatch %s: %s", args, refused)
			}
			all[i] = &written{form: args, id: id}
			return err
		})
	}
	return all, g.Wait()
}

// start lets all jobs start, and ends them.
func (s *site) start(ctx context.Context, all []*written) error {
	if err := s.partitions(ctx, "UP"); err != nil {
		return err
	}
	for range 2 { // 22.05 starts a task of an array, or a component, and looks at the next one in another pass
		if _, err := s.pass(ctx); err != nil {
			return err
		}
	}
	for _, j := range all {
		out, err := s.Run(ctx, "squeue", "--noheader", "--array", "--jobs="+j.id, "-O", "State:|,NumNodes:|,NumCPUs:|,NumTasks:|,tres-alloc:|,NodeList:.")
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		slices.Sort(lines)
		j.started = strings.Join(lines, "; ")
	}
	return s.empty(ctx)
}

// partitions sets the state of all partitions.
func (s *site) partitions(ctx context.Context, state string) error {
	var lines strings.Builder
	for _, p := range s.places {
		// Backfill alone starts a heterogeneous job, and of two components in one partition the second ends a
		// pass of 24.11 (job_scheduler.c, fail_this_part): it waits.
		if state == "UP" && strings.Contains(p.cases[0].Asks, " : ") {
			continue
		}
		fmt.Fprintf(&lines, "update PartitionName=%s State=%s\n", p.prefix, state)
	}
	cmd := s.Command(ctx, "scontrol")
	cmd.Stdin = strings.NewReader(lines.String())
	return cmd.Run()
}

// passing are words of scontrol show job that are no part of a request.
var passing = regexp.MustCompile(`^(Priority|Nice|Reason|EligibleTime|AccrueTime|StartTime|EndTime|LastSchedEval|Scheduler|SubmitTime|SiteFactor|RunTime|Deadline|SuspendTime|SecsPreSuspend|PreemptTime|DerivedExitCode|JobState|SLUID|NodeList|BatchHost|SchedNodeList|AdminComment|SystemComment)=`)

// requests are what jobs ask for, as Slurm shows it, by the id that sbatch gave.
func (s *site) requests(ctx context.Context) (map[string]string, error) {
	out, err := s.Run(ctx, "scontrol", "--oneliner", "show", "job")
	all := map[string]string{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		id := ""
		for _, w := range words[:min(4, len(words))] { // JobId=8 HetJobId=7 HetJobOffset=1 ..., JobId=9 ArrayJobId=7 ...
			if key, value, _ := strings.Cut(w, "="); key == "JobId" || key == "HetJobId" || key == "ArrayJobId" {
				id = value
			}
		}
		// 24.11 shows an open number of nodes as 1 or as 1-1, by tasks and CPUs that it was sent before.
		all[id] += strings.ReplaceAll(strings.Join(slices.DeleteFunc(words, passing.MatchString), " "), "NumNodes=1-1 ", "NumNodes=1 ")
	}
	return all, err
}

// differences are the words of two requests that differ.
func differences(before, after string) string {
	var all []string
	a, b := strings.Fields(before), strings.Fields(after)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			all = append(all, a[i]+" -> "+b[i])
		}
	}
	if len(a) != len(b) {
		all = append(all, fmt.Sprintf("%q -> %q", before, after))
	}
	return strings.Join(all, ", ")
}

// TestFragileForms proves the table behind slurmplug.RewritesTasks: on the Slurms that it names an update changes the
// tasks of the forms that priod leaves alone, on others that of none.
func TestFragileForms(t *testing.T) {
	s := newSite(t)
	s.submitter = s.As(lab.PlainUser) // a write to a job of root's is one of an administrator's, which lifts its limits
	var places []*place
	const node = "CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=32000 Gres=gpu:a100:4,lscratch:100 Feature=fast"
	for _, form := range forms {
		if strings.Contains(form, "ntasks") || strings.Contains(form, "gpu") {
			places = append(places, newPlace(form, node))
		}
	}
	if err := s.configure(t.Context(), places); err != nil {
		t.Fatal(err)
	}
	client := slurmplug.NewClient(slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: s.Conf()}), slurmplug.Options{})
	if err := s.partitions(t.Context(), "DOWN"); err != nil {
		t.Fatal(err)
	}
	all, err := s.submitForms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := live.New(client).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, j := range all {
		ids = append(ids, j.id)
	}
	if _, err := s.Run(t.Context(), "scontrol", "update", "JobId="+strings.Join(ids, ","), "SiteFactor=5"); err != nil {
		t.Fatal(err)
	}
	after, err := s.requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	broken := 0
	for _, j := range all {
		at := slices.IndexFunc(snapshot.Jobs, func(c cluster.Job) bool { return fmt.Sprint(c.ID.ID) == j.id })
		fragile, changed := snapshot.Jobs[at].Fragile, before[j.id] != after[j.id]
		if changed {
			broken++
		}
		if careful := strings.Contains(j.form, "-N1-2"); changed != (fragile != "") && !careful {
			t.Errorf("%s: left alone %q, an update changes %q", j.form, fragile, differences(before[j.id], after[j.id]))
		}
	}
	release := lab.Version()
	if rewrites := slurmplug.RewritesTasks(release); rewrites != (broken > 0) {
		t.Errorf("Slurm %s breaks %d forms, and the table says %t", release, broken, rewrites)
	}
}
