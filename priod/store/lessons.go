package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store/db"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug/jobtag"
)

// Lessons are what this site's accounting taught of speeds, the last time.
type Lessons struct {
	Read time.Time // accounting was read up to then
	At   time.Time // it was learned; zero: not yet
	Runs int       // completed jobs that taught

	Knowledge *speed.Knowledge // nil: not yet
}

// SaveStays takes in what accounting says of the runs that ended up to a time.
// It may be called alongside the cycles, like the methods below.
func (s *Store) SaveStays(ctx context.Context, stays []cluster.PastStay, until time.Time) error {
	for len(stays) > 0 {
		now := stays[:min(len(stays), pruneBatch)]
		stays = stays[len(now):]
		if err := s.batch(ctx, func(tx db.DBTX) error {
			return every(now, func(x *cluster.PastStay) error { return s.q.PutStay(ctx, tx, stayParams(x)) })
		}); err != nil {
			return err
		}
	}
	return s.batch(ctx, func(tx db.DBTX) error { return s.q.ReadUntil(ctx, tx, millis(until)) })
}

// StaysSince returns the runs that ended since a time, and drops the older ones.
func (s *Store) StaysSince(ctx context.Context, since time.Time) (stays []cluster.PastStay, err error) {
	for n := int64(1); n > 0; {
		err = s.batch(ctx, func(tx db.DBTX) (err error) {
			n, err = olderThan(ctx, millis(since), s.q.PruneStays)(tx)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	err = s.batch(ctx, func(tx db.DBTX) error {
		rows, err := s.q.AllStays(ctx, tx, millis(since))
		stays = each(rows, stayOf)
		return err
	})
	return stays, err
}

// StaysSince returns the runs that ended since a time, as far as the daemon keeps them.
func (r *Reader) StaysSince(ctx context.Context, since time.Time) ([]cluster.PastStay, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.Stay, error) { return r.q.AllStays(ctx, tx, millis(since)) }, stayOf)
}

// LatestStays returns the last runs that ended, at most so many, of one user or ("") of all, as far as the daemon keeps them.
func (r *Reader) LatestStays(ctx context.Context, user string, most int) ([]cluster.PastStay, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.Stay, error) {
		return r.q.LatestStays(ctx, tx, db.LatestStaysParams{User: user, Most: int64(most)})
	}, stayOf)
}

// SaveLessons replaces what was learned.
func (s *Store) SaveLessons(ctx context.Context, k *speed.Knowledge, runs int, at time.Time) error {
	usual, programs := k.Lessons()
	body, err := json.Marshal(usual)
	if err != nil {
		return err
	}
	params := make([]db.AddProgramParams, len(programs))
	for i := range programs {
		p := &programs[i]
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		params[i] = db.AddProgramParams{
			Workload: p.Program.Workload, User: p.Program.User, Name: p.Program.Name, Gpus: int64(p.Program.GPUs), Unit: int64(p.Unit), Body: string(text),
		}
	}
	return s.batch(ctx, func(tx db.DBTX) error {
		if err := s.q.DropPrograms(ctx, tx); err != nil {
			return err
		}
		if err := every(params, func(p *db.AddProgramParams) error { return s.q.AddProgram(ctx, tx, *p) }); err != nil {
			return err
		}
		return s.q.PutLesson(ctx, tx, db.PutLessonParams{AtMs: millis(at), Runs: int64(runs), Body: string(body)})
	})
}

// Lessons returns what was learned.
func (s *Store) Lessons(ctx context.Context) (l Lessons, err error) {
	return recall(ctx, s, func(tx db.DBTX) (Lessons, error) { return lessonsOf(ctx, s.q, tx, nil) })
}

// Lessons returns what the daemon learned, of all programs or of one.
func (r *Reader) Lessons(ctx context.Context, of *speed.Program) (Lessons, error) {
	return one(ctx, r, func(tx *sql.Tx) (Lessons, error) { return lessonsOf(ctx, r.q, tx, of) })
}

func lessonsOf(ctx context.Context, q *db.Queries, tx db.DBTX, of *speed.Program) (l Lessons, err error) {
	last, err := q.LastLesson(ctx, tx)
	if errors.Is(err, sql.ErrNoRows) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l = Lessons{Read: instant(last.ReadMs), At: instant(last.AtMs), Runs: int(last.Runs)}
	if last.AtMs == 0 {
		return l, nil
	}
	var usual speed.Usual
	if err := json.Unmarshal([]byte(last.Body), &usual); err != nil {
		return l, err
	}
	var rows []db.LessonProgram
	if of == nil {
		rows, err = q.AllPrograms(ctx, tx)
	} else {
		rows, err = q.ProgramOf(ctx, tx, db.ProgramOfParams{Workload: of.Workload, User: of.User, Name: of.Name, Gpus: int64(of.GPUs)})
	}
	if err != nil {
		return l, err
	}
	programs := make([]speed.Lesson, len(rows))
	for i := range rows {
		r, p := &rows[i], &programs[i]
		if err := json.Unmarshal([]byte(r.Body), p); err != nil {
			return l, err
		}
		p.Program = speed.Program{Workload: r.Workload, User: r.User, Name: r.Name, GPUs: int(r.Gpus)}
		p.Unit = speed.Unit(r.Unit)
	}
	l.Knowledge, err = speed.Recall(usual, programs)
	return l, err
}

func stayParams(s *cluster.PastStay) db.PutStayParams {
	return db.PutStayParams{
		RawID: int64(s.RawID), StartMs: millis(s.Start), EndMs: millis(s.End), State: s.State, GpuType: s.GPUType, Gpus: int64(s.GPUs),
		User: s.User, Name: s.Name, Tag: s.Tag.Text, Steps: s.Steps, NodeList: s.NodeList, LimitS: int64(s.Limit / time.Second),
	}
}

func stayOf(r *db.Stay) cluster.PastStay {
	return cluster.PastStay{
		Stay:  cluster.Stay{Start: instant(r.StartMs), End: instant(r.EndMs), Closed: true, GPUType: r.GpuType, GPUs: int(r.Gpus), User: r.User},
		RawID: uint32(r.RawID), Name: r.Name, State: r.State, Tag: jobtag.Read(r.Tag), Steps: r.Steps, NodeList: r.NodeList, Limit: time.Duration(r.LimitS) * time.Second,
	}
}
