package tests

import (
	"slices"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// dividedLab is a lab with a partition for each GPU type, and one over all nodes whose jobs hold every GPU.
func dividedLab(t *testing.T, o lab.Options) *lab.Lab {
	t.Helper()
	o.Nodes = []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}, {Count: 1, GPUType: "t4", GPUs: 4}}
	o.Partitions = append([]string{
		"all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
		"a100 Nodes=a100-1 MaxTime=INFINITE", "v100 Nodes=v100-1 MaxTime=INFINITE", "t4 Nodes=t4-1 MaxTime=INFINITE",
	}, o.Partitions...)
	return lab.ForTest(t, o)
}

// boundJob is a site whose GPUs are all taken, with one job in two partitions that priod binds to v100.
type boundJob struct {
	*dividedSite
	dividedAsk
}

// newBoundJob submits the job to a list of partitions; ranked are those of priod.toml, none for all.
func newBoundJob(t *testing.T, l *lab.Lab, list string, ranked ...string) *boundJob {
	t.Helper()
	return bindJob(t, l, dividedSettings, list, ranked...)
}

func bindJob(t *testing.T, l *lab.Lab, settings, list string, ranked ...string) *boundJob {
	t.Helper()
	b := &boundJob{dividedSite: &dividedSite{site: bareSite(t, l), asked: map[string]map[string]string{}}}
	b.partitions, b.profile = append([]string{}, ranked...), "balanced"
	b.configure(settings)
	b.clear()
	t.Cleanup(b.clear)
	for range l.Nodes {
		if err := l.WaitJob(b.Context(), b.submit("-p", "all", "--gres=gpu:4", "--time=60", "--prio-none", "--wrap", "sleep 600"), "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	b.id = b.submit("-p", list, "--gres=gpu:1", "--time=45", "--mem=100", "--prio-type=be", "--prio-speed=a100:1,v100:40,t4:1", "--wrap", "sleep 600")
	b.asked[b.id] = b.request(b.id)
	b.looked()
	b.types, b.line = []string{"v100"}, list
	b.isGiven(b.dividedAsk)
	if t.Failed() {
		t.FailNow()
	}
	b.looked()
	return b
}

// goesOn runs cycles, after each of which Slurm has looked at the job.
func (b *boundJob) goesOn(cycles int) {
	b.Helper()
	for range cycles {
		b.cycle()
		b.looked()
	}
}

// waits fails unless the job waits and is not held, and explain says some words of it.
func (b *boundJob) waits(words string) {
	b.Helper()
	state := strings.TrimSpace(b.slurm("squeue", "--all", "--noheader", "--jobs="+b.id, "--format=%T %Q"))
	if out := b.must("explain", b.id); !strings.HasPrefix(state, "PENDING ") || state == "PENDING 0" || !strings.Contains(out, words) {
		b.Errorf("it is %q, and explain does not say %q:\n%s", state, words, out)
	}
}

// A partition in which a job is bound to the GPU type, by a feature or by its list, is deleted, drained, set down or
// inactive, or no longer admits the job's account. From a list Slurm leaves out one that takes no jobs: it is put back once
// it does.
func TestDividedPartitionGoes(t *testing.T) {
	longOnly(t)
	t.Parallel()
	l := dividedLab(t, lab.Options{})
	for _, c := range []struct {
		name, do, undo string
		refused        string // what Slurm answers to do
		keeps          bool   // the type
	}{
		{name: "deleted", do: "delete PartitionName=v100", refused: "in use", keeps: true},
		{name: "drained", do: "update PartitionName=v100 State=DRAIN", undo: "update PartitionName=v100 State=UP", keeps: true},
		{name: "down", do: "update PartitionName=v100 State=DOWN", undo: "update PartitionName=v100 State=UP"},
		{name: "inactive", do: "update PartitionName=v100 State=INACTIVE", undo: "update PartitionName=v100 State=UP"},
		{name: "account", do: "update PartitionName=v100 AllowAccounts=biology", undo: "update PartitionName=v100 AllowAccounts=ALL"},
		{name: "account above", do: "update PartitionName=v100 AllowAccounts=root", undo: "update PartitionName=v100 AllowAccounts=ALL", keeps: lab.AtLeast(24, 11)},
	} {
		for lever, settings := range map[string]string{"feature": dividedSettings, "list": dividedSettings + strings.TrimPrefix(noFeatures, steering)} {
			t.Run(c.name+" by "+lever, func(t *testing.T) {
				b := bindJob(t, l, settings, "a100,v100")
				if _, err := l.Run(t.Context(), "scontrol", strings.Fields(c.do)...); (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("%s: %v", c.do, err)
				}
				undo := func() { b.slurm("scontrol", strings.Fields(c.undo)...) }
				if c.undo == "" {
					undo = func() {}
				}
				defer undo()
				b.goesOn(4)
				if given := b.given(b.dividedAsk); c.keeps != (given == "v100") {
					t.Errorf("it has %q\n%s", given, b.must("explain", b.id))
				}
				switch {
				case c.name == "drained" && lever == "list":
					b.waits("Slurm lets no job into v100")
				case c.keeps:
					b.waits("waits for v100")
				default:
					b.waits("")
				}
				if lever == "list" {
					b.priod("reset")
					undo()
				}
				b.must("reset")
				b.isAsAsked()
			})
		}
	}
}

// A partition gets another name in slurm.conf. What Slurm makes of a job that names it, it makes of one that priod never
// touched; cycles and reset go on.
func TestDividedPartitionRenamed(t *testing.T) {
	longOnly(t)
	t.Parallel()
	b := newBoundJob(t, dividedLab(t, lab.Options{}), "a100,v100")
	other := b.submit("-p", "a100,v100", "--gres=gpu:1", "--time=45", "--mem=100", "--prio-none", "--wrap", "sleep 600")
	b.asked[other] = b.request(other)
	b.looked()
	b.rewrite("PartitionName=v100 ", "PartitionName=v100.new ")
	b.goesOn(4)
	states := strings.Fields(b.slurm("squeue", "--all", "--noheader", "--states=all", "--jobs="+b.id+","+other, "--format=%T"))
	if len(states) != 2 || states[0] != states[1] {
		t.Errorf("priod's job and another one are %v", states)
	}
	out := b.must("explain", b.id)
	b.must("reset")
	if states[0] != "PENDING" {
		if !strings.Contains(out, states[0]) && !strings.Contains(out, "left the queue") {
			t.Errorf("it is %s, and explain says\n%s", states[0], out)
		}
		return
	}
	now := b.request(other)["Partition"]
	for _, id := range []string{b.id, other} {
		b.asked[id]["Partition"] = now // as Slurm left it
	}
	b.isAsAsked()
}

// Partitions with dots and dashes in their names, of which slurm.partitions names one, none, or all.
func TestDividedPartitionNames(t *testing.T) {
	longOnly(t)
	t.Parallel()
	l := dividedLab(t, lab.Options{Partitions: []string{"DEFAULT MaxTime=60", "a100-80.sxm_x Nodes=a100-1", "2v100-32 Nodes=v100-1"}})
	all := []string{"a100-80.sxm_x", "2v100-32"}
	b := newBoundJob(t, l, strings.Join(all, ","), all...)
	for _, c := range []struct {
		ranked []string
		check  string
	}{
		{all[:1], ""},
		{[]string{"DEFAULT"}, `slurm.partitions: no partition "DEFAULT" on this cluster`},
		{all, ""},
	} {
		b.partitions = c.ranked
		b.configure(b.settings)
		if out, _, status := b.priod("check"); (status == 0) != (c.check == "") || !strings.Contains(out, c.check) {
			t.Errorf("slurm.partitions = %q: check ends with %d and does not say %q\n%s", c.ranked, status, c.check, out)
		}
		b.goesOn(2)
		if slices.Equal(c.ranked, all) {
			b.waits("best-effort")
			continue
		}
		b.waits("not all of its partitions are in slurm.partitions")
		if given := b.given(b.dividedAsk); given != "" {
			t.Errorf("slurm.partitions = %q: it has %q", c.ranked, given)
		}
	}
	b.must("reset")
	b.isAsAsked()
}

// A job_submit plugin writes a job's partitions at each update, of priod's, too: the same ones, in another order, or one
// that has no node of the type. Then the type is taken back; the partition that the plugin chose stays.
func TestDividedPluginRewrites(t *testing.T) {
	longOnly(t)
	t.Parallel()
	for name, list := range map[string]string{"same": "a100,v100", "order": "v100,a100", "other": "t4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoundJob(t, dividedLab(t, lab.Options{ExtraConf: []string{"JobSubmitPlugins=lua"}, ExtraFiles: map[string]string{"job_submit.lua": `
function slurm_job_submit(job, parts, uid) return slurm.SUCCESS end
function slurm_job_modify(job, was, parts, uid)
  if was.partition ~= "all" then job.partition = "` + list + `" end
  return slurm.SUCCESS
end
`}}), "a100,v100")
			b.goesOn(4)
			if given := b.given(b.dividedAsk); (given == "v100") != (name != "other") {
				t.Errorf("it has %q\n%s", given, b.must("explain", b.id))
			}
			b.waits("")
			b.must("reset")
			b.asked[b.id]["Partition"] = list
			b.isAsAsked()
		})
	}
}
