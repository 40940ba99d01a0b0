package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"slurmprio/priod/store"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
)

// endJob is a pending job as a run leaves it. Its name and not its id tells
// runs' jobs apart from each other, so each needs a name of its own. Which value
// a place has depends on the order of the writes; that it is the same place
// does not.
type endJob struct {
	Name  string // job name; tasks of an array behind _
	Held  bool
	Nice  int64
	Class string
	Why   string
	Place int // of its SiteFactor among those in use: 1 is the highest, 0 none
}

// endState is what a run leaves behind: the pending jobs in Slurm's own order,
// neighbours that priod does not place by name.
type endState []endJob

func (e endState) String() string {
	var b strings.Builder
	for _, j := range e {
		fmt.Fprintf(&b, "%+v\n", j)
	}
	return b.String()
}

// sameEnd fails unless the site is as an undisturbed run left it, and sound.
func (s *site) sameEnd(undisturbed endState) {
	s.Helper()
	s.sameQueue(undisturbed)
	s.checkSound()
}

// sameQueue waits until the pending jobs are as an undisturbed run left them: a
// slurmctld that was restarted takes a second to compute its priorities anew.
func (s *site) sameQueue(undisturbed endState) {
	s.Helper()
	s.becomes(undisturbed, s.endState)
}

func (s *site) becomes(undisturbed endState, now func() endState) {
	s.Helper()
	var got endState
	err := lab.WaitFor(s.Context(), "the end of an undisturbed run", func(context.Context) (bool, error) {
		got = now()
		return slices.Equal(got, undisturbed), nil
	})
	if err != nil {
		s.Fatalf("the run ends in\n%s\nundisturbed it ends in\n%s\n%s", got, undisturbed, s.must("report", "history"))
	}
}

// checkSound checks, after a settled run with lever site_factor, that Slurm, the
// store and the journal agree: every value that Slurm shows is the last one that
// the store says was written, none was written twice, and reset finds all that
// it needs.
func (s *site) checkSound() {
	s.Helper()
	s.checkJournal(s.checkStore(s.siteFactors()))
}

// endState reads what a settled run leaves in the queue, in a form that can be
// compared with another run's.
func (s *site) endState() endState {
	s.Helper()
	values := s.siteFactors()
	var queue struct {
		Jobs []struct {
			Job   slurmplug.JobID `json:"job"`
			Class string          `json:"class"`
			Why   string          `json:"why"`
		} `json:"jobs"`
	}
	s.json(&queue, "queue")
	decided := map[string]int{}
	for i, q := range queue.Jobs {
		decided[q.Job.String()] = i
	}
	places := slices.Sorted(maps.Values(values))
	places = slices.DeleteFunc(slices.Compact(places), func(v int64) bool { return v == 0 })

	var end endState
	out := s.slurm("squeue", "--noheader", lab.Records(), "--states=PENDING", "--sort=-p,i", "--Format=JobID:|,JobArrayID:|,Name:|,Nice:|,Reason:|")
	for line := range strings.Lines(out) {
		f := strings.Split(line, "|")
		_, tasks, _ := strings.Cut(f[1], "_")
		j := endJob{Held: strings.HasPrefix(f[4], "JobHeld")}
		j.Nice, _ = strconv.ParseInt(f[3], 10, 64)
		raw, err := strconv.ParseUint(f[0], 10, 32)
		if err != nil {
			s.Fatalf("%q: %v", line, err)
		}
		if v := values[uint32(raw)]; v != 0 {
			at, _ := slices.BinarySearch(places, v)
			j.Place = len(places) - at
		}
		id, _, _ := strings.Cut(f[1], "_[")
		if i, ok := decided[id]; ok {
			j.Class, j.Why = queue.Jobs[i].Class, queue.Jobs[i].Why
		}
		for _, j.Name = range s.endNames(f[2], tasks) {
			end = append(end, j)
		}
	}
	// Whom priod does not place stands by Slurm's own priorities, which differ
	// from run to run: for a minute, two jobs may count different shares of use.
	for i := 0; i < len(end); {
		n := i + 1
		for n < len(end) && end[i].Class != "te" && end[n].Class != "te" && end[n].Held == end[i].Held {
			n++
		}
		slices.SortFunc(end[i:n], func(a, b endJob) int { return strings.Compare(a.Name, b.Name) })
		i = n
	}
	return end
}

// endNames names each task of a record by itself: how far an array is split
// depends on the way to an end, not on the end.
func (s *site) endNames(name, tasks string) (names []string) {
	s.Helper()
	list, unsplit := strings.CutPrefix(strings.TrimSuffix(tasks, "]"), "[")
	if !unsplit {
		return []string{strings.TrimSuffix(name+"_"+tasks, "_")}
	}
	all, err := slurmplug.ExpandTasks(list)
	if err != nil {
		s.Fatal(err)
	}
	for _, t := range all {
		names = append(names, fmt.Sprintf("%s_%d", name, t))
	}
	return names
}

// siteFactors are Slurm's own, by raw id; jobs that it does not count as
// eligible are missing.
func (s *site) siteFactors() map[uint32]int64 {
	s.Helper()
	values := map[uint32]int64{}
	for line := range strings.Lines(s.slurm("sprio", "--noheader", "--format=%i|%S")) {
		id, value, _ := strings.Cut(strings.TrimSpace(line), "|")
		n, err1 := strconv.ParseUint(id, 10, 32)
		v, err2 := strconv.ParseInt(value, 10, 64)
		if err1 != nil || err2 != nil {
			s.Fatalf("sprio says %q", line)
		}
		values[uint32(n)] = v
	}
	return values
}

