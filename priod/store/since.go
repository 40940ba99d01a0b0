package store

import (
	"context"
	"database/sql"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store/db"
)

// JobTimes are those of a GPU job from its submission to its end, with its runs summed up.
type JobTimes struct {
	Job    cluster.JobID
	Tasks  int // that the record stands for
	Tag    string
	Class  string        // te or be, as it counted when it first ran; "" before
	Submit time.Time     // first one
	Start  time.Time     // of its first run
	End    time.Time     // of its last run, as far as polls saw it
	Ran    time.Duration // in all of its runs
	Left   time.Time     // the queue; zero while it is there
}

// JobsSince returns the GPU jobs that were submitted since a time and seen by a
// poll.
func (r *Reader) JobsSince(ctx context.Context, since time.Time) ([]JobTimes, error) {
	query := func(tx *sql.Tx) ([]db.JobsSinceRow, error) { return r.q.JobsSince(ctx, tx, millis(since)) }
	return list(ctx, r, query, func(x *db.JobsSinceRow) JobTimes {
		return JobTimes{
			Job: jobID(x.ID, x.Task), Tasks: int(x.TaskCount), Tag: x.Tag, Class: x.Class, Submit: instant(x.FirstSubmitMs),
			Start: instant(x.StartMs), End: instant(x.EndMs), Ran: time.Duration(x.RanMs) * time.Millisecond, Left: instant(x.LeftMs),
		}
	})
}
