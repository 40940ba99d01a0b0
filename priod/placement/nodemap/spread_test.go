package nodemap

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/slurmplug"
)

// laid is a cluster of nodes of 8 GPUs with jobs on them, and what each job really has of each node.
type laid struct {
	cluster.Snapshot
	parts map[cluster.JobID]map[string]placement.Amount
	told  []bool // by job, whether Slurm tells its parts
}

func newLaid(nodes int) *laid {
	l := &laid{parts: map[cluster.JobID]map[string]placement.Amount{}}
	for i := range nodes {
		l.Nodes = append(l.Nodes, cluster.Node{Name: fmt.Sprint("n", i), GPUType: "a", GPUs: 8, CPUs: 32, MemMB: 64000, Usable: true, Partitions: []string{"p"}})
	}
	return l
}

// lay puts a job with so many GPUs, each with two CPUs, on nodes.
func (l *laid) lay(gpus map[int]int) cluster.JobID {
	j := cluster.Job{ID: slurmplug.Plain(uint32(len(l.Jobs) + 1)), State: cluster.Running, Partition: "p", GPUType: "a"}
	parts, names := map[string]placement.Amount{}, []string{}
	for at, n := range gpus {
		node := &l.Nodes[at]
		node.GPUsUsed, node.CPUsUsed, node.MemUsedMB = node.GPUsUsed+n, node.CPUsUsed+2*n, node.MemUsedMB+int64(1000*n)
		j.GPUs, j.CPUs, j.MemMB = j.GPUs+n, j.CPUs+2*n, j.MemMB+int64(1000*n)
		parts[node.Name] = placement.Amount{GPUs: int32(n), CPUs: int32(2 * n), MemMB: int64(1000 * n)}
		names = append(names, node.Name)
	}
	slices.Sort(names)
	j.NodeList, l.parts[j.ID] = strings.Join(names, ","), parts
	l.Jobs = append(l.Jobs, j)
	return j.ID
}

// tell has Slurm tell what a job has of each node.
func (l *laid) tell(j *cluster.Job) {
	for name := range strings.SplitSeq(j.NodeList, ",") {
		a := l.parts[j.ID][name]
		j.Parts = append(j.Parts, cluster.Part{GPUs: int(a.GPUs), CPUs: int(a.CPUs), MemMB: a.MemMB})
	}
}

// wrong is what Shares says of a job that it does not have; "": nothing.
func (l *laid) wrong(m *Map, j *cluster.Job) string {
	for _, s := range m.Shares(j) {
		if want := l.parts[j.ID][m.Names[s.Node]]; s.Amount != want {
			return fmt.Sprintf("job %s on %s: %+v on %s, it has %+v", j.ID, j.NodeList, s.Amount, m.Names[s.Node], want)
		}
	}
	return ""
}

// A gang of --gpus=8 has seven GPUs of one node and one of another; room on the second was counted as
// four, and the trial that was to have it waited in vain.
func TestUnequalParts(t *testing.T) {
	l := newLaid(3)
	l.lay(map[int]int{0: 1})
	gang := l.lay(map[int]int{0: 7, 1: 1})
	l.lay(map[int]int{1: 4, 2: 2}) // known once the gang's part of n1 is
	l.lay(map[int]int{1: 2})
	m := New(&l.Snapshot)
	for i := range l.Jobs {
		if text := l.wrong(m, &l.Jobs[i]); text != "" || len(m.Shares(&l.Jobs[i])) == 0 {
			t.Errorf("job %s: %s", l.Jobs[i].ID, text)
		}
	}
	if got := m.Shares(&l.Jobs[1]); len(got) != 2 || l.Jobs[1].ID != gang {
		t.Errorf("%+v", got)
	}

	both := newLaid(2) // two gangs on the same nodes: nothing tells them apart, and equal parts do not add up
	both.lay(map[int]int{0: 5, 1: 1})
	both.lay(map[int]int{0: 1, 1: 1})
	m = New(&both.Snapshot)
	for i := range both.Jobs {
		if got := m.Shares(&both.Jobs[i]); len(got) != 0 {
			t.Errorf("job %s: %+v", both.Jobs[i].ID, got)
		}
	}
}

// What a job has of each node is what Slurm tells, else right, not known, or equal parts of several jobs
// with which all adds up.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLaid(rapid.IntRange(2, 5).Draw(t, "nodes"))
		for range rapid.IntRange(1, 8).Draw(t, "jobs") {
			gpus := map[int]int{}
			for range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "parts") {
				at := rapid.IntRange(0, len(l.Nodes)-1).Draw(t, "node")
				if free := 8 - l.Nodes[at].GPUsUsed; free > 0 && gpus[at] == 0 {
					gpus[at] = rapid.IntRange(1, free).Draw(t, "gpus")
				}
			}
			if len(gpus) > 0 {
				l.lay(gpus)
				l.told = append(l.told, len(gpus) > 1 && rapid.Bool().Draw(t, "told"))
				if l.told[len(l.told)-1] {
					l.tell(&l.Jobs[len(l.Jobs)-1])
				}
			}
		}
		m := New(&l.Snapshot)
		sums, whole := map[string]int32{}, map[string]bool{}
		for _, n := range l.Nodes {
			whole[n.Name] = true
		}
		for i := range l.Jobs {
			j := &l.Jobs[i]
			shares := m.Shares(j)
			if text := l.wrong(m, j); l.told[i] && (text != "" || len(shares) == 0) {
				t.Fatalf("Slurm told: %+v: %s", shares, text)
			}
			for name := range l.parts[j.ID] {
				whole[name] = whole[name] && len(shares) > 0
			}
			for _, s := range shares {
				sums[m.Names[s.Node]] += s.GPUs
			}
			equal := len(shares) > 1 && !slices.ContainsFunc(shares, func(s placement.Share) bool { return s.GPUs != shares[0].GPUs })
			if text := l.wrong(m, j); text != "" && !equal {
				t.Fatal(text)
			}
		}
		for _, n := range l.Nodes {
			if whole[n.Name] && sums[n.Name] != int32(n.GPUsUsed) {
				t.Fatalf("%s: the jobs' parts are %d GPUs, %d are in use", n.Name, sums[n.Name], n.GPUsUsed)
			}
		}
	})
}
