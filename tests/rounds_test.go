package tests

import (
	"strings"
	"testing"
)

// turns are short rounds without preemption, and without a lead: who is owed is a
// matter of seconds.
const turns = steering + `
[preemption]
min_run = "0s"
restart = "0s"
[rounds]
enabled = true
length = "5s"
pay = 1.0
lead = "0s"
`

// A job that has had more than its due of the fast type leaves at the end of a round
// for one that waits for it and had nothing, and comes back with all of its work.
func TestRoundEnds(t *testing.T) {
	e := newEvictable(t, turns)
	others := "NodeName=a100-[2-3],v100-[2-3],t4-[1-2]"
	e.slurm("scontrol", "update", others, "State=DRAIN", "Reason=rounds")
	t.Cleanup(func() { e.slurm("scontrol", "update", others, "State=RESUME") })
	e.blocker("v100:4")
	rich := e.worker("rich", "4", endless, 5, "save", "--prio-speed=a100:4,v100:1")
	e.begun("rich")
	poor := e.worker("poor", "4", 10, 5, "save", "--prio-speed=a100:4,v100:1")
	e.eligible(1)
	d := e.daemon()
	b := &bindable{e.site}
	b.boundTo(poor, "a100")
	e.told("rich")
	e.completes(poor)
	e.completes(rich)
	e.leftOnce("rich")
	if text := e.log("poor"); strings.Count(text, "start ") != 1 || strings.Contains(text, "signal") {
		t.Errorf("the one that was owed:\n%s", text)
	}
	all := e.settled()
	if len(all) != 1 || all[0].Purpose != "round" || all[0].For.String() != poor || all[0].Nodes != "a100-1" || all[0].State != "done" || all[0].ClaimState != "started" {
		t.Errorf("%+v", all)
	}
	for _, c := range []struct{ want, args string }{
		{"at the end of a round, for job " + poor, "explain " + rich},
		{"job " + rich + " of", "explain " + poor},
		{"round " + poor, "evictions"},
		{"At the end of rounds", "report preemptions"},
		{"Nobody was evicted for a TE job", "report preemptions"},
	} {
		if out := e.must(strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("%s does not say %q:\n%s", c.args, c.want, out)
		}
	}
	d.stop()
}
