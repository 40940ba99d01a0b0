package tests

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/tests/lab"
)

// newDivided is a site whose GPU types lie in partitions of their own, named after them.
func newDivided(t *testing.T, settings string, conf ...string) *site {
	t.Helper()
	t.Parallel()
	nodes := []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 4}, {Count: 2, GPUType: "v100", GPUs: 4}, {Count: 2, GPUType: "t4", GPUs: 4}}
	var partitions []string
	for _, n := range nodes {
		partitions = append(partitions, fmt.Sprintf("%s Nodes=%[1]s-[1-%d] Default=%s MaxTime=INFINITE State=UP", n.GPUType, n.Count, map[bool]string{true: "YES", false: "NO"}[n.GPUType == "t4"]))
	}
	s := bareSite(t, lab.ForTest(t, lab.Options{Nodes: nodes, Partitions: partitions, ExtraConf: conf}))
	s.partitions = anyType
	s.configure(settings)
	return s
}

// holdAll has BE jobs take all nodes but those of one GPU type.
func (b *bindable) holdAll(but string) (holders []string) {
	b.Helper()
	for _, name := range b.lab.Nodes {
		if gpuType, _, _ := strings.Cut(name, "-"); gpuType != but {
			holders = append(holders, b.submit("--prio-type=be", "--partition="+gpuType, "--gres=gpu:4", "--time=60", "--wrap", "sleep 600"))
		}
	}
	for _, id := range holders {
		if err := b.lab.WaitJob(b.Context(), id, "RUNNING"); err != nil {
			b.Fatal(err)
		}
	}
	return holders
}

// A job of several partitions, each with a GPU type of its own, is given a type and keeps it while Slurm names the
// partitions without it; it starts there, and reset brings back what its user wrote.
func TestSteeringAcrossPartitions(t *testing.T) {
	b := &bindable{newDivided(t, steering)}
	holders := b.holdAll("")
	lists := []string{"a100,v100,t4", "t4,v100", "v100,a100,t4"}
	own := map[string]string{}
	for i := range 6 {
		list := lists[i%len(lists)]
		own[b.asks("--partition="+list, "--gres=gpu:4")] = list
	}
	d := b.daemon()
	told, given := map[string]bool{}, map[string]string{}
	isBound := func() bool {
		now := b.constraints()
		for id, list := range own {
			given[id] = now[id]
			if now[id] == "" || !slices.Contains(strings.Split(list, ","), now[id]) {
				return false
			}
		}
		return true
	}
	b.wait("each job to be bound to a type of its partitions", isBound)
	b.wait("Slurm to name partitions that have no such node", func() bool {
		for line := range strings.Lines(b.slurm("squeue", "--noheader", "--states=PENDING", "--format=%r")) {
			told[strings.TrimSpace(line)] = true
		}
		return told["BadConstraints"]
	})
	d.cycles(5)
	if !isBound() {
		t.Errorf("a type is taken back: %v", given)
	}
	for id := range own {
		if out := b.must("explain", id); strings.Contains(out, "BadConstraints); taken back") || strings.Contains(out, "left alone") || strings.Contains(out, "no node satisfies") {
			t.Error(out)
		}
	}
	b.slurm("scancel", holders[0], holders[2], holders[4]) // a node of each type
	b.wait("jobs to start on the types given", func() bool {
		started := 0
		for line := range strings.Lines(b.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i %f %N")) {
			f := strings.Fields(line)
			if own[f[0]] == "" {
				continue
			}
			started++
			if !strings.HasPrefix(f[2], f[1]+"-") {
				t.Errorf("job %s was given %q and runs on %s", f[0], f[1], f[2])
			}
		}
		return started >= 2
	})
	d.stop()
	b.must("reset")
	for line := range strings.Lines(b.slurm("squeue", "--noheader", "--states=PENDING", "--format=%i %P %f")) {
		if f := strings.Fields(line); f[1] != own[f[0]] || f[2] != "(null)" {
			t.Errorf("reset leaves %q; its user asked for %q", line, own[f[0]])
		}
	}
}

