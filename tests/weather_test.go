package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// threeTypes is a lab with one node of each type.
func threeTypes(t *testing.T) *bindable {
	l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}, {Count: 1, GPUType: "t4", GPUs: 4}}})
	return &bindable{newSiteOn(t, l, steering)}
}

// possible checks that explain knows every type as one on which a job can run.
func (b *bindable) possible(job, after string) {
	b.Helper()
	if out := b.must("explain", job); strings.Contains(out, "cannot run there") {
		b.Errorf("after %s explain says of job %s:\n%s", after, job, out)
	}
}

// A node that was drained and is back serves jobs like one that runs elsewhere as before, in a
// daemon that has lived meanwhile: what is known of a waiting job comes from its request, not from
// where an equal one got its GPUs.
func TestTypeReturns(t *testing.T) {
	t.Parallel()
	b := threeTypes(t)
	var running []string
	for range b.lab.Nodes {
		running = append(running, b.asks("--gres=gpu:4"))
	}
	d := b.daemon()
	b.wait("all to run", func() bool { return len(b.constraints()) == 0 })
	d.cycles(1)
	for _, node := range b.lab.Nodes {
		b.slurm("scontrol", "update", "NodeName="+node, "State=DRAIN", "Reason=test")
		d.cycles(1)
		b.slurm("scontrol", "update", "NodeName="+node, "State=RESUME")
		d.cycles(1) // the running jobs are looked at first
		equal := b.asks("--gres=gpu:4")
		b.wait("its allocation", func() bool {
			out, _, _ := b.priod("explain", equal)
			return strings.Contains(out, "Allocated")
		})
		b.possible(equal, node+" was drained")
		b.slurm("scancel", equal)
	}
	d.stop()
	b.must("reset")
	for _, job := range running {
		b.slurm("scancel", job)
	}
}

// A node registers with fewer GPUs than slurm.conf gives it: Slurm drains it. Cycles go on, no job
// stays bound to its type, and once it has its GPUs again it serves as before.
func TestGPUsVanish(t *testing.T) {
	t.Parallel()
	b := threeTypes(t)
	b.fill()
	job := b.submit("--prio-speed=a100:1,v100:80,t4:1", "--time=30", "--mem=100", "--gres=gpu:3", "--wrap", "sleep 600")
	b.must("run", "--once")
	if c := b.constraints()[job]; c != "v100" {
		t.Fatalf("the job is bound to %q, want v100", c)
	}
	b.registersWith("v100-1", "gpu[0-1]")
	b.wait("Slurm to drain the node", func() bool {
		state := b.slurm("sinfo", "--noheader", "--nodes=v100-1", "--format=%T")
		return strings.Contains(state, "drain") || strings.Contains(state, "inval")
	})
	d := b.daemon()
	b.wait("the job to be free of the type", func() bool { return b.constraints()[job] != "v100" })
	d.stop()
	out, errs, status := b.priod("check", "--all")
	if strings.Contains(out+errs, "cannot be trusted") || status == 2 {
		t.Errorf("check: %d\n%s%s", status, out, errs)
	}
	b.must("queue")
	b.must("explain", job)
	b.registersWith("v100-1", "gpu[0-3]")
	b.wait("the node to be back", func() bool {
		_, _ = b.lab.Run(t.Context(), "scontrol", "update", "NodeName=v100-1", "State=RESUME") // refused while it is not drained
		state := b.slurm("sinfo", "--noheader", "--nodes=v100-1", "--format=%T")
		return !strings.Contains(state, "drain") && !strings.Contains(state, "inval")
	})
	next := b.submit("--prio-speed=a100:1,v100:80,t4:1", "--time=30", "--mem=100", "--gres=gpu:3", "--wrap", "sleep 600")
	b.must("run", "--once")
	b.possible(next, "the node got its GPUs back")
	b.must("reset")
	if c := b.constraints()[job]; c != "" {
		t.Errorf("reset leaves %q", c)
	}
}

// registersWith restarts a node's slurmd with these of its type's devices.
func (b *bindable) registersWith(node, devices string) {
	b.Helper()
	path := filepath.Join(b.lab.Dir, "etc", "gres.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "NodeName="+node+" ") {
			before, _, _ := strings.Cut(line, " File=")
			lines[i] = before + " File=" + filepath.Join(b.lab.Dir, "dev", devices) + "\n"
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		b.Fatal(err)
	}
	if err := b.lab.Restart(b.Context(), lab.Slurmd(node)); err != nil {
		b.Fatal(err)
	}
}

// A cluster without any GPU: every verb says so, and nothing fails.
func TestNoGPUs(t *testing.T) {
	t.Parallel()
	b := &bindable{newSiteOn(t, lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Count: 2, CPUs: 4}}}), steering+"[preemption]\nenabled = true\n[sizing]\nenabled = true\n[locality]\nenabled = true\n")}
	for range 3 {
		b.submit("--prio-type=be", "-c", "4", "--time=60", "--wrap", "sleep 600")
	}
	b.wait("two of them to run", func() bool { return strings.Count(b.slurm("squeue", "--noheader", "--states=RUNNING"), "\n") == 2 })
	trial := b.submit("--prio-type=te", "-c", "4", "--time=5", "--wrap", "sleep 600")
	for range 3 {
		b.must("run", "--once")
	}
	if out, errs, status := b.priod("check", "--all"); status != 0 || !strings.Contains(out, "no node has GPUs") || strings.Contains(out, "FAIL") {
		t.Errorf("check: %d\n%s%s", status, out, errs)
	}
	for _, c := range [][2]string{
		{"queue", "2 jobs pending, 1 of them TE"}, {"explain " + trial, "preemption: it requests no GPUs"}, {"report usage", "0 runs with GPUs"}, {"report waits", "No GPU job waited"},
		{"reset", "1 value taken back, 0 failed"}, // the trial stood first
	} {
		if out := b.must(strings.Fields(c[0])...); !strings.Contains(out, c[1]) {
			t.Errorf("%s does not say %q:\n%s", c[0], c[1], out)
		}
	}
}
