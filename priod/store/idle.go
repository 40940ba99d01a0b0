package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/idle"
	"slurmprio/priod/store/db"
)

// learnFrom is how far back spells teach.
const learnFrom = 30 * 24 * time.Hour

// SaveSpells keeps times without work of running jobs. After an error no command may be sent.
func (s *Store) SaveSpells(ctx context.Context, rows []*idle.Spell) error {
	if why := s.Unrecorded(); why != "" {
		return errors.New(why)
	}
	return s.batch(ctx, func(tx db.DBTX) error {
		for _, x := range rows {
			body, err := json.Marshal(x)
			if err != nil {
				return err
			}
			at := x.Found
			if !x.End.IsZero() {
				at = x.End
			}
			if err := s.q.PutSpell(ctx, tx, db.PutSpellParams{
				ID: int64(x.Job.ID), Task: int64(x.Job.Task), StartMs: millis(x.Start), FoundMs: millis(x.Found), AtMs: millis(at), Ended: !x.End.IsZero(), Body: string(body),
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Spells returns those that last, and those that taught something lately. It follows Load.
func (s *Store) Spells(ctx context.Context, now time.Time) ([]idle.Spell, error) {
	return recall(ctx, s, func(tx db.DBTX) ([]idle.Spell, error) { return spellsSince(ctx, s.q, tx, now.Add(-learnFrom)) })
}

// SpellsSince returns those that counted and had not ended at a time, the first found first.
func (r *Reader) SpellsSince(ctx context.Context, since time.Time) ([]idle.Spell, error) {
	return one(ctx, r, func(tx *sql.Tx) ([]idle.Spell, error) { return spellsSince(ctx, r.q, tx, since) })
}

func spellsSince(ctx context.Context, q *db.Queries, tx db.DBTX, since time.Time) ([]idle.Spell, error) {
	rows, err := q.SpellsSince(ctx, tx, millis(since))
	if err != nil {
		return nil, err
	}
	return bodies[idle.Spell](rows)
}

// SpellsOf returns the latest ones of a job, or of an array's tasks, last first.
func (r *Reader) SpellsOf(ctx context.Context, id cluster.JobID, most int) ([]idle.Spell, error) {
	return one(ctx, r, func(tx *sql.Tx) ([]idle.Spell, error) {
		rows, err := r.q.SpellsOfJob(ctx, tx, db.SpellsOfJobParams{ID: int64(id.ID), Task: int64(id.Task), Most: int64(most)})
		if err != nil {
			return nil, err
		}
		return bodies[idle.Spell](rows)
	})
}

// OpenSpells returns those that last, by job.
func (r *Reader) OpenSpells(ctx context.Context) (map[cluster.JobID]idle.Spell, error) {
	return one(ctx, r, func(tx *sql.Tx) (map[cluster.JobID]idle.Spell, error) {
		rows, err := r.q.OpenSpells(ctx, tx)
		if err != nil {
			return nil, err
		}
		all := make(map[cluster.JobID]idle.Spell, len(rows))
		for _, row := range rows {
			var x idle.Spell
			if err := json.Unmarshal([]byte(row.Body), &x); err != nil {
				return nil, err
			}
			all[jobID(row.ID, row.Task)] = x
		}
		return all, nil
	})
}
