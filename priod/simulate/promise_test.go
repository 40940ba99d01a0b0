package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
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
	request := func(j *cluster.Job) placement.Request {
		types, _ := m.Types(j)
		r := m.Request(j, types)
		if r.Nodes == 1 { // it asks for GPUs in all
			r.Nodes = 0
		}
		return r
	}
	behind := free.Clone()
	for i := range c.Snapshot.Jobs { // trials stand before entitled best-effort jobs, whose turn comes after them
		if j := &c.Snapshot.Jobs[i]; j.State == cluster.Pending && j.Tag.Type == "te" && !claiming[j.ID] {
			if place, fits := behind.Fit(request(j), nil); fits {
				behind.Take(slices.Clone(place))
			}
		}
	}
	before := p.since
	p.since = map[cluster.JobID]time.Time{}
	for i := range c.Snapshot.Jobs {
		j := &c.Snapshot.Jobs[i]
		if j.State != cluster.Pending || j.Right != cluster.Entitled || claiming[j.ID] {
			continue
		}
		room := free
		if j.Tag.Type != "te" {
			room = behind
		}
		if _, fits := room.Fit(request(j), nil); !fits {
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

// Over random clusters, shares and jobs: no job within its account's share leaves, and no entitled job waits beyond its promise
// while jobs that may leave hold what it could use.
func TestSharesKeepTheirPromise(t *testing.T) {
	c, err := config.Load("/dev/null", "profile=balanced", "locality.enabled=false", "sizing.enabled=false", "steering.enabled=false", "preemption.headroom=false", "preemption.grace_share=1")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 4).Draw(t, "nodes")
		own := rapid.IntRange(1, nodes*4).Draw(t, "a")
		c.Shares = []config.Share{{Account: "a", GPUs: own}}
		if left := nodes*4 - own; left > 0 {
			c.Shares = append(c.Shares, config.Share{Account: "b", GPUs: rapid.IntRange(1, left).Draw(t, "b")})
		}
		var jobs []trace.Job
		for i := range rapid.IntRange(1, 25).Draw(t, "jobs") {
			class := rapid.SampledFrom([]cluster.Class{cluster.BE, cluster.BE, cluster.TE}).Draw(t, "class")
			run := float64(rapid.IntRange(1, 200).Draw(t, "run") * 60)
			if class == cluster.TE {
				run = min(run, 1200)
			}
			jobs = append(jobs, trace.Job{
				ID: fmt.Sprint(i), Account: rapid.SampledFrom([]string{"a", "b", "guest"}).Draw(t, "account"), Submit: float64(rapid.IntRange(0, 120).Draw(t, "submit") * 60),
				GPUs: rapid.SampledFrom([]int{1, 1, 2, 3, 4, 8}).Draw(t, "gpus"), Duration: run, Limit: 2 * run, Class: class, Grace: 30,
				Untagged: class == cluster.BE && rapid.Bool().Draw(t, "stays"),
			})
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
		if _, err := in.Run(t.Context(), opt); err != nil || p.broken != "" {
			t.Fatalf("%s, %v", p.broken, err)
		}
	})
}
