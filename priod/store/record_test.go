package store

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/slurmplug"
)

// A whole life: wait, be ranked, run, be requeued, run again, leave.
func TestStory(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"), pending(3, "te"))
	d.snapshot.Nodes = []cluster.Node{{Name: "n1", Usable: true, State: "IDLE", Features: []string{"a100", "ib"}, GPUType: "a100", GPUs: 8}}
	d.cycle()
	run(d.job(1), d.snapshot.At)
	d.cycle()
	d.cycle() // seen running until here
	ended := d.snapshot.At
	*d.job(1) = pending(1, "te")
	d.job(1).Submit, d.job(1).Restarts = d.snapshot.At, 1
	d.cycle()
	run(d.job(1), d.snapshot.At)
	d.cycle()
	d.remove(1)
	left := d.cycle().Snapshot.At

	r := reader(t, dir)
	story := must[Story](t)(r.Job(ctx, slurmplug.Plain(1), 10))
	if got, want := story.Job.FirstSubmit, pending(1, "").Submit; !got.Equal(want) {
		t.Errorf("first submit %v, want %v", got, want)
	}
	if story.Job.Submit.Equal(story.Job.FirstSubmit) || !story.Job.Left.Equal(left) || story.Job.Restarts != 1 {
		t.Errorf("job %+v", story.Job)
	}
	if len(story.Stays) != 2 || !story.Stays[1].End.Equal(ended) || !story.Stays[1].Closed || story.Stays[0].Restarts != 1 {
		t.Errorf("intervals %+v", story.Stays)
	}
	if got := story.Stays[1].GPUSeconds; got != 2*30 {
		t.Errorf("GPU-seconds %v, want 60", got)
	}
	if len(story.Writes) == 0 || story.Writes[0].Status != slurmplug.Applied || story.Writes[0].After.String() == "0" || story.Writes[0].Reason != "te" {
		t.Errorf("writes %+v", story.Writes)
	}
	if len(story.Decisions) == 0 || story.Decision.Class != cluster.TE || story.Decision.Why != "te" || !story.Decision.Since.Equal(pending(1, "").Eligible) {
		t.Errorf("decisions %+v", story.Decisions)
	}
	if story.Known != nil {
		t.Errorf("a job that left is still known: %+v", story.Known)
	}

	queue := must[[]Queued](t)(r.Queue(ctx))
	if len(queue) != 2 || queue[0].Job.ID.ID != 2 || queue[1].Job.ID.ID != 3 {
		t.Fatalf("queue %+v", queue)
	}
	if q := queue[1]; q.Decision == nil || q.Known == nil || q.Known.Value != q.Decision.Value || *q.Job.SiteFactor != q.Known.Value || q.Known.Counted != "te" {
		t.Errorf("queued TE job %+v, decision %+v, known %+v", q.Job, q.Decision, q.Known)
	}
	last := must[Cycle](t)(r.LastCycle(ctx))
	if last.Jobs != 2 || last.TE != 1 || last.Ranked != 2 || last.Mode != slurmplug.SiteFactor || last.Nodes != 1 || !last.At.Equal(left) {
		t.Errorf("last cycle %+v", last)
	}
	if writes := must[[]Write](t)(r.Writes(ctx, 1)); len(writes) != 1 || writes[0].User != "alice" {
		t.Errorf("recent writes %+v", writes)
	}
	for id, want := range map[slurmplug.JobID]string{
		slurmplug.Plain(99): "no cycle has seen it",
		{ID: 1, Task: 3}:    "no cycle has seen it",
	} {
		if _, err := r.Job(ctx, id, 1); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), want) {
			t.Errorf("job %s: %v", id, err)
		}
	}
}

