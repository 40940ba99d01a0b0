package undo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// slow is a Slurm that takes one write at a time, and keeps reservations of priod's.
type slow struct {
	*world
	reservations []string
}

func (s *slow) Apply(ctx context.Context, actions []plan.Action) []plan.Outcome {
	outcomes := s.world.Apply(ctx, actions[:min(1, len(actions))])
	for _, a := range actions[len(outcomes):] {
		outcomes = append(outcomes, plan.Outcome{Action: a, Status: slurmplug.Postponed, Message: "no turn"})
	}
	return outcomes
}

func (s *slow) Reservations(context.Context) ([]string, error) { return s.reservations, nil }

func (s *slow) Do(_ context.Context, commands []plan.Command) (results []plan.Result) {
	for _, c := range commands {
		s.reservations = slices.DeleteFunc(s.reservations, func(name string) bool { return name == c.Value.String() })
		results = append(results, plan.Result{Command: c, Status: slurmplug.Applied})
	}
	return results
}

// steeredWorld has waiting jobs that priod steered.
func steeredWorld(t *testing.T, jobs uint32) *slow {
	t.Helper()
	w := &world{dir: t.TempDir(), at: epoch}
	u := must[*Journal](t)(Open(w.dir, ""))
	for i := range jobs {
		r := &record{Job: cluster.Job{ID: slurmplug.Plain(i + 1), User: "ann", State: cluster.Pending, Submit: epoch}, fields: map[slurmplug.Lever]*field{}}
		for l := range userWords {
			r.fields[l] = &field{}
		}
		r.fields[slurmplug.Features] = &field{now: "a100", priods: true}
		w.records = append(w.records, r)
		if err := u.Append([]*Change{{Job: r.ID, User: "ann", Submit: epoch, Lever: slurmplug.Features, To: slurmplug.Text("a100")}}); err != nil {
			t.Fatal(err)
		}
	}
	return &slow{world: w, reservations: []string{"one"}}
}

// Where Slurm takes a few writes at a time, reset goes on and says so; a dry run tells
// all of it and does nothing.
func TestResetGoesOn(t *testing.T) {
	s := steeredWorld(t, 3)
	r := s.reset(true)
	r.Slurm = s
	r.Hold = nil // nobody is paused
	v := must[*Result](t)(r.Run(context.Background()))
	if len(v.Writes) != 3 || s.writes != 0 || len(v.Reservations) != 1 || len(s.reservations) != 1 || !v.Complete() {
		t.Errorf("%+v, %d writes, reservations %v", v, s.writes, s.reservations)
	}
	var said []string
	r = s.reset(false)
	r.Slurm, r.Say = s, func(line string) { said = append(said, line) }
	v = must[*Result](t)(r.Run(context.Background()))
	if len(v.Writes) != 3 || s.writes != 3 || v.Failed != 0 || len(s.reservations) != 0 || !v.Complete() {
		t.Errorf("%+v, %d writes, reservations %v", v, s.writes, s.reservations)
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "1 of 3 values are settled") || !strings.HasSuffix(said[0], "; no turn") {
		t.Errorf("%q", said)
	}
	if left := s.open().Changes(); len(left) != 0 {
		t.Errorf("%+v", left)
	}
}

// blind is a Slurm whose nodes cannot be read.
type blind struct{ *slow }

func (b blind) Observe(context.Context) (cluster.Snapshot, error) {
	return cluster.Snapshot{}, slurmplug.ErrDoubtful
}

// A reset needs no nodes: it puts back a constraint as the user wrote it.
func TestResetWithoutNodes(t *testing.T) {
	s := steeredWorld(t, 2)
	if err := s.open().Append([]*Change{{Job: s.records[0].ID, User: "ann", Submit: epoch, Lever: slurmplug.Features, Was: slurmplug.Text("fast"), To: slurmplug.Text("a100")}}); err != nil {
		t.Fatal(err)
	}
	r := s.reset(false)
	r.Slurm = blind{s}
	v := must[*Result](t)(r.Run(context.Background()))
	if len(v.Writes) != 2 || v.Failed != 0 || !v.Complete() || v.Writes[0].After != slurmplug.Text("fast") {
		t.Errorf("%+v", v)
	}
}

// Where neither the journal nor the database can be read nothing is written, and priod stays paused. A journal that lacks what
// the database saw of it, as an older copy does, is taken back as far as it goes, and the reset is not complete.
func TestResetByALostJournal(t *testing.T) {
	s := steeredWorld(t, 2)
	r := s.reset(false)
	r.Seen = func(context.Context) (int64, error) { return 3, nil }
	v := must[*Result](t)(r.Run(context.Background()))
	if len(v.Writes) != 2 || v.Complete() || !strings.Contains(v.Behind, "older copy with 2 records of 3") {
		t.Errorf("%+v", v)
	}
	remove(t, journal.Path(s.dir))
	s.writes = 0
	r = s.reset(false)
	r.Seen = func(context.Context) (int64, error) { return 0, errors.New("no database") }
	_, err := r.Run(context.Background())
	if err == nil || s.writes != 0 || !strings.HasPrefix(err.Error(), "neither the journal nor the database can be read") || !strings.HasSuffix(err.Error(), "priod stays paused (priod resume)") {
		t.Errorf("%v, %d writes", err, s.writes)
	}
}
