-- Times without work of jobs on GPUs. Units as in the first migration.

-- +goose Up
CREATE TABLE idle_spells (
  id       INTEGER NOT NULL, -- Slurm's JobID or ArrayJobID
  task     INTEGER NOT NULL,
  start_ms INTEGER NOT NULL, -- of the run
  found_ms INTEGER NOT NULL, -- 0: it ended before it counted
  at_ms    INTEGER NOT NULL, -- its end, or when it was found
  ended    INTEGER NOT NULL,
  body     TEXT    NOT NULL, -- JSON of priod/idle's Spell
  PRIMARY KEY (id, task, start_ms, found_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX idle_spells_by_time ON idle_spells (at_ms);

-- +goose Down
DROP TABLE idle_spells;