// The keys of --json are a contract.
func TestJSONKeys(t *testing.T) {
	keys := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		dec := json.NewDecoder(bytes.NewReader(text))
		for depth, key := 0, true; ; {
			token, err := dec.Token()
			if err != nil {
				return strings.Join(names, " ")
			}
			switch token {
			case json.Delim('{'):
				depth++
				key = true
			case json.Delim('}'):
				depth--
				key = true
			default:
				if key && depth == 1 {
					names = append(names, token.(string))
				}
				key = !key
			}
		}
	}
	at := epoch
	factor := int64(1)
	for _, c := range []struct {
		value any
		want  string
	}{
		{Cycle{Hold: "x"}, "cycle at until polls cluster mode band_lo band_hi band_step span jobs pending running nodes ranked te actions renumbered hold"},
		{Job{
			Tasks: "1", HetLeader: 1, HetOffset: 1, Reservation: "x", SiteFactor: &factor, GPUType: "x", Features: "x", Prefer: "x",
			NodeList: "x", Submit: at, FirstSubmit: at, Eligible: at, Start: at, Dependency: true, Tag: "x", TagError: "x", Left: at,
		}, "job raw_id tasks task_count het_leader het_offset user account partition qos reservation state reason priority nice site_factor restarts nodes cpus mem_mb gpus gpu_type features prefer node_list time_limit_s submit first_submit eligible start dependency tag tag_error seen changed left"},
		{Decision{Decision: plan.Decision{Detail: "x", Since: at, Unmoved: "x", Steer: "x"}}, "job class ranked value own_priority why detail since steer unmoved cycle at"},
		{Write{Outcome: plan.Outcome{Action: plan.Action{Tasks: "1", Part: true, UserNice: slurmplug.Number(1)}, Message: "x"}, User: "x"}, "job tasks part lever before after reason user_nice status message user cycle at"},
		{Stay{Stay: cluster.Stay{GPUType: "x"}}, "start end closed gpu_type gpus charged_gpus class restarts gpu_s"},
		{Known{FirstEligible: at, Counted: "te", Lever: "x", Written: at}, "first_eligible counted lever value tried user_nice written reverts"},
		{Pause{Why: "x"}, "who when why"},
	} {
		if got := keys(c.value); got != c.want {
			t.Errorf("%T:\n got %s\nwant %s", c.value, got, c.want)
		}
	}
}

// A quiet cycle changes one row; anything that changes makes a row of its own.
func TestQuietCycles(t *testing.T) {
	dir := t.TempDir()
	var jobs []cluster.Job
	for i := range uint32(50) {
		jobs = append(jobs, pending(i+1, []string{"te", "be", ""}[i%3]))
	}
	run(&jobs[7], epoch)
	d := newDaemon(t, dir, jobs...)
	d.snapshot.Nodes = []cluster.Node{{Name: "n1", Features: []string{"x"}}, {Name: "n2"}}
	for range 3 {
		d.cycle() // the writes of the first are seen by the next
	}
	r := reader(t, dir)
	before := must[Cycle](t)(r.LastCycle(ctx))
	changes := func() int64 { return count(t, d.store, "SELECT total_changes()") }
	start := changes()
	for i := range d.snapshot.Jobs {
		d.snapshot.Jobs[i].Priority++ // age moves with every poll
	}
	for range 5 {
		d.cycle()
	}
	if n := changes() - start; n != 5 {
		t.Errorf("5 quiet cycles changed %d rows", n)
	}
	after := must[Cycle](t)(r.LastCycle(ctx))
	if after.Number != before.Number || after.Polls != before.Polls+5 || !after.Until.Equal(d.snapshot.At) || !after.At.Equal(before.At) {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	d.restart()
	start = changes()
	d.cycle()
	if n := changes() - start; n != 1 {
		t.Errorf("the first cycle after a restart changed %d rows", n)
	}
	cycles := int64(9)
	for name, change := range map[string]func(){
		"job":  func() { d.job(3).Reason = "Resources" },
		"left": func() { d.remove(5) },
		"node": func() { d.snapshot.Nodes[0].GPUsUsed++ },
		"tag":  func() { d.job(4).Tag.Speed = map[string]float64{"a100": 1, "v100": 0.5} },
		"gone": func() { d.snapshot.Nodes = d.snapshot.Nodes[:1] },
		"hold": func() { d.settings.Hold = "paused" },
	} {
		before := must[Cycle](t)(r.LastCycle(ctx))
		start = changes()
		change()
		d.cycle()
		last := must[Cycle](t)(r.LastCycle(ctx))
		if last.Number != before.Number+int64(before.Polls) || last.Polls != 1 { // a row has the number of the first cycle that it stands for
			t.Errorf("%s: after cycle %d with %d polls comes %d", name, before.Number, before.Polls, last.Number)
		}
		if cycles++; last.Number != cycles || d.store.Cycle() != cycles {
			t.Errorf("%s: cycle %d has the number %d and, of the store, %d", name, cycles, last.Number, d.store.Cycle())
		}
		if n := changes() - start; n > 6 {
			t.Errorf("%s: %d rows changed", name, n)
		}
	}
	if n := count(t, d.store, "SELECT count(*) FROM nodes"); n != 1 {
		t.Errorf("%d nodes, one has left", n)
	}
}

// While priod is held, decisions are stored and writes are not.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"))
	d.settings.Hold = "paused by bob"
	d.cycle()
	r := reader(t, dir)
	story := must[Story](t)(r.Job(ctx, slurmplug.Plain(1), 5))
	if len(story.Writes) != 0 || story.Decision == nil || story.Decision.Value == 0 {
		t.Errorf("%+v", story)
	}
	if last := must[Cycle](t)(r.LastCycle(ctx)); last.Hold != "paused by bob" || last.Actions != 1 {
		t.Errorf("%+v", last)
	}
	if journal.Exists(journal.Path(dir)) {
		t.Error("an undo journal without a write")
	}
}

