package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A program's work takes so many seconds on a t4, and less elsewhere.
type program struct{ a100, v100, t4 float64 }

// Of three programs one gains much on the fast GPUs, one some, one next to nothing.
var programs = []program{{10, 3, 1}, {3, 2, 1}, {1.3, 1.2, 1}}

const gained = 120 // jobs

// comer is one job of the comparison.
type comer struct {
	after time.Duration // the one before it
	work  float64       // s on a t4
	gpus  int
	program
}

func comers(seed uint64) (all []comer) {
	r := rand.New(rand.NewPCG(seed, 7))
	for range gained {
		p := programs[r.IntN(len(programs))]
		all = append(all, comer{
			after: time.Duration(r.ExpFloat64() * 0.6 * float64(time.Second)),
			work:  12 * p.v100 * math.Exp(0.5*r.NormFloat64()), // 12 s on a v100
			gpus:  1 + r.IntN(3), program: p,
		})
	}
	return all
}

// meanCompletion submits the jobs and returns their mean time from submission to end.
func (s *site) meanCompletion(all []comer, submit func(a *comer, wrap string) string) float64 {
	s.Helper()
	for i := range all {
		a := &all[i]
		time.Sleep(a.after)
		submit(a, fmt.Sprintf("case $SLURMD_NODENAME in a100*) sleep %.2f;; v100*) sleep %.2f;; *) sleep %.2f;; esac",
			a.work/a.a100, a.work/a.v100, a.work/a.t4))
	}
	s.waitLong("every job to end", func() bool { return s.slurm("squeue", "--noheader", "--format=%i") == "" })
	sum, n := 0.0, 0
	for line := range strings.Lines(s.slurm("sacct", "--noheader", "--parsable2", "--allocations", "--name="+s.Name(), "--format=Submit,End,State")) {
		f := strings.Split(strings.TrimSpace(line), "|")
		submit, err1 := time.Parse("2006-01-02T15:04:05", f[0])
		end, err2 := time.Parse("2006-01-02T15:04:05", f[1])
		if err1 != nil || err2 != nil || f[2] != "COMPLETED" {
			s.Errorf("a job ended as %q", line)
			continue
		}
		sum += end.Sub(submit).Seconds()
		n++
	}
	if n != len(all) {
		s.Errorf("%d jobs of %d are accounted for", n, len(all))
	}
	return sum / float64(n)
}

func (s *site) waitLong(what string, condition func() bool) {
	s.Helper()
	for end := time.Now().Add(20 * time.Minute); !condition(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			s.Fatalf("waited in vain for %s", what)
		}
	}
}

// Jobs that leave their GPU type open end sooner on average when priod steers
// them than on Slurm alone, and than when all of them ask for the fastest type.
func TestSteeringGains(t *testing.T) {
	if rounds(0, 1) == 0 {
		t.Skip("make test-long runs this")
	}
	seed := seedOf(t)
	all := comers(seed)
	mean := map[string]float64{}
	for _, who := range []string{"slurm", "fastest", "priod"} {
		t.Run(who, func(t *testing.T) {
			s := newSite(t, steering)
			if who == "priod" {
				d := s.daemon()
				defer d.stop()
				d.waitLog("started")
			}
			mean[who] = s.meanCompletion(all, func(a *comer, wrap string) string {
				gres := fmt.Sprintf("--gres=gpu:%d", a.gpus)
				if who == "fastest" {
					gres = fmt.Sprintf("--gres=gpu:a100:%d", a.gpus)
				}
				return s.submit("--job-name="+t.Name(), gres, "--time=5", "--mem=100",
					fmt.Sprintf("--prio-speed=a100:%g,v100:%g,t4:%g", a.a100, a.v100, a.t4), "--wrap", wrap)
			})
		})
	}
	t.Logf("mean completion: Slurm alone %.1f s, always the fastest %.1f s, steered %.1f s", mean["slurm"], mean["fastest"], mean["priod"])
	if best := min(mean["slurm"], mean["fastest"]); mean["priod"] >= best {
		t.Errorf("steered jobs took %.1f s, others %.1f s", mean["priod"], best)
	}
}
