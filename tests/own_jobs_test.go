package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// A user without rights to the state folder is told of an eviction in the job's own output, before it leaves and when
// it runs again, and asks the daemon why; about own jobs alone, and without other users' names.
func TestUsersLearnWhy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can submit as two users")
	}
	t.Parallel()
	open := openDir(t, 0o777)
	settings := quick + roomy + fmt.Sprintf("[preemption]\nenabled = true\nmin_run = \"1s\"\n[wake]\nlisten = [\"unix:%s/wake\"]\n", open)
	s := newSiteOn(t, lab.ForTest(t, lab.Options{Nodes: []lab.NodeSpec{{Prefix: "a100-", Count: 1, GPUType: "a100", GPUs: 4}}}), settings)
	for _, user := range []string{lab.PlainUser, lab.OtherUser} {
		t.Cleanup(func() { s.slurm("scancel", "--user="+user) })
	}
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(open, "priod.toml")
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	d := s.daemon()
	d.waitLog("key=explain")
	submit := func(user string, args ...string) string {
		t.Helper()
		id, err := s.lab.As(user).Sbatch(s.Context(), append([]string{"--chdir=" + open, "--time=20"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	script := filepath.Join(open, "job.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho run >&2\nsleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	victim := submit(lab.PlainUser, "--gres=gpu:4", "--comment=prio:type=be&grace=3&v=1", "--open-mode=append", "--output=victim.log", script)
	if err := s.lab.WaitJob(s.Context(), victim, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	trial := submit(lab.OtherUser, "--gres=gpu:2", "--comment=prio:type=te&v=1", "--output=/dev/null", "--wrap", "sleep 5")
	said := func() string {
		text, _ := os.ReadFile(filepath.Join(open, "victim.log"))
		return string(text)
	}
	s.wait("the victim to run again and be told", func() bool { return strings.Contains(said(), "follows one that was evicted") })
	if want := "priod: this job makes room for trial-and-error job " + trial; !strings.Contains(said(), want) {
		t.Errorf("the victim's output lacks %q:\n%s", want, said())
	}
	ask := func(user string, args ...string) (stdout, stderr string, status int) {
		t.Helper()
		cmd := s.lab.As(user).Command(context.Background(), filepath.Join(bin, "priod"), append([]string{"--config", config, "explain"}, args...)...)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	out, errs, status := ask(lab.PlainUser, victim)
	for _, want := range []string{"Job        " + victim + " of " + lab.PlainUser, "for TE job " + trial + " of another user"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("explain of an own job: exit status %d, want %q:\n%s%s", status, want, out, errs)
		}
	}
	if strings.Contains(out, lab.OtherUser) {
		t.Errorf("explain names another user:\n%s", out)
	}
	out, _, status = ask(lab.PlainUser, "--json", victim)
	var v struct{ Evictions []struct{ Reason string } }
	if err := json.Unmarshal([]byte(out), &v); err != nil || status != 0 || len(v.Evictions) != 1 || strings.Contains(out, lab.OtherUser) {
		t.Errorf("explain --json: %d, %v:\n%s", status, err, out)
	}
	for _, args := range [][]string{{trial}, {victim, trial}, {"99999"}} {
		if out, errs, status := ask(lab.PlainUser, args...); status != 1 || out != "" || !strings.Contains(errs, "knows no job "+args[len(args)-1]+" of "+lab.PlainUser) {
			t.Errorf("explain %v: exit status %d: %s%s", args, status, out, errs)
		}
	}
	eta := func(user string, args ...string) (text string, status int) {
		t.Helper()
		cmd := s.lab.As(user).Command(context.Background(), filepath.Join(bin, "priod"), append([]string{"--config", config, "eta"}, args...)...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	waits := submit(lab.PlainUser, "--gres=gpu:4", "--hold", "--output=/dev/null", script)
	s.wait("a cycle to see a held job", func() bool {
		out, status := eta(lab.PlainUser)
		return status == 0 && strings.Contains(out, waits)
	})
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{waits}, 0, "held"},
		{[]string{"--json", waits}, 0, `"start_s": null`},
		{[]string{"--slurm"}, 0, "no estimate"},
		{[]string{trial}, 1, "knows no job " + trial + " of " + lab.PlainUser},
		{[]string{script}, 2, "requests no GPU"},
		{[]string{script, waits}, 2, "not both"},
		{[]string{"--user", lab.OtherUser}, 1, "is not for this user"},
	} {
		if out, status := eta(lab.PlainUser, c.args...); status != c.status || !strings.Contains(out, c.want) || strings.Contains(out, lab.OtherUser) && c.status == 0 {
			t.Errorf("priod eta %q: exit status %d: %s", c.args, status, out)
		}
	}
	s.slurm("scontrol", "release", waits)
	s.wait("a start by limits alone, as no run is known", func() bool {
		out, status := eta(lab.PlainUser, "--json", waits)
		return status == 0 && regexp.MustCompile(`"start_s": null,\s*"start_p90_s": null,\s*"start_by_limits_s": [1-9]`).MatchString(out) &&
			regexp.MustCompile(`"end_s": null,\s*"start_by_limits_s": [1-9]`).MatchString(out)
	})
	s.slurm("scancel", waits)
	if out, _, status := ask(lab.OtherUser, trial); status != 0 || !strings.Contains(out, trial) {
		t.Errorf("the other user's own job: exit status %d: %s", status, out)
	}
	d.stop()
	if _, errs, status := ask(lab.PlainUser, victim); status != 1 || !strings.Contains(errs, "is not for this user") || !strings.Contains(errs, "does not listen") {
		t.Errorf("without the daemon: exit status %d: %s", status, errs)
	}
}
