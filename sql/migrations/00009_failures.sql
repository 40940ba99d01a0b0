-- Runs that failed, by what class, and what became of their jobs; nodes that were taken
-- out of use for that. body is the whole row (JSON), of which the other columns are parts
-- to search by. Units as in the first migration.

-- +goose Up
CREATE TABLE failures (
  failure INTEGER PRIMARY KEY,
  id      INTEGER NOT NULL,
  task    INTEGER NOT NULL,
  at_ms   INTEGER NOT NULL,
  class   TEXT    NOT NULL,
  body    TEXT    NOT NULL
) STRICT;
CREATE INDEX failures_by_job ON failures (id, task);
CREATE INDEX failures_by_time ON failures (at_ms);

CREATE TABLE drained (
  node  TEXT    NOT NULL,
  at_ms INTEGER NOT NULL,
  class TEXT    NOT NULL,
  PRIMARY KEY (node, at_ms)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE drained;
DROP TABLE failures;