// noFeatures is a site whose nodes have no feature for their GPU type.
const noFeatures = steering + `
[gpu_types.a100]
feature = "no_a100"
[gpu_types.v100]
feature = "no_v100"
[gpu_types.t4]
feature = "no_t4"
`

// lists are the partitions of the pending jobs, and their constraints.
func (b *bindable) lists() (partitions, features map[string]string) {
	b.Helper()
	partitions, features = map[string]string{}, map[string]string{}
	for line := range strings.Lines(b.slurm("squeue", "--noheader", lab.Records(), "--states=PENDING", "--format=%i %P %f")) {
		if f := strings.Fields(line); len(f) == 3 {
			partitions[f[0]], features[f[0]] = f[1], strings.TrimSuffix(f[2], "(null)")
		}
	}
	return partitions, features
}

// Where no node has a feature, a job of several partitions is given a type by its list: single jobs and arrays, also
// after a requeue; one that its user moves is left alone, and reset brings back each list in its order.
func TestSteeringByPartition(t *testing.T) {
	b := &bindable{newDivided(t, noFeatures)}
	holders := b.holdAll("")
	own := map[string]string{}
	for _, list := range []string{"a100,v100,t4", "t4,v100", "v100,a100,t4", "t4,a100"} {
		own[b.asks("--partition="+list, "--gres=gpu:4")] = list
	}
	array := b.asks("--partition=t4,v100,a100", "--gres=gpu:4", "--array=1-4")
	moved := b.asks("--partition=a100,v100,t4", "--gres=gpu:4")
	d := b.daemon()
	given := map[string]string{}
	isBound := func() bool {
		partitions, features := b.lists()
		for id, list := range own {
			given[id] = partitions[id]
			if features[id] != "" || !slices.Contains(strings.Split(list, ","), partitions[id]) {
				return false
			}
		}
		return true
	}
	b.wait("each job to be given a type by its partitions", isBound)
	others := ""
	b.wait("the job that will be moved to be given one, too", func() bool {
		partitions, _ := b.lists()
		others = strings.Join(slices.DeleteFunc([]string{"t4", "a100", "v100"}, func(p string) bool { return p == partitions[moved] }), ",")
		return !strings.Contains(partitions[moved], ",")
	})
	b.wait("a task to be given a type", func() bool {
		partitions, _ := b.lists()
		for id, list := range partitions {
			if strings.HasPrefix(id, array+"_") && !strings.Contains(list, ",") {
				return true
			}
		}
		return false
	})
	b.slurm("scontrol", "update", "JobId="+moved, "Partition="+others) // without the one that was chosen
	d.cycles(5)
	if !isBound() {
		t.Errorf("a type is taken back: %v", given)
	}
	if partitions, _ := b.lists(); partitions[moved] != others {
		t.Errorf("its user moved job %s to %s, and it asks for %s", moved, others, partitions[moved])
	}
	if out := b.must("explain", moved); !strings.Contains(out, "left as they are") {
		t.Error(out)
	}
	b.slurm("scancel", holders...)
	first := ""
	b.wait("jobs to start on the types given", func() bool {
		first = ""
		for line := range strings.Lines(b.slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i %P %N")) {
			f := strings.Fields(line)
			if own[f[0]] == "" {
				continue
			}
			first = f[0]
			if f[1] != given[f[0]] || !strings.HasPrefix(f[2], given[f[0]]+"-") {
				t.Errorf("job %s was given %s and runs in %s on %s", f[0], given[f[0]], f[1], f[2])
			}
		}
		return first != ""
	})
	b.slurm("scontrol", "requeue", first)
	d.cycles(2)
	d.stop()
	b.must("reset")
	own[moved] = others
	partitions, features := b.lists()
	for id, list := range partitions {
		want := own[id]
		if strings.HasPrefix(id, array) {
			want = "t4,v100,a100"
		}
		if list != want || features[id] != "" {
			t.Errorf("reset leaves job %s in %s with %q; its user asked for %s", id, list, features[id], want)
		}
	}
}

