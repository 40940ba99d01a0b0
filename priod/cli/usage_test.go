package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// slurmOf is a folder with commands that print what they are to; in sacct's rows | stands between fields.
func slurmOf(t *testing.T, gather string, runs, usage []string) (config string) {
	t.Helper()
	dir := t.TempDir()
	sacct := func(rows []string) string {
		return "sed \"s/|/$d/g\" <<'END'\n" + strings.Join(append(rows, ""), "\n") + "END\n"
	}
	for name, script := range map[string]string{
		"squeue": "case \"$*\" in *version*) echo slurm-wlm 22.05.8 ;; *) echo --array-unique ;; esac\n",
		"sacct":  "for a; do case $a in --delimiter=*) d=${a#*=} ;; esac; done\ncase \"$*\" in\n*TotalCPU*)\n" + sacct(usage) + ";;\n*)\n" + sacct(runs) + ";;\nesac\n",
		"scontrol": "case \"$*\" in\n*config) printf '%s\\n' 'SLURM_VERSION = 22.05.8' 'ClusterName = c' 'JobAcctGatherType = " + gather + "' 'Slurmctld(primary) at h is UP' ;;\n" +
			"*node) echo 'NodeName=a CPUAlloc=0 CPUEfctv=24 CPUTot=24 Gres=gpu:a100:8 Partitions=gpu RealMemory=80000 AllocMem=0 State=IDLE' ;;\nesac\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config = filepath.Join(dir, "priod.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "[slurm]\nbin_dir = %q\n[state]\ndir = %q\n", dir, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// One step that cannot be read costs its run, which is named; the rest is shown.
func TestUsageWithAnOddRow(t *testing.T) {
	end := time.Now().Add(-time.Hour).Unix()
	row := func(id, name string, start, end int64) string {
		return fmt.Sprintf("%s|%s|ann|lab|gpu|be|COMPLETED|0:0|%d|%d|%d|%d|60|cpu=4,mem=8G,gres/gpu=1,license/two words=1|a|%s|cpu=4,gres/gpu=1||", id, id, start, start, start, end, name)
	}
	start := end - 3600
	runs := []string{row("1", "odd", start, end), row("2", "train", start, end)}
	steps := []string{
		fmt.Sprintf("1|%d|%d|||1||||", start, end), fmt.Sprintf("1.batch|%d|%d|213503982334-14:25:51|16E|1|1|||", start, end),
		fmt.Sprintf("2|%d|%d|||1||||", start, end), fmt.Sprintf("2.batch|%d|%d|02:00:00|1G|1|1|||", start, end),
	}
	config := slurmOf(t, "jobacct_gather/linux", runs, steps)
	for verb, shows := range map[string]string{"workloads usage": "ann's train  a100", "report usage --measured": "2 runs with GPUs"} {
		status, out, stderr := run(strings.Fields("--config " + config + " " + verb)...)
		if status != 0 || !strings.Contains(out, shows) || !strings.Contains(out, `accounting "1.batch": TotalCPU: "213503982334-14:25:51"`) {
			t.Errorf("%s: %d\n%s%s", verb, status, out, stderr)
		}
	}

	divided := slurmOf(t, "jobacct_gather/none", nil, nil) // no run, and the budgets all the same
	text, err := os.ReadFile(divided)
	if err == nil {
		err = os.WriteFile(divided, append([]byte("profile = \"balanced\"\n"), text...), 0o600)
	}
	if _, out, _ := run("--config", divided, "report", "usage"); err != nil || !strings.Contains(out, "TE budgets:") ||
		!regexp.MustCompile(`each user +gpu +8 +3\.8 +\S+ +te_budget\.user\.(gpus|share) = `).MatchString(out) {
		t.Errorf("%v: %s", err, out)
	}

	// Runs that were measured, and too short to count.
	short := slurmOf(t, "jobacct_gather/linux", []string{row("2", "train", end-2, end)},
		[]string{fmt.Sprintf("2|%d|%d|||1||||", end-2, end), fmt.Sprintf("2.batch|%d|%d|00:00.016|1M|1|1|||", end-2, end)})
	if _, out, _ := run("--config", short, "workloads", "usage"); !strings.Contains(out, "1 run was measured, and runs shorter than 1m0s are not counted") {
		t.Error(out)
	}
	// None was measured, by a plugin that does, and by none.
	rows := []string{fmt.Sprintf("2|%d|%d|||1||||", start, end)}
	for gather, want := range map[string]string{"jobacct_gather/linux": "none was measured by jobacct_gather/linux", "jobacct_gather/none": "JobAcctGatherType must not be none"} {
		if _, out, _ := run("--config", slurmOf(t, gather, runs, rows), "workloads", "usage"); !strings.Contains(out, want) {
			t.Errorf("%s: %s", gather, out)
		}
	}
}
