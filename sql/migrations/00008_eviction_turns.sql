-- Up to which turn of evictions.jsonl the rows of claims and evictions are: a database
-- that is behind, or that was lost, gets the rest from there.

-- +goose Up
CREATE TABLE eviction_turns (
  journal TEXT    PRIMARY KEY, -- the file's own name for itself
  turn    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE eviction_turns;
