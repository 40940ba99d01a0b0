package fit

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// mostPlaces is how many places one configuration has at most.
const mostPlaces = 40

// newSite starts the lab; its QOS are those of the places. The test runs beside others: it waits for Slurm's passes.
func newSite(t *testing.T) *site {
	t.Parallel()
	var qos []string
	for i := range mostPlaces {
		qos = append(qos, fmt.Sprintf("c%d", i))
	}
	names := strings.Join(qos, ",")
	l := lab.ForTest(t, lab.Options{
		PreemptMode: "OFF", Nodes: []lab.NodeSpec{{Prefix: "first", Count: 1, GPUs: 1, GPUType: "a100"}, {Prefix: "second", Count: 1, GPUs: 1, GPUType: "v100"}},
		Partitions: []string{"p Nodes=ALL"},
		Sacctmgr:   []string{"add qos " + names, "modify account physics set qos+=" + names, "modify account biology set qos+=" + names},
	})
	s := &site{Lab: l, submitter: l.Client}
	if err := s.makePrologs(); err != nil {
		t.Fatal(err)
	}
	return s
}

// batches are cases in configurations: those of one place after another, and no more places than one
// configuration takes.
func batches(cases []*Case) (all [][]*place) {
	open := map[string][]*place{} // by SelectTypeParameters
	for _, c := range cases {
		places := open[c.Select]
		if n := len(places); n > 0 && places[n-1].cases[0].hardware() == c.hardware() {
			places[n-1].cases = append(places[n-1].cases, c)
			continue
		}
		if len(places) == mostPlaces {
			all, places = append(all, places), nil
		}
		open[c.Select] = append(places, &place{cases: []*Case{c}})
	}
	for _, key := range slices.Sorted(maps.Keys(open)) {
		all = append(all, open[key])
	}
	return all
}

// TestFit lets Slurm and priod decide random cases. SLURMPRIO_FIT=SEED repeats those of a seed,
// SLURMPRIO_FIT_CASES=N makes N, SLURMPRIO_FIT_SHRINK=N shows N of the faults without what they do not need.
func TestFit(t *testing.T) {
	count, seed := 200, uint64(1) // the same cases in each make test, so that a verdict on a commit stands
	if os.Getenv("SLURMPRIO_LONG") == "1" {
		count, seed = 5000, uint64(time.Now().UnixNano())%1_000_000
	}
	if n, err := strconv.Atoi(os.Getenv("SLURMPRIO_FIT_CASES")); err == nil {
		count = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SLURMPRIO_FIT"), 10, 64); err == nil {
		seed = n
	}
	s := newSite(t)
	toShrink, _ := strconv.Atoi(os.Getenv("SLURMPRIO_FIT_SHRINK"))
	decided, crashes, tally := 0, 0, map[string]int{}
	for ; decided < count && crashes < 10; seed++ {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		began := time.Now()
		cases := g.cases(mostPlaces, fmt.Sprint(seed))
		for _, b := range batches(cases) {
			if err := s.configure(t.Context(), b); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			all, err := s.decide(t.Context())
			if _, ended := s.PID("slurmctld"); err != nil && ended != nil && strings.HasPrefix(lab.Version(), "24.11.") {
				crashes++ // 24.11.5 does with some requests, see deadly: the others are decided by another seed
				t.Logf("seed %d: %v: %v", seed, ended, err)
			} else if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var faulty []*judged
			for _, j := range all {
				tally[j.outcome()]++
				if j.refused == "" {
					decided++
				}
				if j.refused == "" && !j.before.counted {
					tally["not counted: "+j.before.why]++
				}
				if fault := j.fault(); fault != "" {
					if tally[fault]++; fault == missed { // no job leaves in vain; the count is judged below
						t.Logf("%s\n%s", fault, j.describe())
					} else {
						t.Errorf("%s\n%s", fault, j.describe())
					}
					faulty = append(faulty, j)
				}
			}
			if n := min(toShrink, len(faulty)); n > 0 {
				small, err := s.shrink(t.Context(), faulty[:n])
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				for _, j := range small {
					t.Logf("shrunk: %s\n%s", j.fault(), j.describe())
				}
			}
		}
		t.Logf("seed %d, %s: %d cases in %.1f s: %v", seed, cases[0].Select, decided, time.Since(began).Seconds(), tally)
	}
	if decided < count {
		t.Errorf("slurmctld ended %d times: %d of %d cases are decided", crashes, decided, count)
	}
	if 100*tally[missed] > mostMissed*decided {
		t.Errorf("of %d cases priod misses a place in %d, more than %d of 100", decided, tally[missed], mostMissed)
	}
}

// mostMissed is in how many of 100 cases priod may take a job not to fit that Slurm starts: tasks spread unevenly over
// nodes, and nodes that another job keeps for its user, who is the trial's, too. There a trial waits for Slurm, or for
// the next end of a job, as without priod.
const mostMissed = 3

// TestCases decides the cases that once went wrong; SLURMPRIO_FIT_FILE=FILE those of another file, and shows what slurmctld
// says of them in its log.
func TestCases(t *testing.T) {
	file := os.Getenv("SLURMPRIO_FIT_FILE")
	text, err := os.ReadFile(cmp.Or(file, "testdata/cases.txt"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := parseCases(string(text))
	if err != nil {
		t.Fatal(err)
	}
	cases = slices.DeleteFunc(cases, func(c *Case) bool {
		return slices.ContainsFunc(deadly[release()], func(option string) bool { return strings.Contains(c.String(), option) })
	})
	s := newSite(t)
	for _, b := range batches(cases) {
		if err := s.configure(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if file != "" {
			s.speak(t)
		}
		all, err := s.decide(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range all {
			want := j.Expect
			if want != "" && slurmplug.RewritesTasks(lab.Version()) && strings.Contains(j.Case.String(), "--ntasks-per-gpu") {
				want = "stays" // an update would break such a job: it is no victim
			}
			if fault, got := j.fault(), j.outcome(); fault != "" || want != "" && got != want {
				t.Errorf("%s, %s, want %s\n%s", fault, got, want, j.describe())
			}
		}
	}
}

// speak has slurmctld say in its log how it places jobs, and shows that when the test ends.
func (s *site) speak(t *testing.T) {
	if _, err := s.Run(t.Context(), "scontrol", "setdebug", "debug3"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), "scontrol", "setdebugflags", "+SelectType,Gres"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log, err := os.ReadFile(s.Dir + "/log/slurmctld.log")
		t.Logf("%v\n%s", err, log)
	})
}
