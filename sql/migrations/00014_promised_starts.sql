-- When jobs are expected to start by what others ran, and what was first said of each, to be scored. Units as in the first migration.

-- +goose Up
ALTER TABLE starts ADD COLUMN median_ms INTEGER NOT NULL DEFAULT 0; -- in half of the draws it starts by then; 0: not known
ALTER TABLE starts ADD COLUMN p90_ms    INTEGER NOT NULL DEFAULT 0; -- in nine of ten

-- The first that was said of each job.
CREATE TABLE promises (
  job       INTEGER PRIMARY KEY REFERENCES jobs (job) ON DELETE CASCADE,
  at_ms     INTEGER NOT NULL,
  limits_ms INTEGER NOT NULL, -- by time limits
  median_ms INTEGER NOT NULL,
  p90_ms    INTEGER NOT NULL,
  raw_ms    INTEGER NOT NULL  -- p90 before it was fitted to earlier promises
) STRICT;
CREATE INDEX promises_by_time ON promises (at_ms);

-- +goose Down
DROP TABLE promises;
ALTER TABLE starts DROP COLUMN p90_ms;
ALTER TABLE starts DROP COLUMN median_ms;
