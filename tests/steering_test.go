package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
	"slurmprio/tests/shim"
)

// steering is what a site that steers sets. By this policy each job has time on
// every type.
const steering = quick + `
[allocation]
policy = "max-min"
[steering]
enabled = true
`

// bindable is a site with jobs that may be steered.
type bindable struct{ *site }

func newBindable(t testing.TB) *bindable { return &bindable{newSite(t, steering)} }

// asks submits a job that says how fast it is.
func (b *bindable) asks(args ...string) string {
	b.Helper()
	return b.submit(slices.Concat([]string{"--prio-speed=a100:4,v100:2,t4:1", "--time=30", "--mem=100"}, args, []string{"--wrap", "sleep 600"})...)
}

// constraints are those of the pending jobs.
func (b *bindable) constraints() map[string]string {
	b.Helper()
	all := map[string]string{}
	for line := range strings.Lines(b.slurm("squeue", "--noheader", lab.Records(), "--states=PENDING", "--format=%i %f")) {
		id, features, _ := strings.Cut(strings.TrimSpace(line), " ")
		if features == "(null)" {
			features = ""
		}
		all[id] = features
	}
	return all
}

// bound reports whether a constraint is a job's own with a GPU type.
func bound(own, now string, types ...string) bool {
	c, err := slurmplug.ParseConstraint(own)
	return err == nil && slices.ContainsFunc(types, func(t string) bool {
		text, err := c.With(t)
		return err == nil && text == now
	})
}

// form is one way to ask for GPUs.
type form struct {
	args  []string
	types []string // that it may be bound to
	why   string   // explain says why it is left alone
}

func (f *form) String() string { return strings.Join(f.args, " ") }

var anyType = []string{"a100", "v100", "t4"}

var forms = []form{
	{args: []string{"--gres=gpu:1"}, types: anyType},
	{args: []string{"--gpus=2", "-N2"}, types: anyType},
	{args: []string{"--gpus-per-node=4", "-N3"}, types: []string{"a100", "v100"}},
	{args: []string{"--gres=gpu:1", "-C", "a100|v100"}, types: []string{"a100", "v100"}},
	{args: []string{"--gres=gpu:1", "-C", "v100|t4"}, types: []string{"v100", "t4"}},
	{args: []string{"--gres=gpu:1", "-x", "a100-[1-3]"}, types: []string{"v100", "t4"}},
	{args: []string{"--gres=gpu:2", "-x", "a100-[1-3],v100-[2-3]"}, types: []string{"v100", "t4"}},
	{args: []string{"--gres=gpu:1", "-C", "v100"}, why: "leaves one GPU type"},
	{args: []string{"--gres=gpu:a100:1"}, why: "requests a GPU type"},
	{args: []string{"--gpus=t4:1"}, why: "requests a GPU type"},
	{args: []string{"--gres=gpu:1", "-C", "[a100|v100]"}, why: "counts"},
	{args: []string{"--gpus=2", "-N2", "-C", "[a100*1&v100*1]"}, why: "counts"},
	{args: []string{"--gres=gpu:1", "-C", "(a100&v100)|t4"}, why: "parentheses"},
	{args: []string{"--gres=gpu:1", "-C", "a100&v100|t4"}, why: "mixes"},
	{args: []string{"--gres=gpu:1", "--prefer=t4"}, why: "--prefer"},
	{args: []string{"--gres=gpu:1", "-w", "v100-1"}, why: "requests specific nodes"},
	{args: []string{"--gres=gpu:1", ":", "--gres=gpu:1"}, why: "heterogeneous"},
}

// settled waits until each job is bound as its form says; explain tells why the
// others are not.
func (b *bindable) settled(ids map[string]*form, before map[string]string) {
	b.Helper()
	missing := ""
	defer func() {
		if missing != "" {
			b.Log(missing)
		}
	}()
	told := map[string]bool{}
	b.wait("every job to be bound, or left alone with a reason", func() bool {
		missing = ""
		now := b.constraints()
		for id, f := range ids {
			switch held := bound(before[id], now[id], f.types...); {
			case now[id] != before[id] && !held:
				b.Fatalf("%s: %s was changed from %q to %q", id, f, before[id], now[id])
			case f.why == "" && !held:
				missing = fmt.Sprintf("%s: %s holds %q", id, f, now[id])
			case f.why != "" && !told[id]:
				out, _, _ := b.priod("explain", strings.TrimSuffix(id, "+0"))
				if told[id] = strings.Contains(out, f.why); !told[id] {
					missing = fmt.Sprintf("%s: %s\n%s", id, f, out)
				}
			}
		}
		return missing == ""
	})
	if out := b.slurm("squeue", "--noheader", "--format=%i %r"); strings.Contains(out, "BadConstraints") {
		b.Errorf("BadConstraints:\n%s", out)
	}
}

