-- Why GPU jobs waited.
-- Units as in the first migration.

-- +goose Up
-- One row for each wait: from a submission or requeue to a start. A task that starts takes
-- the past of its array along.
CREATE TABLE waits (
  id        INTEGER NOT NULL,
  task      INTEGER NOT NULL,
  submit_ms INTEGER NOT NULL, -- it began
  until_ms  INTEGER NOT NULL, -- it ended, with a start where ended says so; 0: it waits
  ended     TEXT    NOT NULL, -- '', started, left, split
  user      TEXT    NOT NULL,
  account   TEXT    NOT NULL,
  partition TEXT    NOT NULL,
  gpu_type  TEXT    NOT NULL, -- that it asks for, later the one that it got; '': left open
  gpus      INTEGER NOT NULL, -- of each task
  tasks     INTEGER NOT NULL,
  pool      TEXT    NOT NULL, -- where it started: GPUs of its type in the same partitions; '' before, or on several
  pool_gpus INTEGER NOT NULL, -- that the pool had then
  room_ms   INTEGER NOT NULL, -- from then on it wanted nothing but room
  torn_ms   INTEGER NOT NULL, -- of the wait, by fragmentation
  PRIMARY KEY (id, task, submit_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_by_end ON waits (until_ms);

-- The parts of a wait, one cause each; together they are the wait.
CREATE TABLE wait_spans (
  id        INTEGER NOT NULL,
  task      INTEGER NOT NULL,
  submit_ms INTEGER NOT NULL,
  from_ms   INTEGER NOT NULL,
  until_ms  INTEGER NOT NULL, -- 0: it holds
  cause     TEXT    NOT NULL,
  what      TEXT    NOT NULL, -- the limit's name, Slurm's reason, what of a node is short
  words     TEXT    NOT NULL, -- as it was when this began
  PRIMARY KEY (id, task, submit_ms, from_ms),
  FOREIGN KEY (id, task, submit_ms) REFERENCES waits (id, task, submit_ms) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE wait_spans;
DROP TABLE waits;
