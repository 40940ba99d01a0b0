-- What became of guaranteed shares. Units as in the first migration.

-- +goose Up
CREATE TABLE share_hours (
  hour_ms    INTEGER NOT NULL, -- begin of the hour
  account    TEXT    NOT NULL, -- that has the share, or shares
  accounts   TEXT    NOT NULL, -- JSON array: it and those below it, of jobs that were seen
  gpus       REAL    NOT NULL, -- guaranteed, in service, at the end
  entitled_s REAL    NOT NULL, -- from here on GPU-seconds
  within_s   REAL    NOT NULL, -- of the share, used by the account
  lent_s     REAL    NOT NULL, -- of the share, used by others
  wanted_s   REAL    NOT NULL, -- of the share, idle while an entitled job waited
  borrowed_s REAL    NOT NULL, -- used by the account beyond the share
  PRIMARY KEY (hour_ms, account)
) STRICT, WITHOUT ROWID;

-- One row for each job, or task, that waited while it was entitled.
CREATE TABLE share_returns (
  id         INTEGER NOT NULL, -- Slurm's JobID or ArrayJobID
  task       INTEGER NOT NULL,
  since_ms   INTEGER NOT NULL, -- the first cycle at which it was entitled
  until_ms   INTEGER NOT NULL, -- 0: it waits
  started    INTEGER NOT NULL, -- 0: it waits, left the queue, or is no longer entitled
  tasks      INTEGER NOT NULL, -- of an array's record, since the same time
  account    TEXT    NOT NULL, -- that has the share
  user       TEXT    NOT NULL,
  gpus       REAL    NOT NULL, -- of one task
  promise_ms INTEGER NOT NULL, -- a duration
  why        TEXT    NOT NULL, -- of a late one: a word, why it still waited
  PRIMARY KEY (id, task, since_ms)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE share_returns;
DROP TABLE share_hours;
