package tests

import (
	"strings"
	"testing"
)

// explainedNow is what explain --json says of a job besides what the last cycle saw.
type explainedNow struct {
	Now *struct {
		State, Reason string
	} `json:"slurm_now"`
	Since string `json:"since_last_cycle"`
}

// Between two cycles a job starts, ends, is requeued, held, released, suspended or cancelled, and
// explain says so: its state is the one that squeue and scontrol show at that moment.
func TestExplainInEachState(t *testing.T) {
	s := newSite(t, roomy)
	run := func(args ...string) string {
		id := s.submit(append(args, "--time=5", "--gres=gpu:1", "--wrap", "sleep 600")...)
		s.wait(id+" to run", func() bool { return s.stateOf(id) == "RUNNING" })
		return id
	}
	hold := func(args ...string) string {
		return s.submit(append(args, "--hold", "--time=5", "--gres=gpu:1", "--wrap", "sleep 600")...)
	}
	scontrol := func(args ...string) func(string) {
		return func(id string) { s.slurm("scontrol", append(args, id)...) }
	}
	cancel := func(id string) { s.slurm("scancel", id) }
	cases := []struct {
		name, id   string
		change     func(id string)
		state      string // that follows
		since      string
		words, not string
	}{
		{name: "runs on", id: run("--prio-type=be"), state: "RUNNING", words: "RUNNING", not: "since then"},
		{name: "waits on", id: hold("--prio-type=te"), state: "PENDING", words: "JobHeldUser", not: "since then"},
		{name: "starts", id: hold("--prio-type=te"), change: scontrol("release"), state: "RUNNING", since: "started", words: "started since then"},
		{name: "is cancelled while it waits", id: hold("--prio-type=be"), change: cancel, state: "CANCELLED", since: "ended", words: "ended since then"},
		{name: "is cancelled while it runs", id: run("--prio-type=be"), change: cancel, state: "CANCELLED", since: "ended", words: "ended since then"},
		{name: "is requeued", id: run("--prio-type=be", "--requeue"), change: scontrol("requeue"), state: "PENDING", since: "requeued", words: "requeued since then", not: "left the queue"},
		{name: "is requeued and held", id: run("--prio-type=be", "--requeue"), change: scontrol("requeuehold"), state: "PENDING", since: "requeued", words: "requeued since then", not: "left the queue"},
		{name: "is suspended", id: run("--prio-type=be"), change: scontrol("suspend"), state: "SUSPENDED", words: "SUSPENDED", not: "left the queue"},
		{name: "a task starts", id: hold("--prio-type=be", "--array=3"), change: scontrol("release"), state: "RUNNING", since: "started", words: "started since then"},
	}
	s.must("run", "--once")
	for i := range cases {
		if c := &cases[i]; c.change != nil {
			c.change(c.id)
		}
	}
	for i := range cases {
		c := &cases[i]
		name := c.id
		if c.name == "a task starts" {
			name += "_3"
		}
		s.wait(c.name, func() bool { return s.stateOf(name) == c.state })
		var v explainedNow
		s.json(&v, "explain", name)
		now := s.stateOf(name)
		if v.Now == nil || v.Now.State != now || v.Since != c.since {
			t.Errorf("%s: %+v since %q; Slurm says %s, want %q", c.name, v.Now, v.Since, now, c.since)
		}
		if out := s.must("explain", name); !strings.Contains(out, c.words) || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%s: want %q and not %q:\n%s", c.name, c.words, c.not, out)
		}
	}
	fresh := hold("--prio-type=te")
	_, errs, status := s.priod("explain", fresh)
	if status != 1 || !strings.Contains(errs, fresh) {
		t.Errorf("a job that no cycle has seen: exit status %d: %s", status, errs)
	}
}

// stateOf is what Slurm says of a job now, by squeue or, of one that has ended, by scontrol.
func (s *site) stateOf(name string) string {
	s.Helper()
	if out, err := s.client().Run(s.Context(), "squeue", "--noheader", "--states=all", "--jobs="+name, "--format=%T"); err == nil && strings.TrimSpace(out) != "" {
		return strings.TrimSpace(out)
	}
	out := s.slurm("scontrol", "--oneliner", "show", "job", name)
	_, state, _ := strings.Cut(out, "JobState=")
	state, _, _ = strings.Cut(state, " ")
	return state
}
