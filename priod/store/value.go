package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"slurmprio/priod/store/db"
)

// Value is what priod brought within a time: what happened, beside a replay of the same jobs without priod.
type Value struct {
	Made  time.Time `json:"made"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Jobs  int       `json:"jobs"` // with GPUs

	Completion ValueOf  `json:"completion_s"` // mean, from submission to end
	Wait       ValueOf  `json:"wait_s"`       // mean
	TEWaitP95  *ValueOf `json:"te_wait_p95_s,omitempty"`
	GPUHours   ValueOf  `json:"gpu_hours"` // held, lost work included

	// Low and High are between what parts of the completion time priod saves in so many replays.
	Low     float64 `json:"saved_low"`
	High    float64 `json:"saved_high"`
	Replays int     `json:"replays"`

	// Off is by what part the replay with priod misses the mean completion that happened.
	Off float64 `json:"replay_off"`
	// Paused is the same of the replay without priod, of jobs submitted while priod was paused; nil: for no six hours on end.
	Paused *ValueCheck `json:"paused,omitempty"`

	Gained []ValueOwner `json:"users_gained"` // the most first
	Lost   []ValueOwner `json:"users_lost"`
	TookS  float64      `json:"took_s"`
}

// ValueOf is a figure as it happened, and as it would have been.
type ValueOf struct {
	With    float64 `json:"with"`
	Without float64 `json:"without"`
}

// Saved is the part that priod saves; NaN where there is nothing to save.
func (v ValueOf) Saved() float64 {
	if v.Without == 0 {
		return math.NaN()
	}
	return 1 - v.With/v.Without
}

// ValueCheck is the replay without priod beside what happened while priod was paused, mean waits, s.
type ValueCheck struct {
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Jobs     int       `json:"jobs"`
	Happened float64   `json:"wait_s"`
	Replayed float64   `json:"replayed_wait_s"`
}

// ValueOwner is what a user's jobs took on average, s.
type ValueOwner struct {
	User string `json:"user"`
	Jobs int    `json:"jobs"`
	ValueOf
}

func valuePath(dir string) string { return filepath.Join(dir, "value.json") }

// SaveValue keeps the last one in the state folder.
func SaveValue(dir string, v *Value) error {
	if err := writeFile(valuePath(dir), v); err != nil {
		return fmt.Errorf("keep what priod brought (run it as priod's own user or root): %w", err)
	}
	return nil
}

// ReadValue is the last one; nil: there is none.
func ReadValue(dir string) (*Value, error) { return readFile[Value](valuePath(dir)) }

// Value is the last one that is kept; nil: there is none.
func (r *Reader) Value() (*Value, error) { return ReadValue(r.dir) }

// HeldSpan is the longest time since another in which no cycle wrote anything; zero: there is none.
func (r *Reader) HeldSpan(ctx context.Context, since time.Time) (from, to time.Time, err error) {
	rows, err := list(ctx, r, func(tx *sql.Tx) ([]db.HeldCyclesRow, error) { return r.q.HeldCycles(ctx, tx, millis(since)) },
		func(x *db.HeldCyclesRow) db.HeldCyclesRow { return *x })
	if err != nil {
		return from, to, err
	}
	var begun time.Time
	for _, x := range rows {
		at, until := instant(x.AtMs), instant(x.UntilMs)
		if x.Held == 0 {
			begun = time.Time{}
			continue
		}
		if begun.IsZero() {
			begun = at
		}
		if until.Sub(begun) > to.Sub(from) {
			from, to = begun, until
		}
	}
	return from, to, nil
}

// AskedCPUs are the CPUs that users asked for, by job as accounting names it, of jobs whose size priod wrote since a time.
func (r *Reader) AskedCPUs(ctx context.Context, since time.Time) (map[string]int, error) {
	writes, err := list(ctx, r, func(tx *sql.Tx) ([]db.SizeWritesRow, error) { return r.q.SizeWrites(ctx, tx, millis(since)) },
		func(x *db.SizeWritesRow) Write { return showWrite(&x.Write, jobID(x.ID, x.JobTask), "") })
	asked := map[string]int{}
	for i := range writes {
		job := writes[i].Job.String()
		if _, known := asked[job]; !known {
			asked[job] = writes[i].Before.Size().CPUs
		}
	}
	return asked, err
}
