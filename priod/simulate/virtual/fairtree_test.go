package virtual

import (
	"math"
	"testing"

	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// Users have the factors that sshare of 22.05.8 shows of these accounts and uses, those of whom no job has come, too; accounts
// with fairshare=parent have none of their own.
func TestFairTree(t *testing.T) {
	tree := []slurmplug.Account{
		{Name: "root", Share: 1, Users: 1}, {Name: "biology", Parent: "root", Share: 1, Users: 4}, {Name: "shy", Parent: "biology", UseParent: true}, {Name: "physics", Parent: "root", Share: 1, Users: 4},
	}
	m := newMultifactor(&Options{Own: Own{Multifactor: Weights{FairShare: 1, FairTree: true, ByNodes: true}}}, trace.Cluster{Accounts: tree})
	user := func(account, name string) *job { return &job{Job: trace.Job{Account: account, User: name}} }
	used := []struct {
		account, user string
		use, want     float64
	}{{"biology", "games", 523, 1}, {"shy", "man", 471, 2}, {"biology", "daemon", 0, 4}, {"physics", "games", 540, 5}, {"physics", "man", 382, 6}, {"physics", "new", 0, 8}, {"root", "root", 0, 9}}
	for _, u := range used {
		j := user(u.account, u.user)
		if got := m.owner(j).tree.factor; got != 1 {
			t.Errorf("%s of %s has %v before any use", u.user, u.account, got)
		}
		j.bill = 1
		m.holds(j, 1, 0)
		m.holds(j, -1, u.use)
	}
	m.w.DecayHalfLife = math.Inf(1)
	m.decay(1000)
	for _, u := range used {
		if got := 9 * m.owner(user(u.account, u.user)).tree.factor; math.Abs(got-u.want) > 1e-9 {
			t.Errorf("%s of %s has %v ninths, want %v", u.user, u.account, got, u.want)
		}
	}
	if got := 9 * m.owner(user("physics", "later")).tree.factor; math.Abs(got-8) > 1e-9 {
		t.Errorf("one of whom no job has come has %v ninths", got)
	}
}

// Slurm bills CPUs where TRESBillingWeights says nothing: use counts as accounting has it.
func TestBilling(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "a", GPUs: 8, CPUs: 16}}}
	for byNodes, want := range map[bool]float64{true: 3, false: 2} {
		e := newEngine(t.Context(), c, Options{Order: Multifactor, Own: Own{Multifactor: Weights{FairShare: 1, ByNodes: byNodes}}})
		if j, why := e.newJob(trace.Job{GPUs: 2, Billing: 3, Duration: 1}); why != "" || j.bill != want {
			t.Errorf("%v: %v, %s", byNodes, j, why)
		}
	}
}
