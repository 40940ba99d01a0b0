package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// unequal are nodes that differ in what they have, one with two GPU types and one
// with slices of a GPU.
var unequal = []lab.NodeSpec{
	{Count: 3, GPUType: "a100", GPUs: 2},
	{Count: 2, GPUType: "v100", GPUs: 4},
	{Count: 1, GPUType: "t4", GPUs: 8, CPUs: 8},
	{Count: 1, Prefix: "mix", GPUType: "p100", Second: "k80", GPUs: 2},
	{Count: 1, Prefix: "mig", GPUType: "a100_1g.5gb", GPUs: 2},
}

// On nodes of unequal size a job is bound only to a type where Slurm finds a place for
// it, node by node: Slurm itself is asked whether it does, by a submission for test only.
func TestSteeringOnUnequalNodes(t *testing.T) {
	longOnly(t)
	t.Parallel()
	b := &bindable{newSiteOn(t, lab.ForTest(t, lab.Options{Nodes: unequal}), steering)}
	const toA100, toT4 = "a100:40,v100:2,t4:1", "a100:1,v100:2,t4:40"
	forms := []struct {
		speed, args string
		types       string // to which it may be bound; "": to none, and with a ? first perhaps to none
		why         string // explain says so
	}{
		{toA100, "--gres=gpu:3", "v100 t4", "GPU"},
		{toA100, "--gpus=3", "v100 t4", ""},
		{toA100, "--gpus=3 -n3", "a100 v100 t4", ""},
		{toA100, "--gpus-per-task=3 -n1", "v100 t4", ""},
		{toA100, "--gpus-per-task=1 -n3", "a100 v100 t4", ""},
		{toA100, "--gres=gpu:3 -N2", "", "leaves one GPU type"},
		{toA100, "--gres=gpu:2 -n4 --ntasks-per-node=1", "", ""},
		{toA100, "--gpus=2 -n2 --ntasks-per-node=1", "a100 v100", ""},
		{toA100, "--gpus=4 -N1", "v100 t4", ""},
		{toA100, "--gres=gpu:2 -N1-4", "a100 v100 t4", ""},
		{toT4, "--gres=gpu:2 --cpus-per-gpu=8", "? v100 a100", ""},
		{toT4, "--gres=gpu:1 --cpus-per-gpu=8", "a100 v100 t4", ""},
		{toT4, "--gpus=2 -n2 -c12", "? v100 a100", ""},
		{toT4, "--gres=gpu:1 --mincpus=12", "? v100 a100", ""},
		{toA100, "--gres=gpu:1 -C p100", "", "mix1, which has several GPU types"},
		{toA100, "--gres=gpu:1 -C a100_1g.5gb", "", "leaves one GPU type"},
		{toA100 + ",a100_1g.5gb:80", "--gres=gpu:1 -C a100|a100_1g.5gb", "", "slice of a GPU"},
		{toA100 + ",k80:80", "--gres=gpu:1", "a100 v100 t4", "GPUs of that type alone"},
	}
	ids := make([]string, len(forms))
	for i, f := range forms {
		args := append([]string{"--prio-speed=" + f.speed, "--time=30", "--mem=100", "--begin=now+50"}, strings.Fields(f.args)...)
		ids[i] = b.submit(append(args, "--wrap", "sleep 600")...)
	}
	d := b.daemon()
	held := map[string]string{}
	b.wait("every job that has a type to be bound", func() bool {
		held = b.constraints()
		for i, f := range forms {
			if f.types != "" && f.types[0] != '?' && held[ids[i]] == "" {
				return false
			}
		}
		return true
	})
	d.stop()
	for i, f := range forms {
		own := ""
		if _, c, has := strings.Cut(f.args, "-C "); has {
			own = c
		}
		now := held[ids[i]]
		if now != own {
			args := append([]string{"--test-only", "--mem=100", "--wrap", "true"}, strings.Fields(f.args)...)
			if out, err := b.lab.Run(t.Context(), "sbatch", append(args, "--constraint="+now)...); err != nil {
				t.Errorf("%s was bound to %q, and Slurm says: %v %s", f.args, now, err, out)
			}
			if !strings.Contains(" "+f.types+" ", " "+now+" ") {
				t.Errorf("%s was bound to %q, want one of %q", f.args, now, f.types)
			}
		} else if f.types != "" && f.types[0] != '?' {
			t.Errorf("%s was bound to no type, want one of %q:\n%s", f.args, f.types, b.must("explain", ids[i]))
		}
		if out := b.must("explain", ids[i]); !strings.Contains(out, f.why) {
			t.Errorf("%s: explain does not say %q:\n%s", f.args, f.why, out)
		}
	}
	advice := b.must("eta", "--", "--prio-speed="+toA100+",a100_1g.5gb:80", "--gres=gpu:1", "--wrap", "true")
	for _, want := range []string{"a100_1g.5gb, to which this site does not steer jobs: it is a slice of a GPU", "--gres=gpu:a100_1g.5gb:1", "not looked at: mix1, with several GPU types"} {
		if !strings.Contains(advice, want) {
			t.Errorf("eta does not say %q:\n%s", want, advice)
		}
	}
	b.must("reset")
	for i, f := range forms {
		_, own, _ := strings.Cut(f.args, "-C ")
		if c := b.constraints()[ids[i]]; c != own {
			t.Errorf("%s: reset leaves %q", f.args, c)
		}
	}
}