// Text from users comes back as it was, and is never SQL.
func TestHostileText(t *testing.T) {
	texts := []string{
		"'; DROP TABLE jobs; --", "a\x00b", "\xff\xfe not UTF-8", "line\nbreak\ttab\r", "\x1b[31mred\x1b[0m", `"quoted" \ back`,
		"?1 :name @x $y %s %n", strings.Repeat("long ", 3000), "\u202eevil", "{\"json\":1}",
	}
	dir := t.TempDir()
	var jobs []cluster.Job
	for i, text := range texts {
		j := pending(uint32(i+1), "")
		j.User, j.Account, j.Features, j.Reason, j.TagErr, j.QOS = text, text, text, text, text, text
		jobs = append(jobs, j)
	}
	d := newDaemon(t, dir, jobs...)
	d.snapshot.Nodes = []cluster.Node{{Name: texts[0], State: texts[1], Features: []string{texts[2]}}}
	d.snapshot.Cluster = texts[0]
	d.cycle()
	d.restart()
	before := count(t, d.store, "SELECT total_changes()")
	d.cycle()
	if n := count(t, d.store, "SELECT total_changes()") - before; n != 1 {
		t.Errorf("%d rows changed: the text did not come back as it was", n)
	}
	for i, text := range texts {
		j := must[Story](t)(reader(t, dir).Job(ctx, slurmplug.Plain(uint32(i+1)), 1)).Job
		for _, got := range []string{j.User, j.Account, j.Features, j.Reason, j.TagError, j.QOS} {
			if got != text {
				t.Errorf("%q came back as %q", text, got)
			}
		}
	}
}

