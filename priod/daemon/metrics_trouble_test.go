package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/slurmplug"
)

func TestWhatACycleLeavesUndone(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	postponed := func(why string) plan.Outcome {
		return plan.Outcome{Status: slurmplug.Postponed, Message: slurmplug.NotSent + why}
	}
	limited := func(why preemption.Why) plan.Decision {
		return plan.Decision{Choices: plan.Choices{Eviction: &plan.EvictionChoice{Why: string(why)}}}
	}
	r := &cycle.Result{
		Plan:     plan.Plan{Decisions: []plan.Decision{limited(preemption.PerHour), limited(preemption.PerHour), limited(preemption.Fits), {}}},
		Outcomes: []plan.Outcome{postponed("slurmctld's agent queue holds 900 messages"), postponed("slurmctld's rate limit: 30"), {Status: slurmplug.Applied}},
	}
	r.Plan.Note(plan.NodeKinds, 7, "nodes differ")
	r.Plan.Note(plan.TypesBarred, 2, "no job is steered")
	state := cycle.NewState()
	state.Failures.Failures = []retry.Failure{{State: retry.Delayed}, {State: retry.Noted}}
	state.Journal.Update(&evict.Changes{Evictions: []evict.Eviction{{Number: 1, State: evict.Left, LeftAt: time.Now().Add(-time.Hour)}}})
	d.metrics.trouble.cycle(r, state)
	has(t, d, `
		priod_notes{note=node-kinds} 7
		priod_notes{note=types-barred} 2
		priod_notes{note=te-steps} 0
		priod_postponed_writes{cause=agent-queue} 1
		priod_postponed_writes{cause=rate-limit} 1
		priod_postponed_writes{cause=no-answer} 0
		priod_limited_jobs{limit=per-hour} 2
		priod_limited_jobs{limit=grace-share} 0
		priod_limited_jobs{limit=retry-caps} 1
		priod_eviction_overdue_seconds{step=signalled} 0`)
	for _, m := range scraped(t, d)["priod_eviction_overdue_seconds"].GetMetric() {
		if v := m.GetGauge().GetValue(); m.GetLabel()[0].GetValue() == evict.Unrequeued && v < 3600 {
			t.Errorf("%v s overdue", v)
		}
	}

	// In stand-by all that is another priod's.
	d.metrics.trouble.read(readRuns, errors.New("slurmdbd is down"))
	has(t, d, "priod_accounting_unread{read=runs} 1")
	d.metrics.trouble.standBy()
	has(t, d, `
		priod_notes{note=node-kinds} 0
		priod_limited_jobs{limit=per-hour} 0
		priod_eviction_overdue_seconds{step=left} 0
		priod_accounting_unread{read=runs} 0`)
}

func TestWhatBecomesOfEvictions(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	now := time.Now()
	for _, c := range []evict.Claim{
		{State: evict.Started, Room: now}, {State: evict.Released}, {State: evict.Released, Room: now}, {State: evict.Holding, Room: now},
	} {
		d.logEvent(evict.Event{Claim: &c, Before: string(evict.Planned)})
	}
	for _, x := range []evict.Eviction{
		{State: evict.Done, How: evict.Forgotten}, {State: evict.CalledOff, SignalledAt: now}, {State: evict.CalledOff}, {State: evict.Done, How: evict.Exited},
	} {
		d.logEvent(evict.Event{Eviction: &x, Before: string(evict.Signalled)})
	}
	for _, f := range []retry.Failure{
		{Retry: "always", Why: retry.TooLate}, {Retry: "always", Message: retry.NotTaken}, {Retry: "always", Why: retry.Times}, {Why: retry.NotAsked},
	} {
		d.failed(&f)
	}
	has(t, d, `
		priod_claims_total{result=started} 1
		priod_claims_total{result=released} 1
		priod_claims_total{result=unused} 1
		priod_lost_jobs_total{of=victim} 2
		priod_lost_jobs_total{of=failure} 2`)
}

func TestAccountingThatIsNotRead(t *testing.T) {
	f := &fake{pastErr: errors.New("slurmdbd is down")}
	d, _ := newDaemon(t, f)
	d.Config.Allocation.Policy = "hierarchical"
	turn(t, d)
	d.learned(lesson{err: f.pastErr})
	has(t, d, `
		priod_accounting_unread{read=runs} 1
		priod_accounting_unread{read=shares} 1
		priod_accounting_unread{read=speeds} 1
		priod_accounting_unread{read=uses} 0`)
	f.pastErr = nil
	d.learning.asked, d.learning.accounts.asked = time.Time{}, time.Time{}
	turn(t, d)
	has(t, d, `
		priod_accounting_unread{read=runs} 0
		priod_accounting_unread{read=shares} 0`)
}

func TestReloadThatIsRefused(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	has(t, d, "priod_reload_refused{} 0")
	d.Reload = func() (*config.Config, error) { return nil, errors.New("unknown key") }
	d.reload()
	has(t, d, "priod_reload_refused{} 1")
	d.Reload = func() (*config.Config, error) { return d.Config, nil }
	d.reload()
	has(t, d, "priod_reload_refused{} 0")
}

func TestSizeOfTheState(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	dir, shared := t.TempDir(), t.TempDir()
	for path, size := range map[string]int{
		filepath.Join(dir, "priod.db"): 100, filepath.Join(dir, "priod.db-wal"): 20, filepath.Join(shared, "journal.jsonl"): 7,
	} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.metrics.trouble.disk(dir, shared)
	has(t, d, `
		priod_state_bytes{file=priod.db} 120
		priod_state_bytes{file=journal.jsonl} 7`)
	free := scraped(t, d)["priod_state_free_bytes"].GetMetric()
	if len(free) != 2 || free[0].GetGauge().GetValue() <= 0 || free[1].GetGauge().GetValue() <= 0 {
		t.Errorf("%v", free)
	}
}
