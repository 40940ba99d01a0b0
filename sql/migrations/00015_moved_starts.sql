-- How far the expected start of a job has moved while it waits. Units as in the first migration.

-- +goose Up
ALTER TABLE starts ADD COLUMN least_ms INTEGER NOT NULL DEFAULT 0; -- the earliest median that was said; 0: none
ALTER TABLE starts ADD COLUMN most_ms  INTEGER NOT NULL DEFAULT 0; -- the latest

-- +goose Down
ALTER TABLE starts DROP COLUMN most_ms;
ALTER TABLE starts DROP COLUMN least_ms;