// Whether Slurm uses an id for another job is seen from user, submission and
// restarts; the cycle that sees it decides by what is known of the new one.
func TestIDsUsedAgain(t *testing.T) {
	old := pending(1, "te")
	later := func(change func(*cluster.Job)) cluster.Job {
		j := pending(1, "te")
		j.Submit = epoch.Add(time.Hour)
		j.Eligible = j.Submit
		change(&j)
		return j
	}
	for name, c := range map[string]struct {
		job   cluster.Job
		other bool
	}{
		"requeued":                        {later(func(j *cluster.Job) { j.Restarts = 1 }), false},
		"unchanged":                       {old, false},
		"submitted later":                 {later(func(*cluster.Job) {}), true},
		"submitted later, another type":   {later(func(j *cluster.Job) { j.Tag.Type = "be" }), true},
		"another user, runs":              {later(func(j *cluster.Job) { j.User = "mallory"; run(j, j.Submit) }), true},
		"another user":                    {later(func(j *cluster.Job) { j.User, j.Restarts = "mallory", 1 }), true},
		"another user, as is":             {func() cluster.Job { j := old; j.User = "mallory"; return j }(), true},
		"its user's name cannot be found": {func() cluster.Job { j := old; j.User = "nobody"; return j }(), false},
		"its user shows as a number":      {func() cluster.Job { j := old; j.User = "1001"; return j }(), false},
		"submitted later, no user's name": {later(func(j *cluster.Job) { j.User = "1001" }), true},
	} {
		for _, restart := range []bool{false, true} {
			dir := t.TempDir()
			d := newDaemon(t, dir, old, pending(2, "te"))
			d.cycle()
			run(d.job(1), d.snapshot.At)
			d.cycle()
			if restart {
				d.restart()
			}
			d.snapshot.At = epoch.Add(2 * time.Hour)
			*d.job(1) = c.job
			d.cycle()
			if !c.other {
				if !d.history.FirstEligible.Get(old.ID).Equal(old.Eligible) {
					t.Errorf("%s: the first eligible time is lost", name)
				}
				continue
			}
			if first := d.history.FirstEligible.Get(old.ID); c.job.State == cluster.Pending && !first.Equal(c.job.Eligible) || first.Equal(old.Eligible) && c.job.Eligible != old.Eligible {
				t.Errorf("%s, restart %v: first eligible %v", name, restart, first)
			}
			story := must[Story](t)(reader(t, dir).Job(ctx, old.ID, 10))
			runs := 0
			if c.job.State == cluster.Running {
				runs = 1
			}
			if story.Job.User != c.job.User || len(story.Stays) != runs || !story.Job.FirstSubmit.Equal(c.job.Submit) {
				t.Errorf("%s: the story of another job: %+v", name, story)
			}
			if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE id = 1 AND left_ms > 0"); n != 1 {
				t.Errorf("%s: %d old rows", name, n)
			}
			if k := story.Known; k != nil && k.FirstEligible.Equal(old.Eligible) && !c.job.Eligible.Equal(old.Eligible) {
				t.Errorf("%s: it is shown since when the earlier job could run", name)
			}
			if n := count(t, d.store, "SELECT count(*) FROM intervals WHERE closed = 1"); n != 1 {
				t.Errorf("%s: the old interval is not closed (%d)", name, n)
			}
			d.restart()
			d.cycle()
		}
	}
}

// The same for a task that comes out of an array with an old id, and for a
// journal without a database.
func TestIDsUsedAgainElsewhere(t *testing.T) {
	array := func(submit time.Time) cluster.Job {
		j := pending(5, "te")
		j.Tasks, j.TaskCount, j.Submit, j.Eligible = "0-3", 4, submit, submit
		return j
	}
	task := func(submit time.Time) cluster.Job {
		j := pending(5, "te")
		j.ID.Task, j.Submit, j.Eligible = 2, submit, submit
		return j
	}
	old, now := epoch.Add(-time.Hour), epoch.Add(time.Hour)
	t.Run("task", func(t *testing.T) {
		d := newDaemon(t, t.TempDir(), array(old))
		d.cycle()
		d.restart()
		d.snapshot.At, d.snapshot.Jobs = epoch.Add(2*time.Hour), []cluster.Job{task(now)}
		r := d.cycle()
		if !d.history.FirstEligible.Get(task(now).ID).Equal(now) || r.Plan.Actions[0].Before.String() != "0" {
			t.Errorf("%+v", d.history)
		}
	})
	t.Run("same array", func(t *testing.T) {
		d := newDaemon(t, t.TempDir(), array(old))
		d.cycle()
		d.restart()
		d.snapshot.Jobs = append(d.snapshot.Jobs, task(old))
		d.cycle()
		if !d.history.FirstEligible.Get(task(old).ID).Equal(old) {
			t.Errorf("the task did not inherit: %+v", d.history)
		}
	})
	t.Run("journal", func(t *testing.T) {
		dir := t.TempDir()
		d := newDaemon(t, dir, array(old))
		d.cycle()
		d.loseDatabase()
		d.snapshot.At, d.snapshot.Jobs = epoch.Add(2*time.Hour), []cluster.Job{array(now)}
		d.cycle()
		u := openUndo(t, dir)
		if c := u.Find(array(now).ID, slurmplug.SiteFactor); c == nil || !c.Submit.Equal(now) {
			t.Errorf("journal %+v", c)
		}
	})
}

