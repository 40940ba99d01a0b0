package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/simulate/tune"
)

// tunedTrace is nine days in which long BE jobs keep trials waiting on four nodes.
func tunedTrace() string {
	r := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	b.WriteString("job_id,submit_s,gpus,duration_s,limit_s,type,grace_s,ckpt_s,user,account\n")
	for i := range 600 {
		at, user := i*1344, r.IntN(6)
		if i%3 == 0 {
			fmt.Fprintf(&b, "%d,%d,%d,%d,%d,be,30,600,u%d,a\n", i, at, 1+r.IntN(4), 12_000+r.IntN(15_000), 60_000, user)
		} else {
			fmt.Fprintf(&b, "%d,%d,%d,%d,3600,te,,,u%d,a\n", i, at, 1+r.IntN(2), 60+r.IntN(600), user)
		}
	}
	return b.String()
}

// The trials wait behind long jobs: a profile with evictions is recommended for them, as lines of priod.toml; the second call takes
// what the first one kept, whether in parts or whole, and a study of other jobs is not mixed in.
func TestTune(t *testing.T) {
	dir := t.TempDir()
	config, jobs := write(t, "priod.toml", "[ranking]\norder = \"slurm\"\n"), write(t, "jobs.csv", tunedTrace())
	tune := func(out string, more ...string) []string {
		return append([]string{"--config", config, "tune", "--trace", jobs, "--nodes", "4:a100:4:32:256000", "--goal", "te-p95", "--out", filepath.Join(dir, out)}, more...)
	}
	var first struct {
		Recommended []string
		Worth       struct{ From, To float64 }
		Settings    []struct {
			Set     []string
			Figures map[string]*float64
			Failed  bool
		}
	}
	status, out, errs := run(tune("one", "--json")...)
	if err := json.Unmarshal([]byte(out), &first); status != exitDone || err != nil {
		t.Fatal(status, err, errs)
	}
	if len(first.Recommended) == 0 || !(first.Worth.To < first.Worth.From/2) {
		t.Errorf("recommended %q, worth %+v", first.Recommended, first.Worth)
	}
	for _, s := range first.Settings {
		if s.Failed || s.Figures["completion"] == nil || *s.Figures["completion"] <= 0 {
			t.Errorf("%+v", s)
		}
	}
	_, text, _ := run(tune("one")...)
	for _, want := range []string{"SETTING", "TE P95", "without priod", "Recommended: TE slowdown p95: -", "--- " + config, "+profile = ", "Page: "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{tune("one", "--seed", "2"), exitUsage, "holds the study of"},
		{tune("two", "--bound", "te-p95=x"), exitUsage, "want GOAL=MOST"},
		{tune("two", "--bound", "speed=1"), exitUsage, "no goal \"speed\"; there are completion, te-p95, worst-user, lost"},
		{tune("two", "--try", "preemption.urgancy=1"), exitUsage, "unknown key"},
		{tune("two", "--workers", "0"), exitUsage, "at least 1"},
		{[]string{"tune", "--out", filepath.Join(dir, "two")}, exitUsage, "tune: which nodes?"},
		{[]string{"tune", "--trace", write(t, "few.csv", comparedTrace), "--nodes", "1:a100:2", "--out", filepath.Join(dir, "few")}, exitProblem, "want at least 6 days"},
		{[]string{"tune", "--trace", jobs, "--nodes", "4:a100:4", "--goal", "joy", "--out", filepath.Join(dir, "two")}, exitUsage, "no goal"},
	} {
		if status, _, errs := run(c.args...); status != c.status || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d, %s; want %d, %s", c.args, status, errs, c.status, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "two")); err == nil {
		t.Error("a refused study leaves a folder")
	}
}

// On a site without GPU types every change that needs them is left out, and the study goes on; what the user tries has to be a
// configuration.
func TestTuneWithoutSteering(t *testing.T) {
	study := func() *tuning {
		return &tuning{cfg: write(t, "priod.toml", "[steering]\nenabled = false\n"), known: map[string]*tune.Setting{}}
	}
	var sets [][]string
	for _, change := range changes {
		sets = append(sets, []string{change})
	}
	s := study()
	if _, _, err := s.add([][]string{nil, {slurmAlone}}); err != nil {
		t.Fatal(err)
	}
	added, points, err := s.add(sets)
	if err != nil || len(added) != len(points) || len(added) == 0 || slices.ContainsFunc(added, func(s *tune.Setting) bool { return s.Set[0] == "rounds.enabled=true" }) {
		t.Errorf("%d of %d changes tried: %v", len(added), len(changes), err)
	}
	if _, _, err := study().add([][]string{nil, {"rounds.enabled=true"}}); !errors.As(err, new(usageError)) {
		t.Errorf("%v", err)
	}
}
