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
		{"half upgraded", map[string]string{"squeue": says("23.02.6")["squeue"]}, "half upgraded", "PASS  rights"},
		{"a banner", map[string]string{"squeue": "echo 'Welcome to the cluster!'"}, "wrapper", "PASS  version"},
		{"colours", map[string]string{"squeue": `out=$($real "$@") || exit; printf '\033[32m%s\033[0m\n' "$out"; exit`}, "wrapper", "PASS  version"},
		{"a summary", map[string]string{"squeue": `case "$1" in --version|--help*) ;; *) $real "$@" && echo '12 jobs'; exit;; esac`}, "squeue: output cannot be trusted", "PASS  partitions"},
		{"no squeue", map[string]string{"squeue": "echo 'squeue: use our portal' >&2; exit 1"}, "use our portal", "PASS  partitions"},
	} {
		s.sub(t, c.name, func() {
			s.strange(c.scripts)
			out, errs, status := s.priod("check")
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
