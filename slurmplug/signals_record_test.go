package slurmplug_test

import (
	"os"
	"testing"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// TestRecordSignals records what scancel says of signals to jobs in each state.
func TestRecordSignals(t *testing.T) {
	if !*record {
		t.Skip("-record records testdata/ anew")
	}
	if os.Geteuid() != 0 {
		t.Fatal("only root can suspend a job")
	}
	l := lab.ForTest(t, labOptions("signals"))
	c, r := recorded(t, l)
	runs := func(id string) string {
		if err := l.WaitJob(t.Context(), id, "RUNNING"); err != nil {
			t.Fatal(err)
		}
		return id
	}
	patient := "--wrap=trap : USR2; while :; do sleep 1 & wait $!; done"
	array := submit(t, l.Client, "array", "--array=1-3%1", patient)
	runs(array + "_1")
	suspended := runs(submit(t, l.Client, "suspended", patient))
	run(t, l.Client, "scontrol", "suspend", suspended)
	over := runs(submit(t, l.Client, "over", patient))
	run(t, l.Client, "scancel", over)
	eventually(t, "the end of a job", func() bool {
		return run(t, l.Client, "squeue", "--noheader", "--jobs="+over, "--states=CANCELLED", "--format=%i") != ""
	})
	running := runs(submit(t, l.Client, "running", patient))
	for _, s := range []struct{ name, job, signal string }{
		{"running", running, "USR2"}, {"task", array + "_1", "USR2"}, {"waiting", submit(t, l.Client, "waiting", "--hold"), "USR2"},
		{"suspended", suspended, "USR2"}, {"over", over, "USR2"}, {"unknown", "999999", "USR2"}, {"no-task", array + "_9", "USR2"},
		{"no-signal", running, "FOO"},
	} {
		id, err := slurmplug.ParseJobID(s.job)
		if err != nil {
			t.Fatal(err)
		}
		r.name = "signal-" + s.name
		t.Logf("%+v", c.Signal(t.Context(), slurmplug.RunID{Job: id}, s.signal, slurmplug.Script))
	}
}
