-- Claims of rounds: room for a BE job that is owed a GPU type, made by BE jobs
-- that have had more than their due.

-- +goose Up
ALTER TABLE claims ADD COLUMN purpose TEXT NOT NULL DEFAULT 'te'; -- te, round

-- +goose Down
ALTER TABLE claims DROP COLUMN purpose;
