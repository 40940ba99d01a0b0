-- What jobs reach. Units as in the first migration.

-- +goose Up
ALTER TABLE nodes ADD COLUMN partitions TEXT NOT NULL DEFAULT ''; -- comma-separated

-- +goose Down
ALTER TABLE nodes DROP COLUMN partitions;