// An array whose TE budget splits it: the tasks' values survive a crash before
// they have records of their own.
func TestPartOfArray(t *testing.T) {
	dir := t.TempDir()
	j := pending(5, "te")
	j.Tasks, j.TaskCount = "0-9", 10
	d := newDaemon(t, dir, j)
	d.settings.Order.Settings.Ranking.User.GPUs = 4 // three tasks of two GPUs are below twice as many
	r := d.cycle()
	if len(r.Outcomes) != 1 || !r.Outcomes[0].Part || r.Outcomes[0].Tasks != "0-2" {
		t.Fatalf("outcomes %+v", r.Outcomes)
	}
	want := len(d.history.Written)
	before := d.history
	d.restart()
	if diff := diffHistory(before, d.history); diff != "" || want != 3 {
		t.Fatalf("%d values; restart changed:\n%s", want, diff)
	}
	d.settings.Hold = "enough"
	// Slurm splits the record.
	d.snapshot.Jobs[0].Tasks, d.snapshot.Jobs[0].TaskCount = "3-9", 7
	for i := range int32(3) {
		task := pending(5, "te")
		task.ID.Task, task.RawID = i, uint32(100+i)
		task.SiteFactor = before.Written[task.ID].Value
		d.snapshot.Jobs = append(d.snapshot.Jobs, task)
	}
	d.cycle()
	rd := reader(t, dir)
	story := must[Story](t)(rd.Job(ctx, slurmplug.JobID{ID: 5, Task: 1}, 5))
	if len(story.Writes) != 1 || story.Writes[0].Tasks != "0-2" {
		t.Errorf("writes of the task %+v", story.Writes)
	}
	if story := must[Story](t)(rd.Job(ctx, slurmplug.JobID{ID: 5, Task: 7}, 5)); story.Job.Tasks != "3-9" {
		t.Errorf("a task without a record is answered by %+v", story.Job)
	}
	d.snapshot.Jobs = d.snapshot.Jobs[1:]
	d.cycle()
	d.restart()
	d.cycle()
	if _, err := rd.Job(ctx, slurmplug.JobID{ID: 6, Task: 7}, 5); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// Between cycles the store holds no snapshot: the next one is as large.
func TestPlannedLetsGoOfTheSnapshot(t *testing.T) {
	s, h := openStore(t, t.TempDir(), Options{})
	snapshot := &cluster.Snapshot{At: epoch, Jobs: []cluster.Job{pending(1, "be"), pending(2, "te")}, Nodes: []cluster.Node{{Name: "n1"}}}
	p := order.Decide(snapshot, h, order.Settings{Top: 1_000_000, Step: 1000})
	if err := s.Planned(ctx, plan.Seen{Snapshot: snapshot, Stays: h.Observe(snapshot), Plan: &p}); err != nil {
		t.Fatal(err)
	}
	jobs, nodes, decisions := weak.Make(&snapshot.Jobs[0]), weak.Make(&snapshot.Nodes[0]), weak.Make(&p.Decisions[0])
	snapshot, p = nil, plan.Plan{}
	runtime.GC()
	if jobs.Value() != nil || nodes.Value() != nil || decisions.Value() != nil {
		t.Error("the last snapshot or plan is still held")
	}
	runtime.KeepAlive(s)
}

// What a poll showed is recorded while the cycle decides. A plan that never comes loses none
// of it, and one that comes writes nothing of it again.
func TestRecordedWhileDeciding(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"))
	d.cycle()
	run(d.job(2), d.snapshot.At)
	d.snapshot.Jobs = append(d.snapshot.Jobs, pending(3, "te"))
	d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
	snapshot := must[cluster.Snapshot](t)(d.Observe(ctx))
	stays := d.history.Observe(&snapshot)
	d.store.Observed(ctx, &snapshot, func() []cluster.Stay { return stays })
	d.saw()
	for table, want := range map[string]int64{"jobs": 3, "intervals": 1, "decisions": 2, "cycles": 1} {
		if n := count(t, d.store, "SELECT count(*) FROM "+table); n != want {
			t.Errorf("%d rows of %s, want %d", n, table, want)
		}
	}
	if story := must[Story](t)(reader(t, dir).Job(ctx, slurmplug.Plain(3), 5)); story.Decision != nil || story.Job.User != "alice" {
		t.Errorf("%+v", story)
	}
	if queue := must[[]Queued](t)(reader(t, dir).Queue(ctx)); len(queue) != 3 {
		t.Errorf("%d jobs in the queue", len(queue))
	}
	exec(t, d.store, "UPDATE jobs SET user = 'nobody else'") // written again, it would be alice's
	p := order.Decide(&snapshot, d.history, d.settings.Order.Settings)
	if err := d.store.Planned(ctx, plan.Seen{Snapshot: &snapshot, Stays: stays, Plan: &p, Hold: "a test"}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE user = 'alice'"); n != 0 {
		t.Errorf("%d jobs were written twice", n)
	}
	exec(t, d.store, "UPDATE jobs SET user = 'alice'")
	for table, want := range map[string]int64{"intervals": 1, "decisions": 3, "cycles": 2} {
		if n := count(t, d.store, "SELECT count(*) FROM "+table); n != want {
			t.Errorf("after the plan %d rows of %s, want %d", n, table, want)
		}
	}
	d.remove(3)
	d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
	gone := must[cluster.Snapshot](t)(d.Observe(ctx))
	d.store.Observed(ctx, &gone, func() []cluster.Stay { return d.history.Observe(&gone) })
	d.saw() // and priod is killed
	d.restart()
	if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE left_ms > 0"); n != 1 {
		t.Errorf("%d jobs have left", n)
	}
	d.cycle()
}

