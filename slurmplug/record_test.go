package slurmplug_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

var record = flag.Bool("record", false, "record testdata/ anew from a real Slurm (testdata/record.sh)")

// recorder is a Runner that keeps what programs are asked and what they answer.
type recorder struct {
	slurmplug.Runner
	t     testing.TB
	dir   string
	scrub *strings.Replacer
	name  string // of the next recording
}

func (r *recorder) Run(ctx context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	out, err := r.Runner.Run(ctx, cmd)
	if cmd.Name == "sdiag" && r.name != "sdiag" {
		return out, err // asked on the way to a write
	}
	if cmd.Name == "squeue" && len(cmd.Args) == 1 { // what the command can do
		r.write("squeue"+cmd.Args[0]+".out", string(out.Stdout))
		return out, err
	}
	if cmd.Merge {
		in := string(cmd.Stdin)
		if in == "" {
			in = strings.Join(cmd.Args, " ")
		}
		r.write(r.name+".in", in)
	}
	r.write(r.name+".out", string(out.Stdout))
	return out, err
}

func (r *recorder) write(file, text string) {
	if err := os.WriteFile(filepath.Join(r.dir, file), []byte(r.scrub.Replace(text)), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// hostile are comments as users could write them.
var hostile = []string{
	"first\n99999\x1f99999 second line",
	"\x1b[2J\x1b[31mred\x07",
	"not \xff\xfe UTF-8 \xc3",
	"prio:type=te&v=1 \x1eforged\n",
	"'quotes' \"and\" `more` $(x) ; | && %s \\",
	"(null)",
}

// TestRecord records testdata from a lab of its own.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("-record records testdata/ anew")
	}
	if os.Geteuid() != 0 {
		t.Fatal("only root can record: jobs of several users are needed")
	}
	l := lab.ForTest(t, labOptions("record"))
	c, r := recorded(t, l)
	began := time.Now()
	fill(t, l)

	recordings := []struct {
		name string
		read func(context.Context) error
	}{
		{"squeue", func(ctx context.Context) error { _, err := c.Jobs(ctx); return err }},
		{"node", func(ctx context.Context) error { _, err := c.Nodes(ctx); return err }},
		{"partition", func(ctx context.Context) error { _, err := c.Partitions(ctx); return err }},
		{"qos", func(ctx context.Context) error { _, err := c.QOS(ctx); return err }},
		{"config", func(ctx context.Context) error { _, err := c.Config(ctx); return err }},
		{"sprio", func(ctx context.Context) error { _, err := c.Factors(ctx); return err }},
		{"ping", func(ctx context.Context) error { _, err := c.Ping(ctx); return err }},
		{"sacct", func(ctx context.Context) error {
			_, err := c.History(ctx, began.Add(-time.Hour), time.Time{})
			return err
		}},
	}
	for _, rec := range recordings {
		r.name = rec.name
		if err := rec.read(t.Context()); err != nil {
			t.Errorf("%s: %v", rec.name, err)
		}
	}
	r.name = "assoc"
	for _, a := range []string{"vision parent=physics fairshare=3", "language parent=physics", "shy parent=biology fairshare=parent"} {
		run(t, l.Client, "sacctmgr", append([]string{"-i", "add", "account"}, strings.Fields(a)...)...)
	}
	run(t, l.Client, "sacctmgr", "-i", "add", "user", lab.OtherUser, "account=vision", "fairshare=7")
	run(t, l.Client, "sacctmgr", "-i", "modify", "account", lab.Biology, "set", "fairshare=20")
	if conf, err := c.Config(t.Context()); err != nil {
		t.Error(err)
	} else if _, err := c.Accounts(t.Context(), conf.ClusterName()); err != nil {
		t.Error(err)
	}
	r.name = "users"
	if _, err := r.Run(t.Context(), slurmplug.Command{Name: "sacctmgr", Args: []string{"--noheader", "--parsable2", "show", "user", "format=User,AdminLevel"}}); err != nil {
		t.Error(err)
	}
	for _, w := range recordedUpdates(t, l) {
		r.name = w.name
		for _, res := range c.Update(t.Context(), w.updates) {
			t.Log(w.name, res.Target(), res.Value, res.Status, res.Message)
		}
	}
	r.name = "sdiag"
	if _, err := c.Diag(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Pause("slurmctld"); err != nil {
		t.Fatal(err)
	}
	r.name = "ping-down"
	eventually(t, "slurmctld that has stopped", func() bool { // its threads stop one by one
		all, err := c.Ping(t.Context())
		return err == nil && !all[0].Up
	})
	r.name = "update-down"
	out, err := r.Run(t.Context(), slurmplug.Command{Name: "scontrol", Args: strings.Fields("update JobId=1,2 SiteFactor=3"), Merge: true})
	t.Logf("%s %v", bytes.TrimSpace(out.Stdout), err)
	if err := l.Continue("slurmctld"); err != nil {
		t.Fatal(err)
	}
}

// recorded is a Client whose reads and writes are kept.
func recorded(t testing.TB, l *lab.Lab) (*slurmplug.Client, *recorder) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{
		Runner: slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: l.Conf()}),
		t:      t,
		scrub:  strings.NewReplacer(l.Dir, "/lab", " at "+host+" is", " at head is", "= "+host, "= head", strings.TrimSpace(string(kernel)), "6.1.0"),
	}
	version := strings.Fields(run(t, l.Client, "scontrol", "--version"))[1]
	r.dir = filepath.Join("testdata", strings.Join(strings.Split(version, ".")[:2], "."))
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := slurmplug.NewClient(r, slurmplug.Options{})
	slurmplug.UseRecordedSeparators(c)
	return c, r
}