// A site with a partition for each type and no feature sets nothing but the profile: jobs that gain much from a100 get it
// and those that gain nothing go elsewhere, a trial of two GPUs has room made for it, and reset restores each list.
func TestDividedSite(t *testing.T) {
	b := &bindable{newDivided(t, "")}
	settings := "profile = \"balanced\"\n" + strings.Replace(noFeatures, steering, quick, 1) + "[preemption]\nmin_run = \"1s\"\nheadroom = false\n"
	text := fmt.Sprintf("%s\n[slurm]\nbin_dir = %q\n[state]\ndir = %q\n[wake]\nlisten = []\n", settings, b.binDir, filepath.Join(b.dir, "state"))
	if err := replaceFile(b.config, text); err != nil {
		t.Fatal(err)
	}
	const list = "t4,v100,a100"
	submit := func(name, speeds string) string {
		return b.submit("--prio-type=be", "--prio-speed="+speeds, "--partition="+list, "--job-name="+name, "--gres=gpu:4", "--time=60", "--mem=100", "--wrap", "sleep 600")
	}
	var running []string
	for range b.lab.Nodes { // all nodes are full of jobs that leave for trials
		running = append(running, submit("holder", "a100:1.1,v100:1.1,t4:1"))
	}
	for _, id := range running {
		if err := b.lab.WaitJob(b.Context(), id, "RUNNING"); err != nil {
			t.Fatal(err)
		}
	}
	language, games := map[string]bool{}, map[string]bool{}
	for range 2 {
		language[submit("language", "a100:8,v100:2,t4:1")] = true
		games[submit("game", "a100:1.1,v100:1.1,t4:1")] = true
	}
	d := b.daemon()
	b.wait("language jobs to be given a100, and games something else or nothing", func() bool {
		partitions, _ := b.lists()
		for id := range language {
			if partitions[id] != "a100" {
				return false
			}
		}
		for id := range games {
			if strings.Contains(partitions[id], "a100") {
				return false
			}
		}
		return true
	})
	trial := b.submit("--prio-type=te", "--partition="+list, "--gres=gpu:2", "--time=10", "--mem=100", "--wrap", "sleep 600")
	if err := b.lab.WaitJob(b.Context(), trial, "RUNNING"); err != nil {
		t.Fatalf("no room is made for a trial: %v\n%s", err, b.must("explain", trial))
	}
	d.stop()
	b.must("reset")
	partitions, features := b.lists()
	for id := range partitions {
		requeued := slices.Contains(running, id) // then Slurm puts the partition in which it ran first
		if cluster.PartitionSet(partitions[id]) != cluster.PartitionSet(list) || !requeued && partitions[id] != list || features[id] != "" {
			t.Errorf("reset leaves job %s in %s with %q; its user asked for %s", id, partitions[id], features[id], list)
		}
	}
}

// With the site's word a job of one partition is given a type of another, which admits it: one that refuses its account,
// or goes down, is no place for it.
func TestAnyPartition(t *testing.T) {
	b := &bindable{newDivided(t, noFeatures+`
[[consent]]
partitions = ["a100", "v100", "t4"]
gpu_type = true
any_partition = true
`)}
	b.slurm("scontrol", "update", "PartitionName=v100", "AllowAccounts=nosuch")
	b.holdAll("v100")
	job := b.asks("--partition=t4", "--gres=gpu:4")
	d := b.daemon()
	is := func(want string) func() bool {
		return func() bool { partitions, _ := b.lists(); return partitions[job] == want }
	}
	b.wait("a job of t4 to be given a100: v100 refuses its account", is("a100"))
	if out := b.must("explain", job); !strings.Contains(out, "Partition as its user wrote it: t4") {
		t.Error(out)
	}
	// What was written is in the undo journal: another daemon takes it back.
	d.stop()
	d = b.daemon()
	b.slurm("scontrol", "update", "PartitionName=a100", "State=DOWN")
	b.wait("it to be back in its own partition, while a100 is down", is("t4"))
	d.stop()
}
