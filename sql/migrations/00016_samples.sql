-- What the pages draw over time, and when running jobs are expected to end. Units as in the first migration.

-- +goose Up
CREATE TABLE samples (
  at_ms         INTEGER PRIMARY KEY, -- one for each minute
  gpus          INTEGER NOT NULL,
  gpus_used     INTEGER NOT NULL,
  gpus_stranded INTEGER NOT NULL, -- free, on a node where no job can start
  running       INTEGER NOT NULL, -- jobs
  waiting_te    INTEGER NOT NULL,
  waiting_be    INTEGER NOT NULL, -- with those that priod does not rank
  took_ms       INTEGER NOT NULL, -- of the longest cycle since the last sample
  causes        TEXT    NOT NULL, -- JSON object: GPUs that waiting jobs ask for, by cause of the wait
  slow          TEXT    NOT NULL, -- JSON object: nodes that are slow beyond doubt, times as long as typical
  reservations  TEXT    NOT NULL  -- JSON array of Slurm's
) STRICT;
CREATE TABLE ends (
  job       INTEGER PRIMARY KEY REFERENCES jobs (job) ON DELETE CASCADE,
  median_ms INTEGER NOT NULL, -- half of such jobs have ended by then
  p90_ms    INTEGER NOT NULL
) STRICT;
ALTER TABLE starts ADD COLUMN run_ms INTEGER NOT NULL DEFAULT 0; -- a duration: half of such jobs run no longer; 0: not known

-- +goose Down
ALTER TABLE starts DROP COLUMN run_ms;
DROP TABLE ends;
DROP TABLE samples;
