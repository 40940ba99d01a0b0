package simulate

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
)

// promises watches the cycles of a run for promises that are not kept.
type promises struct {
	daemon *virtual.Daemon
	since  map[cluster.JobID]time.Time // from then on there was room for a job that waits, if those left that may
	broken string
}

// soon is how long an entitled job may wait for room that there is: the time in which it comes back, and a minute for a
// claim that failed.
const soon = 3 * time.Minute

func (p *promises) see(c *cycle.Result) {
	rights := map[cluster.JobID]cluster.Right{}
	for i := range c.Snapshot.Jobs {
		rights[c.Snapshot.Jobs[i].ID] = c.Snapshot.Jobs[i].Right
	}
	for _, choice := range c.Room {
		for _, e := range choice.Changes.Evictions {
			if rights[e.Job] == cluster.Entitled {
				p.broken = fmt.Sprintf("job %s is within its account's share, and leaves", e.Job)
			}
		}
	}
	m := nodemap.New(&c.Snapshot)
	free, claiming := p.daemon.Settings.Evictions.Beside(m)
	for i := range c.Snapshot.Jobs {
		if j := &c.Snapshot.Jobs[i]; j.State == cluster.Running && j.Right == cluster.Borrows && p.daemon.Settings.Evictions.Settings.Consents(j) {
			free.Release(m.Shares(j))
		}
	}
	before := p.since
	p.since = map[cluster.JobID]time.Time{}
	for i := range c.Snapshot.Jobs {
		j := &c.Snapshot.Jobs[i]
		if j.State != cluster.Pending || j.Right != cluster.Entitled || claiming[j.ID] {
			continue
		}
		types, _ := m.Types(j)
		r := m.Request(j, types)
		if r.Nodes == 1 { // it asks for GPUs in all
			r.Nodes = 0
		}
		if _, fits := free.Fit(r, nil); !fits {
			continue
		}
		p.since[j.ID] = c.Snapshot.At
		if at, was := before[j.ID]; was {
			p.since[j.ID] = at
		}
		if waited := c.Snapshot.At.Sub(p.since[j.ID]); waited > soon {
			p.broken = fmt.Sprintf("at %s entitled job %s of %d GPUs has waited for %s beside jobs that may leave", c.Snapshot.At.Format(time.TimeOnly), j.ID, j.GPUs, waited)
		}
	}
}

// promising runs jobs on nodes of 4 GPUs that accounts a and b own, and says which promise was broken; "": none was.
func promising(t interface {
	Fatal(...any)
	Context() context.Context
}, nodes, a, b int, jobs []trace.Job) string {
	c, err := config.Load("/dev/null", "profile=balanced", "locality.enabled=false", "sizing.enabled=false", "steering.enabled=false", "preemption.headroom=false", "preemption.grace_share=1")
	if err != nil {
		t.Fatal(err)
	}
	c.Shares = []config.Share{{Account: "a", GPUs: a}}
	if b > 0 {
		c.Shares = append(c.Shares, config.Share{Account: "b", GPUs: b})
	}
	jobs = slices.DeleteFunc(jobs, func(j trace.Job) bool { return j.GPUs > nodes*4 })
	slices.SortStableFunc(jobs, func(a, b trace.Job) int { return int(a.Submit - b.Submit) })
	in := Input{Cluster: trace.Cluster{Nodes: []trace.NodeGroup{{Count: nodes, GPUType: "x", GPUs: 4, CPUs: 8, MemMB: 8000}}}, Config: c, Jobs: trace.Each(jobs)}
	spec := Spec{Order: "priod", Backfill: "easy"}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	opt, err := spec.Options(&in)
	if err != nil {
		t.Fatal(err)
	}
	p := &promises{daemon: &opt.Daemon}
	opt.Daemon.Seen = p.see
	if _, err := in.Run(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	return p.broken
}

// minutes is a job of an account from a minute on, for so many minutes.
func minutes(id, account string, class cluster.Class, gpus, from, run int, stays bool) trace.Job {
	return trace.Job{ID: id, Account: account, Class: class, GPUs: gpus, Submit: float64(60 * from), Duration: float64(60 * run), Limit: float64(120 * run), Grace: 30, Untagged: stays}
}

// Over random clusters, shares and jobs: no job within its account's share leaves, and no entitled job waits beyond its promise
// while jobs that may leave hold what it could use.
func TestSharesKeepTheirPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 4).Draw(t, "nodes")
		own, other := rapid.IntRange(1, nodes*4).Draw(t, "a"), 0
		if left := nodes*4 - own; left > 0 {
			other = rapid.IntRange(1, left).Draw(t, "b")
		}
		var jobs []trace.Job
		for i := range rapid.IntRange(1, 25).Draw(t, "jobs") {
			class := rapid.SampledFrom([]cluster.Class{cluster.BE, cluster.BE, cluster.TE}).Draw(t, "class")
			run := rapid.IntRange(1, 200).Draw(t, "run")
			if class == cluster.TE {
				run = min(run, 20)
			}
			account, submit := rapid.SampledFrom([]string{"a", "b", "guest"}).Draw(t, "account"), rapid.IntRange(0, 120).Draw(t, "submit")
			gpus := rapid.SampledFrom([]int{1, 1, 2, 3, 4, 8}).Draw(t, "gpus")
			jobs = append(jobs, minutes(fmt.Sprint(i), account, class, gpus, submit, run, class == cluster.BE && rapid.Bool().Draw(t, "stays")))
		}
		if broken := promising(t, nodes, own, other, jobs); broken != "" {
			t.Fatal(broken)
		}
	})
}

// Draws that broke a promise once.
func TestPromisesThatWereBroken(t *testing.T) {
	const be, te = cluster.BE, cluster.TE
	for name, c := range map[string]struct {
		a    int
		jobs []trace.Job
	}{
		// A trial that borrows fits, and Slurm's backfill keeps its place for a larger one. An entitled trial came after both.
		"an entitled trial behind others": {1, []trace.Job{
			minutes("stays", "b", be, 1, 0, 87, true), minutes("n1", "b", te, 3, 0, 20, false), minutes("n0", "b", te, 3, 0, 20, false),
			minutes("head", "b", te, 4, 2, 20, false), minutes("fits", "b", te, 1, 3, 20, false), minutes("owner", "a", te, 1, 8, 20, false),
		}},
		// The same, and an entitled best-effort job.
		"behind trials": {4, []trace.Job{
			minutes("n0", "b", be, 1, 0, 18, true), minutes("stays", "a", be, 3, 0, 18, true),
			minutes("head", "guest", te, 8, 1, 20, false), minutes("fits", "guest", te, 4, 2, 20, false), minutes("owner", "a", be, 1, 3, 60, false),
		}},
	} {
		if broken := promising(t, 2, c.a, 1, c.jobs); broken != "" {
			t.Errorf("%s: %s", name, broken)
		}
	}
}
