-- What steering decided about a job, in words; '' when it was no question.

-- +goose Up
ALTER TABLE decisions ADD COLUMN steer TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE decisions DROP COLUMN steer;
