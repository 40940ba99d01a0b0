-- The time limits of runs, by which priod guesses how much work a run was that names no steps.

-- +goose Up
ALTER TABLE stays ADD COLUMN limit_s INTEGER NOT NULL DEFAULT 0; -- of the job; 0: none, or the partition's
UPDATE lessons SET read_ms = 0; -- the daemon reads accounting once more, and fills it in
ALTER TABLE lesson_programs RENAME COLUMN steps TO unit; -- 0: runs, 1: steps, 2: seconds of the time limit

-- +goose Down
DELETE FROM lesson_programs WHERE unit > 1;
ALTER TABLE lesson_programs RENAME COLUMN unit TO steps;
ALTER TABLE stays DROP COLUMN limit_s;