// Every form of a request is bound to a type that it can have or left alone with
// the reason, starts where it was bound to, and reset brings back what its user
// wrote, also without the database.
func TestSteering(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			b := &bindable{newOwnSite(t, steering)}
			b.fill()
			ids := map[string]*form{}
			for i := range forms {
				id := b.asks(forms[i].args...)
				if strings.Contains(forms[i].String(), " : ") {
					id += "+0"
				}
				ids[id] = &forms[i]
			}
			array := b.asks("--gres=gpu:1", "--array=0-40") // more tasks than GPUs: its record is bound, too, once it is small
			b.eligible(len(forms) + 2)
			before := b.constraints()
			d := b.daemon()
			b.settled(ids, before)
			b.wait("the array's tasks to be bound", func() bool {
				for id, c := range b.constraints() {
					if strings.HasPrefix(id, array) && bound("", c, anyType...) {
						return true
					}
				}
				return false
			})
			for line := range strings.Lines(b.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i %N")) {
				if id, node, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasSuffix(node, "-1") {
					b.slurm("scancel", id)
				}
			}
			b.wait("jobs to start where they were bound to", func() bool {
				started := 0
				for line := range strings.Lines(b.slurm("squeue", "--noheader", lab.Records(), "--states=RUNNING", "--format=%i %f %N")) {
					f := strings.Fields(line)
					own, known := before[f[0]]
					if !known || ids[f[0]] == nil || ids[f[0]].why != "" {
						continue
					}
					started++
					if gpuType, _, _ := strings.Cut(f[2], "-"); !bound(own, f[1], gpuType) {
						t.Errorf("job %s asks for %q, was given %q, and runs on %s", f[0], own, f[1], f[2])
					}
				}
				return started >= 3
			})
			d.stop()
			if lost {
				b.loseDatabase()
			}
			b.must("reset")
			for id, c := range b.constraints() {
				own, whole := before[id]
				if !whole && strings.HasPrefix(id, array) {
					own = ""
				}
				if c != own {
					t.Errorf("reset leaves job %s with %q, its own is %q", id, c, own)
				}
			}
		})
	}
}

// What no poll shows, here the local disk that a job asks for, can make a type
// impossible: Slurm says so, the constraint is put back, and the job starts.
func TestSteeringToAnImpossibleType(t *testing.T) {
	longOnly(t)
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{
		{Count: 1, GPUType: "a100", GPUs: 4, Extra: "TmpDisk=10"}, {Count: 1, GPUType: "t4", GPUs: 4, Extra: "TmpDisk=1000"},
	}})
	b := &bindable{newSiteOn(t, l, steering)}
	b.fill()
	id := b.asks("--gres=gpu:1", "--tmp=500")
	b.eligible(1)
	d := b.daemon()
	d.waitLog("BadConstraints")
	b.wait("the constraint to be put back", func() bool { return b.constraints()[id] == "" })
	for line := range strings.Lines(b.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i")) {
		b.slurm("scancel", strings.TrimSpace(line))
	}
	if err := l.WaitJob(b.Context(), id, "RUNNING"); err != nil {
		t.Error(err)
	}
	d.stop()
}

// boundTo waits until a job is bound to one of the types.
func (b *bindable) boundTo(id string, types ...string) {
	b.Helper()
	b.wait(fmt.Sprintf("job %s to be bound to one of %v", id, types), func() bool { return bound("", b.constraints()[id], types...) })
}

// A user who edits the constraint wins, nodes that go take their type back, and a
// site that switches steering off gets back what users wrote.
func TestSteeringGivesWay(t *testing.T) {
	b := newBindable(t)
	b.fill()
	first, second, third := b.asks("--gres=gpu:1"), b.asks("--gres=gpu:1"), b.asks("--gres=gpu:1")
	b.eligible(3)
	d := b.daemon()
	for _, id := range []string{first, second, third} {
		b.boundTo(id, anyType...)
	}
	b.slurm("scontrol", "update", "JobId="+first, "Features=t4|v100")
	b.slurm("scontrol", "update", "JobId="+second, "Features=")
	for _, id := range []string{first, second} {
		b.wait("priod to see that job "+id+" was edited", func() bool {
			return strings.Contains(b.must("explain", id), "was changed after priod wrote it")
		})
	}
	if c := b.constraints(); c[first] != "t4|v100" || c[second] != "" {
		t.Errorf("the users' edits became %q and %q", c[first], c[second])
	}
	gone := b.constraints()[third]
	nodes := "NodeName=" + gone + "-[1-" + map[string]string{"a100": "3", "v100": "3", "t4": "2"}[gone] + "]"
	b.slurm("scontrol", "update", nodes, "State=DRAIN", "Reason=test")
	defer b.slurm("scontrol", "update", nodes, "State=RESUME")
	b.wait("another type", func() bool { c := b.constraints()[third]; return c != gone && bound("", c, anyType...) })
	b.configure(strings.Replace(steering, "enabled = true", "enabled = false", 1))
	d.cmd.Process.Signal(syscall.SIGHUP)
	b.wait("the last type to be taken back", func() bool { return b.constraints()[third] == "" })
	if c := b.constraints(); c[first] != "t4|v100" || c[second] != "" {
		t.Errorf("the users' edits became %q and %q", c[first], c[second])
	}
	d.stop()
}

