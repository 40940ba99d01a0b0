package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/slurmplug"
)

// Sample is the cluster at a time, as curves over days and weeks are drawn from it.
type Sample struct {
	At        time.Time          `json:"at"`
	GPUs      int                `json:"gpus"`
	InUse     int                `json:"gpus_in_use"`
	Stranded  int                `json:"gpus_stranded"` // free, without CPUs or memory beside them
	Down      int                `json:"gpus_down"`     // on nodes that are down or drained, not in use
	Reserved  int                `json:"gpus_reserved"` // free, in a reservation or kept for TE jobs
	Idle      int                `json:"gpus_idle"`     // in use by jobs that show no sign of work
	Running   int                `json:"running_jobs"`
	WaitingTE int                `json:"waiting_te_jobs"`
	WaitingBE int                `json:"waiting_be_jobs"` // with those that priod does not rank
	TookS     float64            `json:"cycle_s"`         // the longest cycle since the last sample
	Causes    map[plan.Cause]int `json:"waiting_gpus"`    // that waiting jobs ask for, by cause of the wait
	Slow      map[string]float64 `json:"slow_nodes"`      // beyond doubt, times as long as typical

	Reservations []slurmplug.NodeReservation `json:"reservations"`
}

// SampleOf is what a cycle saw of the cluster; causes are those of the waits, by the GPUs that they ask for.
func SampleOf(s *cluster.Snapshot, h *cluster.History, causes map[plan.Cause]int) *Sample {
	x := &Sample{At: s.At, Causes: causes, Slow: map[string]float64{}}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		x.GPUs, x.InUse = x.GPUs+n.GPUs, x.InUse+min(n.GPUsUsed, n.GPUs)
		switch free := max(n.GPUs-n.GPUsUsed, 0); {
		case n.Reserved():
			x.Reserved += free
		case !n.Usable:
			x.Down += free
		case n.Stranded() != "":
			x.Stranded += free
		}
	}
	for i := range s.Jobs {
		switch j := &s.Jobs[i]; {
		case j.State == cluster.Running:
			if x.Running++; j.Idle {
				x.Idle += j.GPUs
			}
		case j.State == cluster.Pending && h.ClassOf(j) == cluster.TE:
			x.WaitingTE += max(j.TaskCount, 1)
		case j.State == cluster.Pending:
			x.WaitingBE += max(j.TaskCount, 1)
		}
	}
	return x
}

// SaveSample adds one. It may be called alongside the cycles.
func (s *Store) SaveSample(ctx context.Context, x *Sample) error {
	causes, err := json.Marshal(x.Causes)
	if err != nil {
		return err
	}
	slow, err := json.Marshal(x.Slow)
	if err != nil {
		return err
	}
	reserved, err := json.Marshal(x.Reservations)
	if err != nil {
		return err
	}
	return s.note(ctx, func(tx db.DBTX) error {
		return s.q.AddSample(ctx, tx, db.AddSampleParams{
			AtMs: millis(x.At), Gpus: int64(x.GPUs), GpusUsed: int64(x.InUse), GpusStranded: int64(x.Stranded), Running: int64(x.Running),
			WaitingTe: int64(x.WaitingTE), WaitingBe: int64(x.WaitingBE), TookMs: int64(1000 * x.TookS), Causes: string(causes), Slow: string(slow), Reservations: string(reserved),
			GpusDown: int64(x.Down), GpusReserved: int64(x.Reserved), GpusIdle: int64(x.Idle),
		})
	})
}

// Samples returns those since a time, the first to the last.
func (r *Reader) Samples(ctx context.Context, since time.Time) ([]Sample, error) {
	return list(ctx, r, func(tx *sql.Tx) ([]db.Sample, error) { return r.q.SamplesSince(ctx, tx, millis(since)) }, sampleOf)
}

// LastSample returns the latest one; the zero value: there is none.
func (r *Reader) LastSample(ctx context.Context) (x Sample, err error) {
	err = r.view(ctx, func(tx *sql.Tx) error {
		row, err := r.q.LastSample(ctx, tx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		x = sampleOf(&row)
		return err
	})
	return x, err
}

func sampleOf(x *db.Sample) Sample {
	s := Sample{
		At: instant(x.AtMs), GPUs: int(x.Gpus), InUse: int(x.GpusUsed), Stranded: int(x.GpusStranded), Running: int(x.Running),
		WaitingTE: int(x.WaitingTe), WaitingBE: int(x.WaitingBe), TookS: float64(x.TookMs) / 1000,
		Down: int(x.GpusDown), Reserved: int(x.GpusReserved), Idle: int(x.GpusIdle),
	}
	_ = json.Unmarshal([]byte(x.Causes), &s.Causes) // SaveSample wrote all three
	_ = json.Unmarshal([]byte(x.Slow), &s.Slow)
	_ = json.Unmarshal([]byte(x.Reservations), &s.Reservations)
	return s
}
