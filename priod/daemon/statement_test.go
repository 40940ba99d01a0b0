package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"slurmprio/priod/cluster"
	"slurmprio/priod/guarantee"
	"slurmprio/slurmplug"
)

// What became of shares is stored; what could not be stored is stored later, and what an earlier process saw wait goes on.
func TestStatementIsStored(t *testing.T) {
	f := &fake{statementErr: errors.New("the disk is full"), open: []guarantee.Return{{Job: slurmplug.Plain(7), Account: "vision", Tasks: 1, Since: time.Now().Add(-time.Hour), Promise: time.Minute}}}
	d, log := newDaemon(t, f)
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := func() {
		d.stating.next = time.Time{}
		d.account(t.Context())
		if running := d.stating.running; running != nil {
			left := <-running
			d.stating.running = nil
			d.putBack(left)
		}
	}
	d.state.Lending.Statement.PutBack(&guarantee.Taken{Ended: []guarantee.Return{{Job: slurmplug.Plain(8), Account: "vision", Tasks: 1}}})
	if store(); len(f.statements) > 0 || !strings.Contains(log.String(), "is not stored yet") {
		t.Errorf("%+v\n%s", f.statements, log)
	}
	f.statementErr = nil
	if store(); len(f.statements) != 1 || len(f.statements[0].Ended) != 1 || len(f.statements[0].Open) != 1 {
		t.Errorf("%+v", f.statements)
	}
	r, _, err := d.step(t.Context()) // job 7 has left the queue: it was late
	d.report(&r, err)
	if d.lastStatement(t.Context()); len(f.statements) != 2 || len(f.statements[1].Ended) != 1 || f.statements[1].Ended[0].Started || len(f.statements[1].Open) > 0 {
		t.Errorf("%+v", f.statements)
	}
	if d.lastStatement(t.Context()); len(f.statements) != 2 {
		t.Errorf("nothing is stored again: %+v", f.statements)
	}
}

// The metrics of shares: what the last cycle saw, and each return once.
func TestShareMetrics(t *testing.T) {
	f := &fake{}
	d, _ := newDaemon(t, f)
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, memory := d.metrics, &guarantee.Memory{}
	feature := guarantee.Feature{Memory: memory, Settings: guarantee.Settings{
		Shares: []guarantee.Share{{Account: "vision", GPUs: 4, ReturnWithin: time.Minute}}, Lend: guarantee.All,
		Leaves: func(*cluster.Job) (time.Duration, bool) { return 0, true }, Trial: func(*cluster.Job) bool { return false },
	}}
	s := &cluster.Snapshot{At: time.Now(), Nodes: []cluster.Node{{Name: "n1", Usable: true, GPUs: 8, CPUs: 8, MemMB: 800, Partitions: []string{"gpu"}}}}
	job := func(id uint32, account string, gpus int) {
		s.Jobs = append(s.Jobs, cluster.Job{ID: slurmplug.Plain(id), TaskCount: 1, Account: account, Partition: "gpu", GPUs: gpus, Nodes: 1, CPUs: 1, State: cluster.Pending, Reason: "Resources", Priority: 5})
	}
	job(1, "vision", 2)
	job(2, "vision", 2)
	job(3, "bio", 6)
	s.Jobs[2].State, s.Jobs[2].NodeList, s.Jobs[2].Start = cluster.Running, "n1", s.At.Add(-time.Hour)
	h := cluster.NewHistory()
	look := func(after time.Duration) {
		s.At = s.At.Add(after)
		feature.Classify(s, h)
		m.shares(&memory.Statement)
	}
	look(0)
	s.Jobs[0].State, s.Jobs[0].NodeList, s.Jobs[0].Start = cluster.Running, "n1", s.At.Add(20*time.Second)
	look(30 * time.Second)
	look(40 * time.Second)
	look(time.Second)
	for name, want := range map[string]float64{"entitled": 4, "used": 2, "borrowed": 0, "lent": 2} {
		if got := testutil.ToFloat64(m.sharing.gpus.WithLabelValues("vision", name)); got != want {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
	for result, want := range map[string]float64{returnInTime: 1, returnLate: 1} {
		if got := testutil.ToFloat64(m.sharing.returns.WithLabelValues("vision", result)); got != want {
			t.Errorf("%s: %g, want %g", result, got, want)
		}
	}
	if n := testutil.CollectAndCount(m.sharing.returned); n != 1 {
		t.Errorf("%d histograms", n)
	}
}