// saw waits until Observed has recorded what it saw.
func (d *daemon) saw() {
	d.t.Helper()
	for range 60_000 {
		d.store.mu.Lock()
		saw := d.store.changes.saw
		d.store.mu.Unlock()
		if saw {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.t.Fatal("what was observed is not recorded")
}

// A plan may come while what the poll showed is still written: both are recorded, each once.
func TestPlannedWhileDecidingIsRecorded(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"))
	d.cycle()
	other := must[*sql.DB](t)(sql.Open("sqlite3", "file:"+databasePath(dir)+"?_txlock=immediate"))
	defer other.Close()
	for i := range 5 {
		n := uint32(3 + i)
		if i > 0 {
			d.remove(n - 1)
		}
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(n, "te"))
		d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
		snapshot := must[cluster.Snapshot](t)(d.Observe(ctx))
		stays := d.history.Observe(&snapshot)
		p := order.Decide(&snapshot, d.history, d.settings.Order.Settings)
		before := count(t, d.store, "SELECT total_changes()")
		busy := must[*sql.Tx](t)(other.BeginTx(ctx, nil))
		d.store.Observed(ctx, &snapshot, func() []cluster.Stay { return stays }) // waits for the other transaction
		released := make(chan error)
		go func() {
			time.Sleep(time.Duration(20*i) * time.Millisecond) // so that either is first
			released <- busy.Rollback()
		}()
		if err := errors.Join(d.store.Planned(ctx, plan.Seen{Snapshot: &snapshot, Stays: stays, Plan: &p, Hold: "a test"}), <-released); err != nil {
			t.Fatal(err)
		}
		// The job that came, its decision and the cycle; and first what the cycle before wrote
		// into a job, later the job that left.
		want := int64(4)
		if i == 0 {
			want++ // and what that job was
		}
		if n := count(t, d.store, "SELECT total_changes()") - before; n != want {
			t.Errorf("cycle %d writes %d rows, want %d", i+2, n, want)
		}
		for query, want := range map[string]int64{
			"SELECT count(*) FROM jobs": int64(n), "SELECT count(*) FROM jobs WHERE left_ms > 0": int64(i),
			"SELECT count(DISTINCT job) FROM decisions": int64(n), "SELECT count(*) FROM cycles": int64(i + 2),
		} {
			if got := count(t, d.store, query); got != want {
				t.Errorf("%s after cycle %d: %d, want %d", query, i+2, got, want)
			}
		}
	}
}

// A row that is written with many others is the same as one that is written alone.
func TestRowsOfABatch(t *testing.T) {
	s, _ := openStore(t, t.TempDir(), Options{})
	text := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 5, -1))
	number := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		type row = map[string]any
		read := func(table string) (all []row) {
			rows, err := s.db.QueryContext(ctx, "SELECT * FROM "+table)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			columns, err := rows.Columns()
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				values, into := make([]any, len(columns)), make([]any, len(columns))
				for i := range values {
					into[i] = &values[i]
				}
				if err := rows.Scan(into...); err != nil {
					t.Fatal(err)
				}
				r := row{}
				for i, c := range columns {
					if c != "decision" {
						r[c] = values[i]
					}
				}
				all = append(all, r)
			}
			return all
		}
		fill := func(params any) { // with anything, but for what other tables refer to
			v := reflect.ValueOf(params).Elem()
			for i := range v.NumField() {
				switch f := v.Field(i); f.Kind() {
				case reflect.String:
					f.SetString(text.Draw(t, v.Type().Field(i).Name))
				case reflect.Bool:
					f.SetBool(rapid.Bool().Draw(t, v.Type().Field(i).Name))
				case reflect.Float64:
					f.SetFloat(rapid.OneOf(rapid.Just(0.0), rapid.Float64()).Draw(t, v.Type().Field(i).Name))
				default:
					f.SetInt(number.Draw(t, v.Type().Field(i).Name))
				}
			}
		}
		var job db.PutJobParams
		var interval db.PutIntervalParams
		var node db.PutNodeParams
		var decision db.AddDecisionParams
		var share db.PutShareParams
		var wait db.PutWaitParams
		var history db.PutHistoryParams
		for _, p := range []any{&job, &interval, &node, &decision, &share, &wait, &history} {
			fill(p)
		}
		job.Job, interval.Job, decision.Job, share.Job = 7, 7, 7, 7
		puts := []struct {
			table string
			text  string
			row   any
			put   func(db.DBTX) error
		}{
			{"jobs", db.PutJobText, &job, func(to db.DBTX) error { return s.q.PutJob(ctx, to, job) }},
			{"intervals", db.PutIntervalText, &interval, func(to db.DBTX) error { return s.q.PutInterval(ctx, to, interval) }},
			{"nodes", db.PutNodeText, &node, func(to db.DBTX) error { return s.q.PutNode(ctx, to, node) }},
			{"decisions", db.AddDecisionText, &decision, func(to db.DBTX) error { return s.q.AddDecision(ctx, to, decision) }},
			{"shares", db.PutShareText, &share, func(to db.DBTX) error { return s.q.PutShare(ctx, to, share) }},
			{"waits", db.PutWaitText, &wait, func(to db.DBTX) error { return s.q.PutWait(ctx, to, wait) }},
			{"history", db.PutHistoryText, &history, func(to db.DBTX) error { return s.q.PutHistory(ctx, to, history) }},
		}
		written := map[bool]map[string][]row{true: {}, false: {}}
		for bulk := range written {
			for _, p := range puts {
				err := s.transact(ctx, func(tx *sql.Tx) error {
					if bulk {
						var all statements
						return errors.Join(all.add(p.text, p.row), all.run(ctx, tx))
					}
					return p.put(tx)
				})
				if err != nil {
					t.Fatalf("%s: %v", p.table, err)
				}
				written[bulk][p.table] = read(p.table)
			}
			for _, table := range []string{"history", "waits", "nodes", "jobs"} { // the others follow
				if _, err := s.db.Exec("DELETE FROM " + table); err != nil {
					t.Fatal(err)
				}
			}
		}
		if diff := gocmp.Diff(written[false], written[true]); diff != "" {
			t.Error(diff)
		}
	})
}

