-- What Slurm allocated, in GPUs. Units as in the first migration.

-- +goose Up
ALTER TABLE intervals ADD COLUMN charge REAL NOT NULL DEFAULT 0; -- GPUs, with those that the run's CPUs and memory stranded; less than gpus: not known

-- +goose Down
ALTER TABLE intervals DROP COLUMN charge;
