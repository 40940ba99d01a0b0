-- What the allocation gives each job and what it had of it; and what this site's
-- accounting teaches of speeds.
-- Units as in the first migration.

-- +goose Up
-- One row for each job that the allocation counts, rewritten when its speeds or
-- its times change.
CREATE TABLE shares (
  job      INTEGER PRIMARY KEY REFERENCES jobs (job) ON DELETE CASCADE,
  cycle    INTEGER NOT NULL,
  at_ms    INTEGER NOT NULL, -- all figures are of then
  given_ms INTEGER NOT NULL, -- its times hold since then; what is promised in types is up to then
  since_ms INTEGER NOT NULL, -- received in types counts from then
  priority REAL    NOT NULL, -- as Gavel orders by
  types    TEXT    NOT NULL, -- JSON array, an object for each GPU type
  notes    TEXT    NOT NULL  -- JSON array of strings: of its speeds
) STRICT;

-- What accounting says of GPU jobs' runs, as far as it teaches of speeds.
CREATE TABLE stays (
  raw_id   INTEGER NOT NULL,
  start_ms INTEGER NOT NULL,
  end_ms   INTEGER NOT NULL,
  state    TEXT    NOT NULL, -- in which it ended, as accounting has it
  gpu_type TEXT    NOT NULL, -- as it was called then; '': not known
  gpus     INTEGER NOT NULL,
  user     TEXT    NOT NULL,
  name     TEXT    NOT NULL, -- the job's
  tag      TEXT    NOT NULL,
  steps    REAL    NOT NULL, -- that the command line says; 0: none
  PRIMARY KEY (raw_id, start_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX stays_by_end ON stays (end_ms);

-- What they taught, the last time; one row.
CREATE TABLE lessons (
  lesson   INTEGER PRIMARY KEY CHECK (lesson = 1),
  read_ms  INTEGER NOT NULL, -- accounting was read up to then
  at_ms    INTEGER NOT NULL, -- it was learned; 0: not yet
  runs     INTEGER NOT NULL, -- completed jobs that taught
  body     TEXT    NOT NULL  -- JSON: the GPU types, and what is usual on them
) STRICT;

-- And of each program.
CREATE TABLE lesson_programs (
  workload TEXT    NOT NULL, -- ''; else user and name are
  user     TEXT    NOT NULL,
  name     TEXT    NOT NULL,
  gpus     INTEGER NOT NULL,
  steps    INTEGER NOT NULL, -- 1: its work is counted in steps, 0: in runs
  body     TEXT    NOT NULL, -- JSON: its runs by type, logs of its speeds and their covariance
  PRIMARY KEY (workload, user, name, gpus, steps)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE lesson_programs;
DROP TABLE lessons;
DROP TABLE stays;
DROP TABLE shares;
