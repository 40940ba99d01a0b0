-- Claims and evictions go on from the journal alone.

-- +goose Up
DROP TABLE eviction_turns;

-- +goose Down
CREATE TABLE eviction_turns (
  journal TEXT    PRIMARY KEY,
  turn    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
