-- What was chosen for a job as data, what check found, and when jobs are expected to start.
-- Units as in the first migration.

-- +goose Up
ALTER TABLE decisions ADD COLUMN choices TEXT NOT NULL DEFAULT ''; -- plan.Choices as JSON; '': none

ALTER TABLE wait_spans ADD COLUMN fits TEXT NOT NULL DEFAULT ''; -- plan.FitsNow as JSON; '': not known

-- What the daemon's last check found.
CREATE TABLE findings (
  finding INTEGER PRIMARY KEY, -- in the order of check
  at_ms   INTEGER NOT NULL,
  level   TEXT    NOT NULL,    -- PASS, WARN, FAIL
  name    TEXT    NOT NULL,
  words   TEXT    NOT NULL,
  fix     TEXT    NOT NULL
) STRICT;

-- The first start of each waiting job that was planned, by time limits.
CREATE TABLE starts (
  job      INTEGER PRIMARY KEY REFERENCES jobs (job) ON DELETE CASCADE,
  at_ms    INTEGER NOT NULL, -- when that was planned
  start_ms INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE starts;
DROP TABLE findings;
ALTER TABLE wait_spans DROP COLUMN fits;
ALTER TABLE decisions DROP COLUMN choices;
