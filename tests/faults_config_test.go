package tests

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slurmprio/tests/shim"
)

// edits are changes of priod.toml under way. A good one has new settings, which
// stay when a later one is bad.
var edits = []struct {
	name     string
	settings string // good
	spoil    func(*site)
	words    string // in the log
}{
	{name: "a QOS of TE", settings: roomy + "[ranking]\nte_qos = [\"normal\"]\n"},
	{name: "broken", spoil: func(s *site) { s.configure("[ranking]\nordr = \"owed\"\n") }, words: "did you mean"},
	{name: "no QOS of TE", settings: roomy},
	{name: "deleted", spoil: func(s *site) {
		if err := os.Remove(s.config); err != nil {
			s.Fatal(err)
		}
	}, words: "no such file"},
	{name: "other partition", settings: roomy + interactiveOnly},
	{name: "a budget", settings: "[te_budget.user]\ngpus = 3\n"},
	{name: "back again", settings: roomy},
}

// interactiveOnly stands for another value of slurm.partitions: see edit.
const interactiveOnly = "# interactive only\n"

// edit writes priod.toml.
func (s *site) edit(settings string) {
	s.Helper()
	s.configure(settings)
	if !strings.Contains(settings, interactiveOnly) {
		return
	}
	text, err := os.ReadFile(s.config)
	if err == nil {
		err = os.WriteFile(s.config, []byte(strings.Replace(string(text), `["gpu"]`, `["interactive"]`, 1)), 0o644)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// anyPlace leaves out the places in the order, which change with the settings.
func (e endState) anyPlace() endState {
	e = slices.Clone(e)
	for i := range e {
		e[i].Place = 0
	}
	return e
}

// The configuration changes in the middle of a cycle's reads or writes: the
// daemon ends where priods end that are started fresh with each configuration.
func TestConfigurationChangesUnderWay(t *testing.T) {
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 0))
	edits := slices.Clone(edits)
	if few := rounds(2, len(edits)); few < len(edits) { // the last one lets the owners' Nice be seen
		most := len(edits) - 1
		r.Shuffle(most, func(i, j int) { edits[i], edits[j] = edits[j], edits[i] })
		edits = append(edits[:few-1], edits[most])
	}
	fresh := newOwnSite(t, roomy)
	good := roomy
	want := undisturbed(fresh, seed, len(edits), func(_ *queue, i int) {
		if edits[i].spoil == nil {
			good = edits[i].settings
			fresh.edit(good)
		}
	})
	fresh.clear()

	s := newSiteOn(t, fresh.lab, quick+roomy)
	d := s.shimmed(quick + roomy)
	q := newQueue(s, seed)
	edited := *s // its daemon reads another file than the verbs do
	edited.config = filepath.Join(s.dir, "edited.toml")
	edited.edit(quick + roomy)
	daemon := edited.daemon()
	daemon.waitLog("wrote:")
	pid := strconv.Itoa(daemon.cmd.Process.Pid)
	for i, edit := range edits {
		s.sub(t, edit.name, func() {
			edited.TB = s.TB
			mark := len(daemon.log.String())
			if edit.spoil != nil {
				edit.spoil(&edited)
			} else {
				edited.edit(quick + edit.settings)
			}
			points := []string{"squeue", "scontrol show node", "sprio"}
			if i > 0 && edits[i-1].name != "other partition" {
				points = append(points, "scontrol update")
			}
			s.throw(d, shim.Fault{Command: points[r.IntN(len(points))], When: "during", Call: 1, Do: shim.Run, Argv: []string{"kill", "-HUP", pid}})
			q.step()
			words := "configuration reloaded"
			if edit.words != "" {
				words = edit.words
			}
			s.wait(words, func() bool { return strings.Contains(daemon.log.String()[mark:], words) })
			s.becomes(want[i+1].anyPlace(), func() endState { return s.endState().anyPlace() })
		})
	}
	daemon.stop()
	s.checkReset(want[len(edits)])
}
