package evict

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// notStarted is the reason of a release that teaches: Slurm counts something that priod does not.
const notStarted = "the place was free, and the job did not start in time"

// lessonKey names what a job asks for together with a kind of nodes and the configuration: as long as all three are
// the same, Slurm would not start such a job there either.
func lessonKey(s *cluster.Snapshot, m *nodemap.Map, j *cluster.Job, kind int32) string {
	n, most := m.Kinds[kind], m.Largest(kind)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []any{
		s.Config, n.GPUType, n.Partitions, most.GPUs, most.CPUs, most.MemMB,
		cluster.PartitionSet(j.Partition), j.QOS, j.Account, j.GPUType, j.GPUs, j.Nodes, j.CPUs, j.MemMB, j.Node, j.Whole, j.Features, j.Prefer, j.TimeLimit,
	}))
	return hex.EncodeToString(sum[:8])
}

// teaches reports whether a claim holds a lesson.
func (c *Claim) teaches() bool {
	return c.State == Released && c.Reason == notStarted && len(c.Shares) > 0 && c.Shares[0].Kind != ""
}

// lessons are the claims that teach, by what they teach of.
type lessons map[string][]*Claim

// lessons returns what the journal teaches.
func (j *Journal) lessons() lessons {
	l := lessons{}
	for i := range j.Claims {
		c := &j.Claims[i]
		if !c.teaches() {
			continue
		}
		for _, s := range c.Shares {
			if same := l[s.Kind]; len(same) == 0 || same[len(same)-1] != c {
				l[s.Kind] = append(same, c)
			}
		}
	}
	return l
}

// apply takes the kinds of nodes out of types on which room for such a job was made in vain, and returns a claim
// that taught it. A lesson holds for its user's jobs, and for all once two users' jobs have taught it: one user can
// have a job wait in ways that priod does not see.
func (l lessons) apply(s *cluster.Snapshot, m *nodemap.Map, j *cluster.Job, types placement.Types) (left placement.Types, by *Claim) {
	if len(l) == 0 {
		return types, nil
	}
	for kind := range m.Kinds {
		if !types.Has(int32(kind)) {
			continue
		}
		same := l[lessonKey(s, m, j, int32(kind))]
		if slices.ContainsFunc(same, func(c *Claim) bool { return c.User == j.User || c.User != same[0].User }) {
			types &^= 1 << uint(kind)
			by = same[len(same)-1]
		}
	}
	return types, by
}

// lesson is what a claim teaches in words, with what was asked for and what was free.
func (c *Claim) lesson() string {
	var parts []string
	for _, s := range c.Shares[:min(len(c.Shares), 3)] {
		parts = append(parts, fmt.Sprintf("%d GPUs, %d CPUs, %d MB of %s, where %d GPUs, %d CPUs, %d MB were free", s.GPUs, s.CPUs, s.MemMB, s.Node, s.FreeGPUs, s.FreeCPUs, s.FreeMemMB))
	}
	if more := len(c.Shares) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and so on for %d more nodes", more))
	}
	return strings.Join(parts, "; ")
}

// room is what a claim teaches, as data.
func (c *Claim) room() plan.VainRoom {
	s := &c.Shares[0]
	return plan.VainRoom{
		Job: c.Job, Ended: c.Ended.UTC(), Nodes: len(c.Shares), Node: s.Node,
		GPUs: s.GPUs, CPUs: s.CPUs, MemMB: s.MemMB, FreeGPUs: s.FreeGPUs, FreeCPUs: s.FreeCPUs, FreeMemMB: s.FreeMemMB,
	}
}

// findFree notes what is free of the nodes of a claim that is given up, as the last cycle saw it, and reports whether
// the place is: else another job has taken it.
func (j *Journal) findFree(c *Claim) (free bool) {
	c.Shares, free = slices.Clone(c.Shares), true
	for i := range c.Shares {
		s := &c.Shares[i]
		n := j.node(s.Node)
		if n == nil {
			return false
		}
		s.setFree(n)
		free = free && s.FreeGPUs >= s.GPUs && s.FreeCPUs >= s.CPUs && s.FreeMemMB >= s.MemMB
	}
	return free
}

func (s *ClaimShare) setFree(n *cluster.Node) {
	s.FreeGPUs, s.FreeCPUs, s.FreeMemMB = n.GPUs-n.GPUsUsed, n.CPUs-n.CPUsUsed, n.MemMB-n.MemUsedMB
	for _, p := range n.Parts {
		if n.MixedTypes && p.Type == s.GPUType {
			s.FreeGPUs = p.Count - p.Used
		}
	}
}

// refuted are the claims whose lessons are wrong, without them: the job has started on such a node since, with no
// more room than it was given in vain. Slurm was only late. The nodes are those of the snapshot.
func (j *Journal) refuted(s *cluster.Snapshot) (t Changes) {
	var taught []*Claim
	for i := range j.Claims {
		if j.Claims[i].teaches() {
			taught = append(taught, &j.Claims[i])
		}
	}
	if len(taught) == 0 {
		return t
	}
	queue := cluster.ByID(s.Jobs)
	for _, c := range taught {
		x := queue.Get(c.Job)
		if x == nil || x.State != cluster.Running || x.Start.Before(c.Ended) || !cluster.SameUser(x.User, c.User) {
			continue
		}
		hosts, _ := slurmplug.ExpandHosts(x.NodeList)
		if !slices.ContainsFunc(c.Shares, func(share ClaimShare) bool {
			n, now := j.node(share.Node), share
			if n == nil || !slices.Contains(hosts, share.Node) {
				return true
			}
			now.setFree(n)
			return now.FreeGPUs+share.GPUs > share.FreeGPUs || now.FreeCPUs+share.CPUs > share.FreeCPUs || now.FreeMemMB+share.MemMB > share.FreeMemMB
		}) {
			late := *c
			late.Shares, late.Changed = slices.Clone(c.Shares), s.At
			for i := range late.Shares {
				late.Shares[i].Kind = ""
			}
			t.Claims = append(t.Claims, late)
		}
	}
	return t
}

// noteLessons notes what the last day has taught.
func (j *Journal) noteLessons(p *plan.Plan, now time.Time) {
	count, last := 0, (*Claim)(nil)
	for i := range j.Claims {
		if c := &j.Claims[i]; c.teaches() && within(day, now, c.Ended) {
			count++
			last = c
		}
	}
	if last != nil {
		p.Note(plan.EvictedInVain, count, "evictions in vain: a place was free and the job did not start, %d times within a day; at last job %s, which asks for %s. No job leaves for such a job on such nodes until its request, the nodes or slurm.conf change",
			count, last.Job, last.lesson())
	}
}