// checkStore holds Slurm's values against those that the store says were wanted
// and written, and returns the writes, the first one first.
func (s *site) checkStore(values map[uint32]int64) []store.Write {
	s.Helper()
	r, err := store.OpenReader(context.Background(), filepath.Join(s.dir, "state"))
	if err != nil {
		s.Fatal(err)
	}
	defer r.Close()
	queue, err := r.Queue(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	var history struct{ Writes []store.Write }
	s.json(&history, "report", "history", "--most", "1000000")
	slices.Reverse(history.Writes)

	sent := map[slurmplug.JobID][]store.Write{} // that may have arrived
	for _, w := range history.Writes {
		switch w.Status {
		case slurmplug.Applied, slurmplug.Unknown:
			for _, id := range w.Jobs() {
				sent[id] = append(sent[id], w)
			}
		case store.Planned:
			s.Errorf("after a cycle a write has no outcome: %+v", w)
		}
		if w.Before == w.After {
			s.Errorf("a value was written twice: %+v", w)
		}
	}
	for _, q := range queue {
		value, listed := values[q.Job.RawID]
		if q.Job.State != "pending" || !listed || q.Decision == nil || !q.Decision.Ranked || q.Decision.Unmoved != "" {
			continue
		}
		if value != q.Decision.Value {
			s.Errorf("job %s holds %d and the store says that %d is wanted", q.Job.ID, value, q.Decision.Value)
		}
		if k := q.Known; value != 0 && (k == nil || k.Lever != slurmplug.SiteFactor || k.Value != value && k.Tried != value) {
			s.Errorf("job %s holds %d, which the store does not know as its own: %+v", q.Job.ID, value, k)
		}
		all := sent[q.Job.ID]
		if len(all) == 0 && q.Job.ID.Task != slurmplug.NoTask {
			all = sent[slurmplug.Plain(q.Job.ID.ID)]
		}
		text := strconv.FormatInt(value, 10)
		found := value == 0 && len(all) == 0
		for _, w := range slices.Backward(all) {
			if found = w.After.String() == text; found || w.Status == slurmplug.Applied {
				break
			}
		}
		if !found {
			s.Errorf("job %s holds %d, which is not the last value that the store says was written: %+v", q.Job.ID, value, all)
		}
	}
	return history.Writes
}

// journalled are the changes of the journal, each that counts.
func (s *site) journalled() []*undo.Change {
	s.Helper()
	u, err := undo.Open(filepath.Join(s.dir, "state"), "")
	if err != nil {
		s.Fatal(err)
	}
	return u.Changes()
}

// checkJournal holds the journal against the writes: a record for each, and in each
// what was there before priod came. (A crash between the two would leave a record
// without a write; no named point lies there.)
func (s *site) checkJournal(writes []store.Write) {
	s.Helper()
	type change struct {
		job      slurmplug.JobID
		from, to string
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "state", "journal.jsonl"))
	if err != nil && (len(writes) > 0 || !os.IsNotExist(err)) {
		s.Fatal(err)
	}
	lines := map[change]int{}
	for line := range bytes.Lines(text) {
		var record struct{ Write *undo.Change }
		if err := json.Unmarshal(line, &record); err != nil {
			s.Fatalf("journal: %q: %v", line, err)
		}
		c := record.Write
		if c == nil {
			continue
		}
		if c.Was.String() != "0" || c.Submit.IsZero() || c.User == "" {
			s.Errorf("journal: %s does not say what reset needs", line)
		}
		lines[change{c.Job, c.From.String(), c.To.String()}]++
	}
	for _, w := range writes {
		if lines[change{w.Job, w.Before.String(), w.After.String()}]--; lines[change{w.Job, w.Before.String(), w.After.String()}] < 0 {
			s.Errorf("the journal has no line for %+v", w)
		}
	}
	for c, n := range lines {
		if n > 0 {
			s.Errorf("the journal has %d lines without a write: %+v\n%s", n, c, text)
		}
	}
}

// checkReset takes everything back and fails unless Slurm is as if priod had
// never run: no SiteFactor, and the Nice of before.
func (s *site) checkReset(before endState) {
	s.Helper()
	s.must("reset")
	for raw, v := range s.siteFactors() {
		if v != 0 {
			s.Errorf("reset leaves a SiteFactor of %d in job %d", v, raw)
		}
	}
	nice := map[string]int64{}
	for _, j := range before {
		nice[j.Name] = j.Nice
	}
	for line := range strings.Lines(s.slurm("squeue", "--noheader", lab.Records(), "--states=PENDING", "--Format=JobArrayID:|,Name:|,Nice:|")) {
		f := strings.Split(line, "|")
		_, tasks, _ := strings.Cut(f[0], "_")
		for _, name := range s.endNames(f[1], tasks) {
			if want, ok := nice[name]; ok && f[2] != strconv.FormatInt(want, 10) {
				s.Errorf("reset leaves a Nice of %s in job %s, its owner's is %d", f[2], name, want)
			}
		}
	}
}
