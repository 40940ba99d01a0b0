package tests

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"slurmprio/tests/shim"
)

// shimmed puts the shim between priod and Slurm's commands.
func (s *site) shimmed(settings string) *shim.Dir {
	s.Helper()
	s.binDir = s.TempDir()
	real := map[string]string{}
	for _, name := range shim.Commands {
		path, err := exec.LookPath(name)
		if err != nil {
			s.Fatal(err)
		}
		real[name] = path
	}
	d, err := shim.Install(s.binDir, bin+"/shim", real, s.lab.Command(s.Context(), "true").Env)
	if err != nil {
		s.Fatal(err)
	}
	s.configure(settings)
	return d
}

func (s *site) throw(d *shim.Dir, faults ...shim.Fault) {
	s.Helper()
	if err := d.Throw(faults...); err != nil {
		s.Fatal(err)
	}
}

// cycleWith runs a cycle that meets the faults; they have to be thrown.
func (s *site) cycleWith(d *shim.Dir, faults ...shim.Fault) {
	s.Helper()
	hangs := func(f shim.Fault) bool { return f.Do == shim.Hang || slices.Contains(f.Argv, "-STOP") }
	if slices.ContainsFunc(faults, hangs) {
		s.hurries("5s")
		defer s.hurries("")
	}
	s.throw(d, faults...)
	out, errs, status := s.priod("run", "--once")
	s.Logf("exit status %d\n%s%s", status, out, errs)
	if thrown := d.Thrown(); len(thrown) != len(faults) {
		s.Errorf("planned was %v, thrown %q", faults, thrown)
	}
	s.throw(d)
}

// sub runs one named scenario of several in a row. When one fails, the runs that
// are compared have parted and what would follow says nothing.
func (s *site) sub(t *testing.T, name string, scenario func()) {
	t.Helper()
	passed := t.Run(name, func(t *testing.T) {
		s.TB = t
		scenario()
	})
	s.TB = t
	if !passed {
		t.FailNow()
	}
}

// What Slurm's commands say besides their work, and what they say when it failed.
var warnings = []string{
	"slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
	"squeue: error: _parse_next_key: Parsing error at unrecognized key: Frobnicate",
	"sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:localhost:6819: Connection refused",
	"warning: gres.conf: File not found",
	"sprio: warning: can't honor --ntasks-per-node set to 4 which doesn't match the requested tasks 8",
}

// commandFaults are all that can happen at a command's side: every kind at every
// named point where it makes sense.
func commandFaults(r *rand.Rand) []shim.Fault {
	var all []shim.Fault
	for _, command := range []string{
		"sacct", "squeue", "scontrol show config", "scontrol show partition", "scontrol show node", "sprio", "sdiag", "scontrol update",
	} {
		at := func(when, do string) *shim.Fault {
			all = append(all, shim.Fault{Command: command, When: when, Call: 1, Do: do})
			return &all[len(all)-1]
		}
		for _, when := range []string{"before", "during", "after"} {
			at(when, shim.Kill)
			at(when, shim.Die)
			at(when, shim.Hang)
			at(when, shim.Slow).Delay = time.Duration(r.IntN(1000)) * time.Millisecond
		}
		at("before", shim.Fail)
		at("after", shim.Fail)
		if command == "scontrol update" {
			continue // only its exit status and its errors count, and they are whole
		}
		at("after", shim.Cut).Part = r.Float64()
		at("after", shim.Cut).Part = 1 - r.Float64()/1000
		at("before", shim.Warn).Text = warnings[r.IntN(len(warnings))]
	}
	return all
}

// Whatever happens to a command at its named points, the next cycle ends where
// an undisturbed priod ends.
func TestCommandFaults(t *testing.T) {
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 0))
	faults := commandFaults(r)
	r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	faults = faults[:rounds(3, len(faults))]

	first := newOwnSite(t, roomy)
	want := undisturbed(first, seed, len(faults), nil)
	s := newSiteOn(t, first.lab, roomy)
	d := s.shimmed(roomy)
	q := newQueue(s, seed)
	s.settle()
	s.sameEnd(want[0])
	for i, f := range faults {
		s.sub(t, fmt.Sprint(f), func() {
			q.step()
			s.cycleWith(d, f)
			s.settle()
			s.sameEnd(want[i+1])
		})
	}
	s.checkReset(want[len(want)-1])
}
