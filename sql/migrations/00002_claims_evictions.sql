-- The journal of preemption: a claim is one TE job's demand for a place, an
-- eviction one victim's one run that makes room. A row comes before its command.
-- Units as in the first migration; cost is in GPU-seconds of work lost.

-- +goose Up
CREATE TABLE claims (
  claim      INTEGER PRIMARY KEY,
  job        INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
  cycle      INTEGER NOT NULL,
  state      TEXT    NOT NULL, -- planned, holding, started, released
  reason     TEXT    NOT NULL,
  node_list  TEXT    NOT NULL, -- where the place is, as a host list
  at_ms      INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX claims_by_job ON claims (job);

CREATE TABLE evictions (
  eviction      INTEGER PRIMARY KEY,
  claim         INTEGER NOT NULL REFERENCES claims (claim) ON DELETE CASCADE,
  job           INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
  start_ms      INTEGER NOT NULL, -- with restarts: the run that is evicted
  restarts      INTEGER NOT NULL,
  gpus          INTEGER NOT NULL,
  signal        TEXT    NOT NULL,
  grace_ms      INTEGER NOT NULL, -- a duration
  eligible_ms   INTEGER NOT NULL, -- to be restored after the requeue
  cost_promised REAL    NOT NULL,
  cost_paid     REAL    NOT NULL,
  state         TEXT    NOT NULL, -- recorded, signalled, left, requeued, restored, done, called-off
  reason        TEXT    NOT NULL,
  recorded_ms   INTEGER NOT NULL,
  signalled_ms  INTEGER NOT NULL,
  left_ms       INTEGER NOT NULL,
  requeued_ms   INTEGER NOT NULL,
  ended_ms      INTEGER NOT NULL  -- done or called off
) STRICT;
CREATE INDEX evictions_by_claim ON evictions (claim);
CREATE INDEX evictions_by_job ON evictions (job);
CREATE INDEX evictions_open ON evictions (eviction) WHERE ended_ms = 0;

-- +goose Down
DROP TABLE evictions;
DROP TABLE claims;