// What cycles wrote is moved out of SQLite's log, while a reader looks at it, too.
func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir)
	for i := range uint32(20_000) {
		d.snapshot.Jobs = append(d.snapshot.Jobs, pending(1+i, "be"))
	}
	d.cycle()
	size := func(suffix string) int64 { return must[os.FileInfo](t)(os.Stat(databasePath(dir) + suffix)).Size() }
	if size("-wal") < checkpointAt || size("") > checkpointAt {
		t.Fatalf("the log has %d bytes, the database %d", size("-wal"), size(""))
	}
	r := reader(t, dir)
	if queue := must[[]Queued](t)(r.Queue(ctx)); len(queue) != len(d.snapshot.Jobs) {
		t.Errorf("%d jobs before", len(queue))
	}
	if err := d.store.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if size("") < checkpointAt {
		t.Errorf("the database has %d bytes", size(""))
	}
	written := size("-wal")
	for range 3 { // the log is used again from its beginning
		d.job(1).Nice++
		d.cycle()
	}
	if size("-wal") > written {
		t.Errorf("the log grew from %d to %d bytes", written, size("-wal"))
	}
	if queue := must[[]Queued](t)(r.Queue(ctx)); len(queue) != len(d.snapshot.Jobs) {
		t.Errorf("%d jobs after", len(queue))
	}
}

