-- Where the GPUs are that no job uses, and those that do nothing in jobs. Units as in the first migration.

-- +goose Up
ALTER TABLE samples ADD COLUMN gpus_down INTEGER NOT NULL DEFAULT 0; -- on nodes that are down or drained, not in use
ALTER TABLE samples ADD COLUMN gpus_reserved INTEGER NOT NULL DEFAULT 0; -- free, in a reservation or kept for TE jobs
ALTER TABLE samples ADD COLUMN gpus_idle INTEGER NOT NULL DEFAULT 0; -- in use by jobs that show no sign of work

-- +goose Down
ALTER TABLE samples DROP COLUMN gpus_idle;
ALTER TABLE samples DROP COLUMN gpus_reserved;
ALTER TABLE samples DROP COLUMN gpus_down;
