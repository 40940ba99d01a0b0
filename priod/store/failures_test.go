package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/retry"
	"slurmprio/slurmplug"
)

// failed is a row of a job that failed, and of another nobody agreed to.
func failed(at time.Time) *retry.Changes {
	row := retry.Failure{
		Number: 1, Job: slurmplug.Plain(17), RawID: 17, User: "alice", Start: at.Add(-time.Hour), End: at, Restarts: 1, GPUs: 2,
		Nodes: []string{"n1"}, Fault: []string{"n1"}, Final: "NODE_FAIL", ExitCode: 1, Signal: 9, Class: "node", Rule: "node failed",
		Signature: "node failed: NODE_FAIL", Line: "words", Free: true, AskedMB: 8, PeakMB: 7, Advice: "advice", Retry: "infra",
		Do: retry.Elsewhere, Why: retry.ByClass, Wait: time.Minute, State: retry.Recorded, Message: "m", Tries: 1, Own: "n9", Exclude: "n[1,9]",
		Told: true, At: at, Requeued: at,
	}
	other := row
	other.Number, other.Job, other.Retry, other.Own, other.Exclude, other.State = 2, slurmplug.Plain(18), "", "", "", retry.Noted
	return &retry.Changes{Failures: []retry.Failure{row, other}, Drained: []retry.Drained{{Node: "n1", Class: "node", At: at}}}
}

func failing(t *testing.T) (*daemon, *retry.Memory) {
	t.Helper()
	d := newDaemon(t, t.TempDir(), pending(17, "te"))
	d.cycle()
	return d, must[*retry.Memory](t)(d.store.LoadFailures(ctx))
}

func saveFailures(t *testing.T, d *daemon, m *retry.Memory, turn *retry.Changes) {
	t.Helper()
	if err := d.store.SaveFailures(ctx, turn); err != nil {
		t.Fatal(err)
	}
	m.Update(turn)
}

func diffMemory(a, b *retry.Memory) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(retry.Memory{}), cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(time.Millisecond))
}

func TestFailuresComeBack(t *testing.T) {
	d, m := failing(t)
	turn := failed(now())
	saveFailures(t, d, m, turn)
	turn.Drained = nil
	turn.Failures[0].State = retry.Requeued
	saveFailures(t, d, m, turn)
	d.restart()
	again := must[*retry.Memory](t)(d.store.LoadFailures(ctx))
	if diff := diffMemory(m, again); diff != "" {
		t.Error(diff)
	}
	r := must[*Reader](t)(OpenReader(ctx, d.store.dir))
	defer r.Close()
	if all, err := r.FailuresOf(ctx, slurmplug.Plain(17), 9); err != nil || len(all) != 1 || all[0].State != retry.Requeued {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := r.FailuresSince(ctx, now().Add(-time.Hour)); err != nil || len(all.Failures) != 2 || len(all.Drained) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// What was requeued how often outlives the database.
func TestFailuresOutliveTheDatabase(t *testing.T) {
	d, m := failing(t)
	saveFailures(t, d, m, failed(now()))
	d.loseDatabase()
	again := must[*retry.Memory](t)(d.store.LoadFailures(ctx))
	if diff := diffMemory(m, again); diff != "" {
		t.Error(diff)
	}
	d.cycle()
	next := failed(now())
	next.Failures = next.Failures[:1]
	next.Failures[0].Number = again.Last + 1
	saveFailures(t, d, again, next)
}

func TestFailureLinesDamaged(t *testing.T) {
	d, m := failing(t)
	saveFailures(t, d, m, failed(now()))
	path := journal.Path(d.store.dir)
	whole := must[[]byte](t)(os.ReadFile(path))
	for name, text := range map[string]string{
		"cut off": string(whole) + `{"failure":{"failures":[{"fai`, "damaged": "nonsense\n" + string(whole), "wrong": `{"failure":{"failures":[{"failure":-1}]}}` + "\n" + string(whole),
	} {
		overwrite(t, path, []byte(text))
		d.restart()
		again := must[*retry.Memory](t)(d.store.LoadFailures(ctx))
		if again.Failure(1) == nil || again.Failure(1).Exclude != "n[1,9]" {
			t.Errorf("%s: %+v", name, again.Failures)
		}
		saveFailures(t, d, again, failed(now()))
	}
	remove(t, path)
	saveFailures(t, d, must[*retry.Memory](t)(d.store.LoadFailures(ctx)), failed(now()))
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// The nodes that a job is told to refuse stand in the undo journal first.
func TestRefusedNodesAreInTheUndoJournal(t *testing.T) {
	d, m := failing(t)
	turn := failed(now())
	saveFailures(t, d, m, turn)
	turn.Failures[0].Exclude = ""
	saveFailures(t, d, m, turn)
	var lines []string
	for _, c := range openUndo(t, d.store.dir).Changes() {
		if c.Lever == slurmplug.ExcNodeList {
			lines = append(lines, fmt.Sprint(c.Was, " ", c.From, " ", c.To))
		}
	}
	if got := strings.Join(lines, "; "); got != "n9 n[1,9] n9" && got != "n9 n9 n[1,9]; n9 n[1,9] n9" {
		t.Error(got)
	}
}

func TestNoRoomForFailures(t *testing.T) {
	d, _ := failing(t)
	if err := errors.Join(os.Remove(journal.Path(d.store.dir)), os.Mkdir(journal.Path(d.store.dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := d.store.SaveFailures(ctx, failed(now())); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// What ended while priod was away is looked at.
func TestTheQueueOfAnEarlierPriodIsRecalled(t *testing.T) {
	d, _ := failing(t)
	d.snapshot.Jobs[0].State, d.snapshot.Jobs[0].Start, d.snapshot.Jobs[0].NodeList = cluster.Running, epoch, "n1"
	d.snapshot.Jobs[0].Tag.Retry, d.snapshot.Jobs[0].TagText = "infra", "prio:retry=infra&type=te&v=1"
	d.cycle()
	d.restart()
	m := must[*retry.Memory](t)(d.store.LoadFailures(ctx))
	empty := d.snapshot
	empty.Jobs = nil
	m.Observe(&empty)
	waiting := m.Waiting()
	if len(waiting) != 1 || waiting[0].ID != slurmplug.Plain(17) || waiting[0].RawID != 17 || waiting[0].Tag.Retry != "infra" || waiting[0].User != "alice" || waiting[0].GPUs != 2 {
		t.Errorf("%+v", waiting)
	}
}
