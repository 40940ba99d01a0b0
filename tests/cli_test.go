package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"slurmprio/priod/cli"
)

// Every job that squeue prints can be asked for as it prints it, and by its SLUID where
// Slurm has them; an array also once all its tasks have records of their own.
func TestJobsByEveryName(t *testing.T) {
	s := newSite(t, "")
	blockers := s.fill()
	array := s.submit("--array=0-5%2", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	split := s.submit("--array=0-1", "--begin=now+1hour", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	for task := range 2 { // each gets a record of its own
		s.slurm("scontrol", "update", fmt.Sprintf("JobId=%s_%d", split, task), fmt.Sprintf("Nice=%d", task+1))
	}
	het := strings.TrimSpace(s.slurm("sbatch", "--parsable", "--gres=gpu:1", "--time=5", ":", "--gres=gpu:1", "--time=5", "--wrap=sleep 600"))
	s.wait("the queue", func() bool {
		return strings.Contains(s.slurm("squeue", "--noheader", "--format=%i"), het+"+1")
	})
	s.must("run", "--once")
	for name := range strings.FieldsSeq(s.slurm("squeue", "--noheader", "--format=%i")) {
		for _, verb := range [][]string{{"explain"}, {"explain", "--history"}, {"evictions"}} {
			s.must(append(verb, name)...)
		}
		if out, err, status := s.priod("explain", "--victims", name); status == 2 || strings.Contains(err, "job id") {
			t.Errorf("explain --victims %s: %d, %s%s", name, status, out, err)
		}
	}
	if text := s.must("explain", het+"+1"); !strings.Contains(text, "Job        "+het+"+1 of ") {
		t.Errorf("the second component:\n%s", text)
	}
	if text := s.must("explain", array); !strings.Contains(text, "Array      tasks 0-5 wait together") {
		t.Errorf("an array:\n%s", text)
	}
	s.slurm("scancel", split+"_1")
	s.must("run", "--once")
	if text := s.must("explain", split); !strings.Contains(text, "\nArray ") || !strings.Contains(text, "1 left (1)") {
		t.Errorf("an array that has split:\n%s", text)
	}
	if s.namesRuns() {
		run := strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+blockers[0], "--Format=SLUID"))
		if text := s.must("explain", run); !strings.Contains(text, "Job        "+blockers[0]+" of ") {
			t.Errorf("%s:\n%s", run, text)
		}
	}
	if _, err, status := s.priod("explain", "sZZZZZZZZZZZZZ"); status != 1 || strings.Count(err, "\n") != 1 {
		t.Errorf("an unknown SLUID: %d, %s", status, err)
	}
}

// asked are the words behind each verb that shows something of the state.
var asked = map[string][]string{
	"run": {"--once"}, "check": nil, "queue": nil, "queue --stored": nil, "explain": {"JOB"}, "report history": nil, "explain --history JOB": {"JOB"}, "evictions": nil,
	"evictions JOB": {"JOB"}, "explain --victims JOB": {"JOB"}, "explain --victims": nil, "report preemptions": nil, "report classes": nil, "report eta": nil, "report learning": nil, "report sizing": nil, "report failures": nil, "report nodes": nil, "report usage": nil, "report waits": nil, "pause": nil, "resume": nil, "reset": nil,
	"eta": nil, "eta SCRIPT": {"--", "--gres=gpu:1", "SCRIPT"}, "workloads list": nil, "workloads history": nil, "workloads usage": nil, "config show": nil,
}

// elsewhere are verbs that do not look at the cluster.
var elsewhere = []string{"profile", "simulate", "tune", "workloads export", "report value", "report trial", "trial", "config lua", "web"}

// number is the key of a number, which is null where it is not known.
var number = regexp.MustCompile(`_s$|_p[0-9]+$|^p[0-9]+|^site_factor$|^within_|^gpus$|^gpu_hours_per_day$`)

