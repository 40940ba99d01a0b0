package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/shim"
)

// strange puts programs of the site's own before Slurm's commands: shell, in which
// real is the command itself.
func (s *site) strange(scripts map[string]string) {
	s.Helper()
	s.binDir = s.TempDir()
	for _, name := range shim.Commands {
		path, err := exec.LookPath(name)
		if err != nil {
			s.Fatal(err)
		}
		text := fmt.Sprintf("#!/bin/sh\nreal=%s\n%s\nexec $real \"$@\"\n", path, scripts[name])
		if err := os.WriteFile(filepath.Join(s.binDir, name), []byte(text), 0o755); err != nil {
			s.Fatal(err)
		}
	}
	s.configure("")
}

// says is a release that slurmctld and the commands seem to be of.
func says(version string) map[string]string {
	return map[string]string{
		"squeue": `[ "$1" = --version ] && { echo slurm ` + version + `; exit; }`,
		"scontrol": `[ "$*" = "show config" ] && { out=$($real "$@") || exit; echo "$out" | sed 's/^SLURM_VERSION .*/SLURM_VERSION           = ` +
			version + `/'; exit; }`,
	}
}

// A Slurm that priod does not know, or that does not speak as Slurm does, is told of
// in one line by check and by what a cycle says, and is not written to.
func TestStrangeSlurm(t *testing.T) {
	s := newSite(t, "")
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	before := s.levers()
	for _, c := range []struct {
		name    string
		scripts map[string]string
		want    string // in a line of check that begins with FAIL, and in what a cycle says
		also    string // check says this, too
	}{
		{"older", says("21.08.8"), "Slurm 21.08.8 is older than 22.05", "PASS  rights"},
		{"newer", says("27.05.1"), "Slurm 27.05.1 is newer than 26.05", "PASS  rights"},
		{"upgrade under way", map[string]string{"squeue": says("23.02.6")["squeue"]}, "upgrade under way", "PASS  rights"},
		{"a banner", map[string]string{"squeue": "echo 'Welcome to the cluster!'"}, "wrapper", "PASS  version"},
		{"colours", map[string]string{"squeue": `out=$($real "$@") || exit; printf '\033[32m%s\033[0m\n' "$out"; exit`}, "wrapper", "PASS  version"},
		{"a summary", map[string]string{"squeue": `case "$1" in --version|--help*) ;; *) $real "$@" && echo '12 jobs'; exit;; esac`}, "squeue: output cannot be trusted", "PASS  partitions"},
		{"no squeue", map[string]string{"squeue": "echo 'squeue: use our portal' >&2; exit 1"}, "use our portal", "PASS  partitions"},
	} {
		s.sub(t, c.name, func() {
			s.strange(c.scripts)
			out, errs, status := s.priod("check", "--all")
			told := 0
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "FAIL") && strings.Contains(line, c.want) {
					told++
				}
			}
			if status != 1 || told != 1 || !strings.Contains(out, c.also) {
				s.Errorf("check: exit status %d, %d lines\n%s%s", status, told, out, errs)
			}
			out, errs, _ = s.priod("run", "--once")
			if !strings.Contains(out+errs, c.want) {
				s.Errorf("a cycle says nothing of it\n%s%s", out, errs)
			}
			if got := s.levers(); got != before {
				s.Errorf("written:\n%s\nwas\n%s", got, before)
			}
		})
	}
	s.binDir = ""
	s.configure("")
	var out bytes.Buffer
	cmd := s.command("run", "--once")
	cmd.Env = append(cmd.Env, "LC_ALL=de_DE.UTF-8", "SQUEUE_FORMAT=%i", "SQUEUE_STATES=RUNNING", "SQUEUE_ALL=0", "SQUEUE_USERS=nobody",
		"SCONTROL_ALL=0", "SACCT_FORMAT=JobID", "SPRIO_FORMAT=%i", "SLURM_CLUSTERS=elsewhere", "SLURM_TIME_FORMAT=relative", "TZ=Asia/Kathmandu")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || s.levers() == before {
		t.Errorf("an environment that would change what Slurm's commands print: %v\n%s\n%s", err, &out, s.levers())
	}
	if got := s.order(); got[0] != trial {
		t.Errorf("the order is %v", got)
	}
}

// A node and a partition with a field in an unknown form are named and left out, and the order is
// written all the same; untyped GPUs with Cores= are read. A reset needs no node at all.
func TestOddRecords(t *testing.T) {
	s := newSite(t, "")
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	before := s.levers()
	s.strange(map[string]string{"scontrol": `case "$*" in
*"show node"*) out=$($real "$@") || exit; echo "$out" | sed -e '1s/ CPUAlloc=[0-9]*/ CPUAlloc=four/' -e '2s/ GresUsed=[^ ]*/ GresUsed=gpu:(null):0(IDX:N\/A)/'; exit;;
*"show partition"*) out=$($real "$@") || exit; echo "$out" | sed -e '1s/ DefaultTime=[^ ]*/ DefaultTime=soon/'; exit;;
esac`})
	out, errs, status := s.priod("check", "--all")
	for _, want := range []string{`CPUAlloc: "four" is no number`, `DefaultTime: `, `"soon"`} {
		if !strings.Contains(out, want) {
			t.Errorf("check (exit status %d) does not say %s\n%s%s", status, want, out, errs)
		}
	}
	out, errs, status = s.priod("run", "--once")
	if status != 0 || s.levers() == before {
		t.Fatalf("exit status %d, nothing is written\n%s%s", status, out, errs)
	}
	if !strings.Contains(out+errs, "records of Slurm's cannot be read and are left out") || !strings.Contains(out+errs, "four") {
		t.Errorf("the cycle does not name what it left out\n%s%s", out, errs)
	}
	if got := s.order(); got[0] != trial {
		t.Errorf("the order is %v", got)
	}
	s.strange(map[string]string{"scontrol": `case "$*" in
*"show node"*) out=$($real "$@") || exit; echo "$out" | sed -e 's/ RealMemory=[0-9]*/ RealMemory=much/'; exit;;
esac`})
	if out, errs, status = s.priod("run", "--once"); status == 0 {
		t.Errorf("a cycle on no node that can be read\n%s%s", out, errs)
	}
	if out, errs, status = s.priod("reset"); status != 0 || s.levers() != before {
		t.Errorf("reset: exit status %d, levers are\n%s\nwere\n%s\n%s%s", status, s.levers(), before, out, errs)
	}
}