// Jobs whose records cannot be read in some polls stay in the store as they were seen last, with
// what priod wrote into them and the runs that they have, over a restart, too.
func TestUnreadJobsAreKept(t *testing.T) {
	d := newDaemon(t, t.TempDir(), pending(1, "te"), pending(2, "be"), pending(3, "be"))
	run(d.job(2), epoch)
	d.cycle()
	before, written := *d.job(1), d.history.Written[slurmplug.Plain(1)]
	if written.Value == 0 {
		t.Fatal("nothing was written")
	}
	good := append([]cluster.Job(nil), d.snapshot.Jobs...)
	for i := range 2 {
		d.snapshot.Jobs[i] = cluster.Job{ID: good[i].ID, RawID: good[i].RawID, TaskCount: 1, State: cluster.Unread}
		d.snapshot.Unread = append(d.snapshot.Unread, cluster.UnreadRecord{Kind: cluster.UnreadJob, Name: good[i].ID.String(), Why: `NumCPUs: "?"`})
	}
	r := d.cycle()
	if len(r.Plan.Actions) != 0 || len(r.Plan.Notes) != 1 || r.Plan.Notes[0].Kind != plan.RecordsUnread || r.Plan.Notes[0].Of != 2 || !strings.Contains(r.Plan.Notes[0].Text, `job "1": NumCPUs: "?"`) {
		t.Errorf("%+v, %+v", r.Plan.Actions, r.Plan.Notes)
	}
	d.restart()
	d.cycle()
	if w := d.history.Written[slurmplug.Plain(1)]; w.Value != written.Value {
		t.Errorf("%+v, was %+v", w, written)
	}
	story := must[Story](t)(reader(t, d.store.dir).Job(ctx, slurmplug.Plain(1), 10))
	if story.Job.User != before.User || story.Job.State != cluster.Pending.String() {
		t.Errorf("%+v", story.Job)
	}
	d.snapshot.Jobs, d.snapshot.Unread = good, nil
	if r = d.cycle(); len(r.Plan.Actions) != 0 {
		t.Errorf("%+v", r.Plan.Actions)
	}
	open := 0
	for s := range d.history.Stays(false) {
		if s.Job == slurmplug.Plain(2) && !s.Closed && s.Start.Equal(epoch) {
			open++
		}
	}
	if open != 1 {
		t.Errorf("%d runs of job 2", open)
	}
}