// rewrite changes a lab's configuration and tells slurmctld.
func (s *site) rewrite(pairs ...string) {
	s.Helper()
	for _, name := range []string{"slurm.conf", "gres.conf"} {
		path := filepath.Join(s.lab.Dir, "etc", name)
		text, err := os.ReadFile(path)
		if err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644); err != nil {
			s.Fatal(err)
		}
	}
	s.slurm("scontrol", "reconfigure")
}

// restart lets a node and slurmctld read their configuration anew.
func (s *site) restart(node string) {
	s.Helper()
	for _, daemon := range []string{lab.Slurmd(node), "slurmctld"} {
		if err := s.lab.Restart(s.Context(), daemon); err != nil {
			s.Fatal(err)
		}
	}
	s.wait(node+" to be up", func() bool { return s.resumed(node) })
	if err := s.lab.WaitNodes(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// resumed reports whether a node is not drained, and resumes one that is. Slurm drains a node whose daemon registers with
// another name of a GPU type than slurmctld's, as while both read a new one, and never resumes it itself
// (validate_node_specs in slurmctld/node_mgr.c).
func (s *site) resumed(node string) bool {
	s.Helper()
	state, err := s.lab.Run(s.Context(), "sinfo", "--noheader", "--nodes="+node, "--format=%T %E")
	if err != nil || !strings.Contains(state, "drain") && !strings.Contains(state, "inval") {
		return err == nil
	}
	if !strings.Contains(state, "gres/gpu") {
		s.Fatalf("%s is %s", node, state)
	}
	_, _ = s.lab.Run(s.Context(), "scontrol", "update", "NodeName="+node, "State=RESUME") // refused until it has registered well
	return false
}

// A type gets another name in slurm.conf and gres.conf while jobs are bound to it. Slurm
// then refuses each constraint with the old name, their users' own among them: what
// else these ask for is put back, the rest when the name is there again.
func TestSteeringPastARename(t *testing.T) {
	longOnly(t)
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			l := lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}, {Count: 1, GPUType: "v100", GPUs: 4}, {Count: 1, GPUType: "t4", GPUs: 4}}})
			b := &bindable{newSiteOn(t, l, steering)}
			fill := b.fill()
			own := map[string]string{}
			for _, c := range []string{"", "a100|v100"} {
				own[b.submit("--prio-speed=a100:1,v100:80,t4:1", "--time=30", "--mem=100", "--gres=gpu:1", "--constraint="+c, "--wrap", "sleep 600")] = c
			}
			b.eligible(len(own))
			d := b.daemon()
			for id, c := range own {
				b.wait("job "+id+" to be bound", func() bool { return bound(c, b.constraints()[id], "v100") })
			}
			b.rewrite("Feature=v100", "Feature=h100", "gpu:v100", "gpu:h100", "Type=v100", "Type=h100")
			if !lab.AtLeast(23, 11) { // later a reconfigure takes the GRES type, too, out of slurmctld at once
				d.waitLog("none of its nodes has the feature v100")
			}
			b.wait("the old name to go", func() bool {
				for id := range own {
					if strings.Contains(b.constraints()[id], "v100") {
						return false
					}
				}
				return true
			})
			if strings.Contains(d.log.String(), "Invalid feature") {
				t.Error("priod wrote what Slurm refuses")
			}
			d.stop()
			if lost {
				b.loseDatabase()
			} else { // the nodes' daemons hear of it, too: tags speak of the type by its old name
				b.restart("v100-1")
				b.configure(steering + "[speeds.renamed]\nv100 = \"h100\"\n")
				d = b.daemon()
				for id, c := range own {
					if c == "" {
						b.wait("a job to be bound to the new name, or to run there", func() bool {
							return b.constraints()[id] == "h100" || b.slurm("squeue", "--noheader", "--jobs="+id, "--format=%N") == "v100-1\n"
						})
					}
				}
				d.stop()
			}
			b.priod("reset")
			for id, c := range own {
				if now := b.constraints()[id]; now != strings.TrimSuffix(c, "|v100") {
					t.Errorf("reset leaves %q of %q", now, c)
				}
			}
			b.rewrite("Feature=h100", "Feature=v100", "gpu:h100", "gpu:v100", "Type=h100", "Type=v100")
			if !lost {
				b.restart("v100-1")
			}
			b.must("reset")
			waiting := b.constraints() // later Slurms kill what runs on the node, and others start meanwhile
			for id, c := range own {
				now, waits := waiting[id]
				if now != c && (waits || !lab.AtLeast(23, 11)) {
					t.Errorf("with the old name back reset leaves %q of %q", now, c)
				}
			}
			for _, id := range fill {
				b.slurm("scancel", id)
			}
			for id := range own {
				b.wait("job "+id+" to run", func() bool {
					b.resumed("v100-1")
					state, err := l.Run(t.Context(), "squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%T")
					if lab.AtLeast(23, 11) { // what ran on the node has failed, or is put back to begin in two minutes
						_, _ = l.Run(t.Context(), "scontrol", "update", "JobId="+id, "StartTime=now")
						return err == nil && state != "PENDING\n"
					}
					return state == "RUNNING\n"
				})
			}
		})
	}
}