// TestRecordUsage records what the steps of jobs used, from a lab that measures it.
func TestRecordUsage(t *testing.T) {
	if !*record {
		t.Skip("-record records testdata/ anew")
	}
	o := labOptions("usage")
	o.ExtraConf = append(o.ExtraConf, "JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=task=1")
	l := lab.ForTest(t, o)
	c, r := recorded(t, l)
	began := time.Now()
	const busy = `import time; a = bytearray(%d << 20); end = time.time() + %d
while time.time() < end: pass`
	program := func(mb, seconds int) string { return "python3 -c '" + fmt.Sprintf(busy, mb, seconds) + "'" }
	wrap := func(lines ...string) string { return "--wrap=" + strings.Join(lines, "\n") }
	submit(t, l.Client, "steps", "--ntasks=2", "--gres=gpu:1", "--mem=2G", "--time=5",
		wrap("srun --ntasks=1 --overlap --mem=500 "+program(150, 3)+" &", "srun --ntasks=2 --overlap --mem=500 "+program(100, 3), "wait", "srun true", "srun true"))
	submit(t, l.Client, "batch", "--gres=gpu:1", wrap(program(50, 2)))
	submit(t, l.Client, "nodes", "--nodes=2", "--ntasks=4", "--gres=gpu:1", "--constraint=v100", wrap("srun "+program(80, 3)))
	submit(t, l.Client, "array", "--array=1-2", wrap("sleep 1"))
	submit(t, l.Client, "failed", wrap("exit 3"))
	requeued := submit(t, l.Client, "requeued", "--requeue")
	if err := l.WaitJob(t.Context(), requeued, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // a run of some length
	run(t, l.Client, "scontrol", "requeue", requeued)
	r.name = "sacct-usage"
	eventually(t, "what seven runs used", func() bool {
		runs, err := c.Usage(t.Context(), began.Add(-time.Minute), time.Time{})
		measured := 0
		for _, u := range runs {
			if u.CPUSeconds > 0 {
				measured++
			}
		}
		return err == nil && measured == 7
	})
	if early, err := clientOf(l, slurmplug.Options{}).Usage(t.Context(), began.Add(-time.Hour), began.Add(-time.Minute)); err != nil || len(early) != 0 {
		t.Error(early, err)
	}
}

// fill puts at least one job of each kind into the queue of a new lab, known by
// their comments.
func fill(t testing.TB, l *lab.Lab) {
	root := l.Client
	plain := root
	if os.Geteuid() == 0 {
		plain = l.As(lab.PlainUser)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	await := func(ids ...string) {
		for _, id := range ids {
			if err := l.WaitJob(t.Context(), id, "RUNNING"); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(submit(t, root, "node", "--nodes=2", "--gpus-per-node=2", "--constraint=v100")) // before others are in its way
	typed := submit(t, root, "typed", "--gres=gpu:a100:2")
	submit(t, root, "untyped", "--gres=gpu:1", "--constraint=v100")
	submit(t, root, "job", "--gpus=2", "--nodes=1", "--nodelist=any-1")
	submit(t, root, "job-typed", "--gpus=v100:3")
	submit(t, root, "task", "--ntasks=2", "--gpus-per-task=1")
	submit(t, root, "mixed", "--gres=gpu:a100:1,gpu:t4:1", "--nodelist=mix-1")
	cpu := submit(t, root, "cpu", "--ntasks=2")
	steps := submit(t, root, "array-running", "--array=0-3%1", "--gpus=1")
	cancelled := submit(t, root, "cancelled")
	requeued := submit(t, root, "requeued", "--gres=gpu:1", "--requeue")
	await(typed, cpu, steps+"_0", cancelled, requeued)
	run(t, root, "scontrol", "requeue", requeued)

	submit(t, root, "waiting", "--nodes=2", "--gpus-per-node=a100:4", "--constraint=a100", "--time=30")
	submit(t, root, "partitions", "--partition=gpu,interactive", "--nodes=3", "--gres=gpu:4", "--account="+lab.Physics)
	submit(t, root, "quality", "--nodes=3", "--gres=gpu:4", "--qos=te", "--nice=17")
	held := submit(t, root, "held", "--hold", "--gres=gpu:4")
	submit(t, root, "dependency", "--dependency=afterok:"+held, "--gres=gpu:1")
	submit(t, root, "limit", "--time=2-03:04:05", "--begin=now+5days", "--constraint=a100|v100", "--prefer=a100", "--gpus=1")
	submit(t, root, "per-socket", "--hold", "--sockets-per-node=2", "--gpus-per-socket=2", "--ntasks=4")
	submit(t, root, "per-node-typed", "--hold", "--nodes=2", "--gpus-per-node=v100:1")
	submit(t, root, "per-task-typed", "--hold", "--nodes=2", "--ntasks-per-node=2", "--gpus-per-task=v100:1")
	submit(t, root, "job-and-node", "--hold", "--gpus=8", "--gpus-per-node=4")
	submit(t, root, "job-mixed", "--hold", "--gpus=a100:1,t4:1")
	submit(t, root, "none", "--hold", "--gres=none")
	submit(t, root, "zero", "--hold", "--gres=gpu:0")
	submit(t, root, "large", "--hold", "--ntasks=2048", "--mem-per-cpu=3G")
	submit(t, root, "whole", "--hold", "--exclusive", "--gres=gpu:1")
	submit(t, root, "whole-user", "--hold", "--exclusive=user", "--gres=gpu:1")
	submit(t, root, "hostile-gres", "--hold", "--gres=gpu:a\x1fb:1")
	submit(t, root, "array", "--array=1-9%3", "--gpus=1", "--begin=now+1day")
	submit(t, root, "array-steps", "--array=1,3,5-20:5", "--begin=now+1day")
	submit(t, root, "array-one", "--array=7", "--begin=now+1day")
	split := submit(t, root, "array-split", "--array=0-5", "--begin=now+1day")
	run(t, root, "scontrol", "update", "JobId="+split+"_[1-2]", "SiteFactor=5")
	long := make([]string, 60)
	for i := range long {
		long[i] = fmt.Sprint(1000 + 3*i + i%2)
	}
	submit(t, root, "array-long", "--array="+strings.Join(long, ","), "--begin=now+1day")
	run(t, root, "sbatch", "--parsable", "--output=/dev/null", "--hold", "--comment=het", "--ntasks=1",
		":", "--ntasks=2", "--gpus=v100:1", "--comment=het", "--wrap=sleep 600")
	run(t, root, "scontrol", "create", "reservation", "ReservationName=later", "StartTime=now+30days", "Duration=60", "Nodes=v100-2", "Users="+me.Username, "Flags=IGNORE_JOBS")
	submit(t, root, "reservation", "--reservation=later", "--gres=gpu:1", "--time=10")
	submit(t, plain, "other user", "--begin=now+1day", "--gres=gpu:1", "--account="+lab.Biology)
	for _, comment := range hostile {
		submit(t, plain, comment, "--begin=now+1day")
	}
	run(t, root, "scontrol", "update", "NodeName=v100-1", "State=DRAIN", "Reason=bad fan\nNodeName=fake State=IDLE CPUTot=4 RealMemory=4 Gres=gpu:9")

	submit(t, root, "done", "--wrap=true")
	submit(t, root, "failed", "--wrap=exit 3")
	submit(t, root, "signal", "--wrap=kill -9 $$")
	run(t, root, "scancel", cancelled)
	eventually(t, "finished jobs in sacct", func() bool {
		out := run(t, root, "sacct", "-nPXD", "--starttime=now-1hour", "--endtime=now", "--format=JobName,State") // some seconds late
		for _, row := range []string{"done|COMPLETED", "failed|FAILED", "signal|FAILED", "typed|RUNNING", "requeued|REQUEUED", "cancelled|CANCELLED"} {
			if !strings.Contains(out, row) {
				return false
			}
		}
		return true
	})
	eventually(t, "jobs that end to have ended", func() bool { // they hold GPUs until then, and are not requeued before
		return run(t, root, "squeue", "-h", "-t", "CG", "-o", "%i") == ""
	})
	eventually(t, "the waiting job in sprio", func() bool {
		return strings.Contains(run(t, root, "squeue", "-h", "-o", "%r", "-t", "PD"), "Resources")
	})
}

type recordedWrite struct {
	name    string
	updates []slurmplug.Update
}

// recordedUpdates are writes that end in every way that scontrol knows.
func recordedUpdates(t testing.TB, l *lab.Lab) []recordedWrite {
	root := l.Client
	id := func(s string) slurmplug.JobID {
		v, err := slurmplug.ParseJobID(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	busy := submit(t, root, "update-running", "--begin=now+1day")
	array := submit(t, root, "update-array", "--array=0-40:2", "--begin=now+1day")
	sparse := submit(t, root, "update-sparse", "--array=0-80:2", "--begin=now+1day")
	held := submit(t, root, "update-held", "--hold")
	begun := submit(t, root, "update-begun", "--array=0-5%2", "--ntasks=1") // two tasks run, four wait
	for _, task := range []string{"_0", "_1"} {
		if err := l.WaitJob(t.Context(), begun+task, "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	het := strings.TrimSpace(run(t, root, "sbatch", "--parsable", "--output=/dev/null", "--hold", "--ntasks=1", ":", "--ntasks=2", "--wrap=sleep 600"))
	site := func(job string, tasks, value string) slurmplug.Update {
		return slurmplug.Update{Job: id(job), Tasks: tasks, Lever: slurmplug.SiteFactor, Value: slurmplug.SiteFactor.Value(value)}
	}
	list := site(busy, "", "7")
	run(t, root, "scontrol", "update", "JobId="+sparse+"_[2,4,6,8]", "SiteFactor=5")
	var scattered []string // half of them are tasks of the array
	for i := range 40 {
		scattered = append(scattered, fmt.Sprint(2*i+i%2))
	}
	component := site(het, "", "4")
	component.HetID, component.HetOffset = component.Job.ID, 1
	none := component
	none.HetOffset = 7
	return []recordedWrite{
		{"update-list", []slurmplug.Update{list, site("999999", "", "7"), site(held, "", "7")}},
		{"update-array", []slurmplug.Update{site(array, "0-40:2", "7"), site(array+"_41", "", "7"), site(array+"_99", "", "7")}},
		{"update-sparse", []slurmplug.Update{site(sparse, strings.Join(scattered, ","), "9")}},
		{"update-lines", []slurmplug.Update{
			site(busy, "", "1"), site("999999", "", "2"), site(array+"_2", "", "3"), site(array+"_98", "", "3"),
			site(sparse, "0-80:2", "5"), site(held, "", "6"), component, none,
		}},
		{"update-begun", []slurmplug.Update{{Job: id(begun), Tasks: "0-5", Lever: slurmplug.Features, Value: slurmplug.Text("a100")}}},
		{"update-held", []slurmplug.Update{{Job: id(held), Lever: slurmplug.Lever("Priority"), Value: slurmplug.Number(77)}, {Job: id(busy), Lever: slurmplug.Lever("Priority"), Value: slurmplug.Number(77)}}},
		{"update-feature", []slurmplug.Update{{Job: id(busy), Lever: "Features", Value: slurmplug.Text("nothing")}, {Job: id(held), Lever: "Features", Value: slurmplug.Text("a100|v100")}}},
		{"update-field", []slurmplug.Update{{Job: id(busy), Lever: "NoSuchField", Value: slurmplug.Text("x")}, {Job: id(held), Lever: "NoSuchField", Value: slurmplug.Text("y")}}},
	}
}
