package lab

import (
	"context"
	"os"
	"strings"
	"testing"
)

// The backup controller takes over from a killed primary and gives back.
func TestBackupTakesOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a backup controller needs root; make test as root runs this")
	}
	l := ForTest(t, Options{Backup: true, NoAccounting: true, Nodes: []NodeSpec{{Count: 1, GPUType: "a100", GPUs: 1}}})
	ping := func() string {
		out, _ := l.On(BackupHost).Run(t.Context(), "scontrol", "ping")
		return out
	}
	if out := ping(); !strings.Contains(out, "Slurmctld(primary) at ctl1 is UP\nSlurmctld(backup) at ctl2 is UP") {
		t.Fatalf("scontrol ping says\n%s", out)
	}
	if name, err := l.On(BackupHost).Run(t.Context(), "hostname"); err != nil || name != "ctl2\n" {
		t.Fatalf("%q, %v", name, err)
	}
	id, err := l.Sbatch(t.Context(), "--hold", "--wrap=true")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.WaitSaved(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Kill(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	known := func(ctx context.Context) (bool, error) {
		out, err := l.Run(ctx, "squeue", "--noheader", "--format=%i")
		return err == nil && strings.TrimSpace(out) == id, nil
	}
	if err := WaitFor(t.Context(), "the backup to know the job", known); err != nil {
		t.Fatal(err)
	}
	if out := ping(); !strings.Contains(out, "ctl1 is DOWN\nSlurmctld(backup) at ctl2 is UP") {
		t.Errorf("scontrol ping says\n%s", out)
	}
	if err := l.StartDaemon(t.Context(), "slurmctld"); err != nil {
		t.Fatal(err)
	}
	if err := WaitFor(t.Context(), "the primary to know the job", func(ctx context.Context) (bool, error) {
		if !strings.Contains(ping(), "ctl1 is UP") {
			return false, nil
		}
		return known(ctx)
	}); err != nil {
		t.Fatal(err)
	}
}
