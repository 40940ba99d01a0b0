-- What became of writes the journal tells alone. How many records it had says whether it is an older copy.

-- +goose Up
ALTER TABLE cycles ADD COLUMN journal INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE cycles DROP COLUMN journal;
