-- What jobs and nodes were before each change: a moment of the past is read from these. Units as in the first migration.

-- +goose Up
CREATE TABLE job_changes (
  job           INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
  until_ms      INTEGER NOT NULL, -- the job was so until then
  tasks         TEXT    NOT NULL,
  task_count    INTEGER NOT NULL,
  partition     TEXT    NOT NULL,
  state         TEXT    NOT NULL,
  reason        TEXT    NOT NULL,
  priority      INTEGER NOT NULL,
  nice          INTEGER NOT NULL,
  site_factor   INTEGER NOT NULL,
  site_factor_known INTEGER NOT NULL,
  restarts      INTEGER NOT NULL,
  cpus          INTEGER NOT NULL,
  mem_mb        INTEGER NOT NULL,
  gpu_type      TEXT    NOT NULL,
  features      TEXT    NOT NULL,
  node_list     TEXT    NOT NULL,
  time_limit_ms INTEGER NOT NULL,
  submit_ms     INTEGER NOT NULL,
  eligible_ms   INTEGER NOT NULL,
  start_ms      INTEGER NOT NULL,
  PRIMARY KEY (job, until_ms)
) STRICT, WITHOUT ROWID;

CREATE TABLE node_changes (
  name        TEXT    NOT NULL,
  until_ms    INTEGER NOT NULL, -- the node was so until then
  since_ms    INTEGER NOT NULL,
  usable      INTEGER NOT NULL,
  state       TEXT    NOT NULL,
  features    TEXT    NOT NULL,
  gpus        INTEGER NOT NULL,
  gpus_used   INTEGER NOT NULL,
  cpus        INTEGER NOT NULL,
  cpus_used   INTEGER NOT NULL,
  mem_mb      INTEGER NOT NULL,
  mem_used_mb INTEGER NOT NULL,
  PRIMARY KEY (name, until_ms)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER job_changed AFTER UPDATE OF changed_ms ON jobs WHEN old.changed_ms < new.changed_ms BEGIN
  INSERT OR IGNORE INTO job_changes VALUES (
    old.job, new.changed_ms, old.tasks, old.task_count, old.partition, old.state, old.reason, old.priority, old.nice, old.site_factor, old.site_factor_known,
    old.restarts, old.cpus, old.mem_mb, old.gpu_type, old.features, old.node_list, old.time_limit_ms, old.submit_ms, old.eligible_ms, old.start_ms
  );
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER node_changed AFTER UPDATE OF changed_ms ON nodes WHEN old.changed_ms < new.changed_ms BEGIN
  INSERT OR IGNORE INTO node_changes VALUES (
    old.name, new.changed_ms, old.changed_ms, old.usable, old.state, old.features, old.gpus, old.gpus_used, old.cpus, old.cpus_used, old.mem_mb, old.mem_used_mb
  );
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER node_dropped AFTER DELETE ON nodes BEGIN
  DELETE FROM node_changes WHERE name = old.name;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER node_dropped;
DROP TRIGGER node_changed;
DROP TRIGGER job_changed;
DROP TABLE node_changes;
DROP TABLE job_changes;