// Nodes without their type's feature lose only themselves: jobs are steered to the
// type, start on its other nodes, and what needs more of these goes elsewhere.
func TestSteeringPastNodesWithoutTheirFeature(t *testing.T) {
	longOnly(t)
	b := &bindable{newOwnSite(t, steering)}
	features := func(f string) {
		b.slurm("scontrol", "update", "NodeName=a100-[2-3]", "AvailableFeatures="+f, "ActiveFeatures="+f)
	}
	features("other")
	defer features("a100")
	one := b.asks("--gres=gpu:1", "--begin=now+20")
	gang := b.asks("--gpus-per-node=4", "-N2", "--begin=now+20")
	d := b.daemon()
	b.boundTo(one, "a100")
	b.boundTo(gang, "v100", "t4")
	if out := b.must("queue"); !strings.Contains(out, "steered jobs cannot run on a100-[2-3]: they have no feature a100") {
		t.Errorf("queue does not name the nodes:\n%s", out)
	}
	if err := b.lab.WaitJob(b.Context(), one, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	if node := strings.TrimSpace(b.slurm("squeue", "--noheader", "--jobs="+one, "--format=%N")); node != "a100-1" {
		t.Errorf("it runs on %s", node)
	}
	d.stop()
}

// A user who edits the constraint between the write and the look at it wins.
func TestSteeringRacesWithItsUser(t *testing.T) {
	b := newBindable(t)
	d := b.shimmed(steering)
	b.fill()
	id := b.asks("--gres=gpu:1")
	b.eligible(1)
	b.cycleWith(d, shim.Fault{Command: "scontrol update", When: "after", Call: 1, Do: shim.Run, Argv: []string{"scontrol", "update", "JobId=" + id, "Features=t4|v100"}})
	if c := b.constraints()[id]; c != "t4|v100" {
		t.Errorf("it holds %q", c)
	}
	b.must("reset")
	if c := b.constraints()[id]; c != "t4|v100" {
		t.Errorf("reset leaves %q", c)
	}
}

// Killed between the undo line and the write, or right after that, priod knows
// its own value from the user's.
func TestSteeringKilled(t *testing.T) {
	t.Parallel()
	for when, fault := range map[string]shim.Fault{
		"before": {Command: "sdiag", When: "before", Call: 1, Do: shim.Kill}, // the line is there, nothing is sent
		"after":  {Command: "scontrol update", When: "after", Call: 1, Do: shim.Kill},
	} {
		t.Run(when, func(t *testing.T) {
			b := newBindable(t)
			d := b.shimmed(steering)
			b.fill()
			id := b.asks("--gres=gpu:1", "-C", "a100|v100")
			b.eligible(1)
			b.throw(d, fault)
			if _, _, status := b.priod("run", "--once"); status == 0 {
				t.Fatal("priod was not killed")
			}
			b.throw(d)
			if text, err := os.ReadFile(filepath.Join(b.dir, "state", "journal.jsonl")); err != nil || !strings.Contains(string(text), `"was":"a100|v100"`) {
				t.Errorf("the journal says %s, %v", text, err)
			}
			if c := b.constraints()[id]; (when == "after") != bound("a100|v100", c, "a100", "v100") {
				t.Fatalf("it holds %q", c)
			}
			if when == "after" {
				b.loseDatabase()
			}
			b.must("run", "--once")
			if c := b.constraints()[id]; !bound("a100|v100", c, "a100", "v100") {
				t.Errorf("the next run leaves %q", c)
			}
			b.must("reset")
			if c := b.constraints()[id]; c != "a100|v100" {
				t.Errorf("reset leaves %q", c)
			}
		})
	}
}