// A program finds a list where a list belongs: no verb prints null for an empty one, before
// the first cycle, with an empty queue, and with a job that nobody did anything to.
func TestNoListIsNull(t *testing.T) {
	longOnly(t)
	s := newOwnSite(t, "[preemption]\nenabled = true\n")
	script := filepath.Join(s.dir, "job.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var verbs func(before string, commands []*ucli.Command)
	verbs = func(before string, commands []*ucli.Command) {
		for _, c := range commands {
			name := strings.TrimSpace(before + " " + c.Name)
			if len(c.Subcommands) > 0 {
				verbs(name, c.Subcommands)
			} else if _, known := asked[name]; !known && !startsWithAny(name, elsewhere) {
				t.Errorf("%s is not asked here", name)
			}
		}
	}
	verbs("", cli.App("").Commands)
	look := func(when, job string) {
		for _, verb := range slices.Sorted(maps.Keys(asked)) {
			if verb == "run" && when == "fresh" {
				continue
			}
			args := asked[verb]
			words := append(strings.Fields(strings.TrimSuffix(strings.TrimSuffix(verb, " JOB"), " SCRIPT")), "--json")
			for _, a := range args {
				words = append(words, strings.NewReplacer("JOB", job, "SCRIPT", script).Replace(a))
			}
			out, errs, status := s.priod(words...)
			if out == "" {
				if status == 0 || strings.Contains(errs, "no such table") || when == "with a job" && !strings.HasPrefix(verb, "explain --victims") && verb != "workloads history" {
					t.Errorf("%s, priod %s: %d, %s", when, strings.Join(words, " "), status, errs)
				}
				continue
			}
			var v any
			if err := json.Unmarshal([]byte(out), &v); err != nil {
				t.Errorf("%s, priod %s: %v in %s", when, strings.Join(words, " "), err, out)
			}
			for _, key := range nulls("", v) {
				t.Errorf("%s, priod %s: %s is null", when, strings.Join(words, " "), key)
			}
		}
		_, _, _ = s.priod("resume") // before the first cycle there is nothing to resume
	}
	look("fresh", "1")
	s.must("run", "--once")
	look("empty", "1")
	job := s.submit("--prio-type=te", "--begin=now+1hour", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.must("run", "--once")
	look("with a job", job)
}

func startsWithAny(name string, all []string) bool {
	for _, a := range all {
		if strings.HasPrefix(name, a) {
			return true
		}
	}
	return false
}

// nulls are the keys of what is null in a JSON value and must not be.
func nulls(key string, v any) (found []string) {
	switch v := v.(type) {
	case nil:
		if !number.MatchString(key) {
			found = append(found, key)
		}
	case map[string]any:
		for k, x := range v {
			found = append(found, nulls(k, x)...)
		}
	case []any:
		for _, x := range v {
			found = append(found, nulls(key, x)...)
		}
	}
	return found
}

// A verb that comes while the daemon makes its database gets an answer or a sentence.
func TestVerbsInTheFirstSeconds(t *testing.T) {
	s := newSite(t, "")
	d := s.daemon()
	s.wait("the first answer", func() bool {
		_, errs, status := s.priod("report", "history")
		if status != 0 && !strings.Contains(errs, "no database in") && !strings.Contains(errs, "has no tables yet") && !strings.Contains(errs, "not finished a cycle") {
			t.Errorf("%d: %s", status, errs)
		}
		return status == 0
	})
	d.stop()
}

// A daemon takes resets beside it as what they are: no cycle fails, and what it wants is
// written again after each.
func TestResetsBesideADaemon(t *testing.T) {
	longOnly(t)
	s := newOwnSite(t, "[cycle]\ninterval = \"2s\"\n[te_budget.user]\ngpus = 0\n")
	s.fill()
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	value := func() string {
		return strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+trial))
	}
	d := s.daemon()
	for i := range 3 {
		s.wait("the value", func() bool { return value() != "0" })
		s.sleep(time.Duration(i) * 700 * time.Millisecond) // another moment of the cycle
		s.must("reset")
		if v := value(); v != "0" {
			t.Errorf("reset leaves %s", v)
		}
		s.must("resume")
	}
	s.wait("the value", func() bool { return value() != "0" })
	if text := d.log.String(); strings.Contains(text, "cycle failed") || strings.Count(text, "gave way") > 6 {
		t.Errorf("%s", text)
	}
	d.stop()
}

// reset deletes the reservations that evictions made, whoever lost the journal of them,
// and no other.
func TestResetDeletesReservations(t *testing.T) {
	s := newSite(t, "")
	s.must("run", "--once")
	node := strings.Fields(s.slurm("sinfo", "--noheader", "--Node", "--format=%N"))[0]
	for _, name := range []string{"priod_7_1795000000", "theirs"} {
		s.slurm("scontrol", "create", "reservation", "ReservationName="+name, "Nodes="+node, "Users=root", "StartTime=now", "Duration=10", "Flags=IGNORE_JOBS,OVERLAP")
	}
	defer s.slurm("scontrol", "delete", "ReservationName=theirs")
	if text := s.must("reset", "--dry-run"); !strings.Contains(text, "reservation priod_7_1795000000 would be deleted") {
		t.Errorf("a dry run says\n%s", text)
	}
	s.must("reset")
	if left := s.slurm("scontrol", "--oneliner", "show", "reservation"); strings.Contains(left, "priod_") || !strings.Contains(left, "ReservationName=theirs ") {
		t.Errorf("reset leaves\n%s", left)
	}
}
