package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// A hundred runs of a program teach how long the next ones take: waiting jobs are told when they start, and what was first said of
// each is scored when it does.
func TestExpectedStart(t *testing.T) {
	longOnly(t)
	open := openDir(t, 0o777)
	s := newOwnSite(t, quick+fmt.Sprintf("[speeds]\nmin_run = \"1s\"\ninterval = \"1s\"\n[wake]\nlisten = [\"unix:%s/wake\"]\n", open))
	name := fmt.Sprintf("eta-%d", time.Now().UnixNano())
	submit := func(args ...string) string {
		return s.submit(append([]string{"--job-name=" + name, "--gres=gpu:1", "--time=60"}, args...)...)
	}
	submit("--array=1-100", "--wrap", "sleep 2")
	s.wait("a hundred completed jobs in accounting", func() bool {
		return strings.Count(s.slurm("sacct", "--allusers", "--noheader", "--allocations", "--parsable2", "--name="+name, "--format=State"), "COMPLETED") == 100
	})
	s.fill()
	var waiting []string
	for range 3 {
		waiting = append(waiting, submit("--wrap", "sleep 5"))
	}
	d := s.daemon()
	s.wait("starts that past runs let expect", func() bool { // planned once a minute
		out, _, _ := s.priod("explain", waiting[2])
		return strings.Contains(out, "nine of ten within")
	})
	text := s.must("explain", waiting[2])
	t.Log(text)
	for _, args := range [][]string{{"eta"}, {"eta", "--slurm", waiting[2]}, {"queue"}, {"eta", "--", "--gres=gpu:1", "--time=60", "--job-name=" + name, "--wrap", "sleep 5"}} {
		out := s.must(args...)
		t.Logf("priod %s\n%s", strings.Join(args, " "), out)
		if want := map[bool]string{true: "BY LIMITS: STARTS", false: waiting[2]}[slices.Contains(args, "--")]; !strings.Contains(out, want) {
			t.Errorf("priod %s\n%s", strings.Join(args, " "), out)
		}
	}
	script, config := filepath.Join(open, "train.sh"), filepath.Join(open, "priod.toml")
	settings, err := os.ReadFile(s.config)
	if err := errors.Join(err, os.WriteFile(script, []byte("#!/bin/sh\n#SBATCH --gres=gpu:1 --time=60 --job-name="+name+"\nsleep 5\n"), 0o755), os.WriteFile(config, settings, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"eta", "--slurm", script}, {"eta", "--", script}} { // a user asks the daemon
		cmd := s.lab.As(lab.PlainUser).Command(context.Background(), filepath.Join(bin, "priod"), append([]string{"--config", config}, args...)...)
		out, err := cmd.CombinedOutput()
		t.Logf("priod %s\n%s", strings.Join(args, " "), out)
		if err != nil || !strings.Contains(string(out), "train.sh") || !regexp.MustCompile(`(within 1m|in \d+m\d\ds) +in \d+m\d\ds`).Match(out) {
			t.Errorf("priod %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	s.slurm("scancel", "--state=RUNNING", "--user=root")
	s.wait("the three jobs to be over", func() bool {
		return s.slurm("squeue", "--noheader", "--states=all", "--name="+name, "--format=%T", "--states=PD,R") == ""
	})
	var eta struct {
		All struct {
			Promised, Started, Scored int
			Held                      *float64 `json:"p90_held"`
		}
	}
	s.wait("the promises to be scored", func() bool {
		if err := json.Unmarshal([]byte(s.must("report", "eta", "--json")), &eta); err != nil {
			t.Fatal(err)
		}
		return eta.All.Started >= 3
	})
	t.Log(s.must("report", "eta"))
	if eta.All.Promised < 3 || eta.All.Held == nil {
		t.Errorf("%+v", eta.All)
	}
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// Three hundred jobs on a real Slurm: what is first said of those that wait is held against their starts, beside what squeue --start first said.
func TestExpectedStartsOfMany(t *testing.T) {
	longOnly(t)
	s := newOwnSite(t, quick+"[speeds]\nmin_run = \"1s\"\ninterval = \"1s\"\n")
	r := rand.New(rand.NewPCG(5, 5))
	const taught, asked = 120, 180
	submit := func() string {
		program := r.IntN(6)
		seconds := []float64{5, 8, 12, 20, 30, 45}[program] * math.Exp(0.4*r.NormFloat64())
		return s.submit(fmt.Sprintf("--job-name=many-%d", program), fmt.Sprintf("--gres=gpu:%d", 1+r.IntN(3)), "--time=30", "--wrap", fmt.Sprintf("sleep %.0f", max(seconds, 1)))
	}
	for range taught {
		submit()
	}
	s.within(8*time.Minute, "the first jobs in accounting", func() bool {
		return strings.Count(s.slurm("sacct", "--allusers", "--noheader", "--allocations", "--parsable2", "--format=JobName,State"), "|COMPLETED") >= taught
	})
	for range asked {
		submit()
	}
	d := s.daemon()
	said, began := map[string]time.Time{}, map[string]time.Time{}
	s.within(15*time.Minute, "all jobs to be over", func() bool {
		rows := strings.Fields(s.slurm("squeue", "--noheader", "--start", "--format=%i|%S"))
		for _, row := range rows {
			id, text, _ := strings.Cut(row, "|")
			if at, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local); err == nil && said[id].IsZero() {
				said[id] = at
			}
		}
		time.Sleep(5 * time.Second)
		return s.slurm("squeue", "--noheader", "--states=PD,R", "--format=%i") == ""
	})
	type scores struct {
		All struct {
			Started int
			Held    *float64 `json:"p90_held"`
			ErrorS  *float64 `json:"median_error_s"`
		}
	}
	var eta scores
	s.wait("the promises to be scored", func() bool {
		eta = scores{}
		return json.Unmarshal([]byte(s.must("report", "eta", "--json")), &eta) == nil && eta.All.Started >= 60
	})
	for row := range strings.FieldsSeq(s.slurm("sacct", "--allusers", "--noheader", "--allocations", "--parsable2", "--format=JobID,Start")) {
		id, text, _ := strings.Cut(row, "|")
		if at, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local); err == nil {
			began[id] = at
		}
	}
	var off []float64
	for id, at := range said {
		if !began[id].IsZero() {
			off = append(off, at.Sub(began[id]).Abs().Seconds())
		}
	}
	slices.Sort(off)
	t.Log(s.must("report", "eta"))
	if len(off) == 0 || eta.All.ErrorS == nil || eta.All.Held == nil {
		t.Fatalf("%d jobs with an expected start of Slurm's, %+v", len(off), eta.All)
	}
	slurm := off[len(off)/2]
	t.Logf("squeue --start: %d jobs, off by %.0f s in the median; priod by %.0f s", len(off), slurm, *eta.All.ErrorS)
	if *eta.All.ErrorS > slurm/2 || *eta.All.Held < 0.75 {
		t.Errorf("off by %.0f s, Slurm by %.0f s; %.0f %% held", *eta.All.ErrorS, slurm, 100**eta.All.Held)
	}
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
