package tests

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// Job ids wrap round between two cycles: a new job with an old one's id inherits
// nothing of it, neither value nor class, wait, history or Nice.
func TestJobIDsWrapRound(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, lab.ForTest(t, lab.Options{
		NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}},
		ExtraConf: []string{"FirstJobId=1000", "MaxJobId=1004", "MinJobAge=2"},
	}), roomy)
	s.fill()
	submit := func(jobs ...string) (ids []string) {
		for i, args := range jobs {
			ids = append(ids, s.submit(append(strings.Fields(args), "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")...))
			s.eligible(i + 1)
		}
		return ids
	}
	old := submit("--prio-type=te --nice=70", "--nice=30", "--prio-type=te")
	s.settle()
	s.slurm("scancel", old...)
	s.wait("slurmctld to forget the old jobs", func() bool {
		_, err := s.lab.Run(t.Context(), "scontrol", "show", "job", old[2])
		return err != nil
	})
	begun := time.Now()
	ids := submit("--nice=11", "--prio-type=te --nice=22", "--prio-type=te --nice=33")
	if !slices.Equal(ids, old) {
		t.Fatalf("the ids were %v and are %v", old, ids)
	}
	s.settle()
	if got, want := s.order(), []string{ids[1], ids[2], ids[0]}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v\n%s", got, want, s.must("report", "history"))
	}
	for i, want := range []int{0, 1, 1} {
		var story struct {
			Writes []struct{ Before string }
		}
		if s.json(&story, "explain", "--history", ids[i]); len(story.Writes) != want {
			t.Errorf("job %s: %d writes, want %d\n%s", ids[i], len(story.Writes), want, s.must("explain", "--history", ids[i]))
		}
	}
	var queue struct {
		Jobs []struct {
			Job   string `json:"job"`
			WaitS int64  `json:"wait_s"`
		} `json:"jobs"`
	}
	s.json(&queue, "queue")
	for _, j := range queue.Jobs {
		// Slurm cuts the time of a submission to whole seconds, and priod rounds the wait.
		if most := int64((time.Since(begun) + time.Second).Round(time.Second) / time.Second); j.WaitS > most {
			t.Errorf("job %s has waited %d s, it came %d s ago", j.Job, j.WaitS, most)
		}
	}
	s.must("reset")
	for i, want := range []string{"11", "22", "33"} {
		if nice := strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+ids[i], "--Format=Nice:")); nice != want || s.siteFactor(ids[i]) != "0" {
			t.Errorf("reset leaves job %s with a Nice of %s and a SiteFactor of %s", ids[i], nice, s.siteFactor(ids[i]))
		}
	}
}
