-- What the journal of preemption has to tell beyond the second migration: how a
-- claim's place looks, how a victim left, and what that was expected to cost.

-- +goose Up
ALTER TABLE claims ADD COLUMN raw_id    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN gpus      INTEGER NOT NULL DEFAULT 0;    -- that the TE job asks for
ALTER TABLE claims ADD COLUMN shares    TEXT    NOT NULL DEFAULT '[]'; -- the place on each node: JSON array of {node, gpus, cpus, mem_mb}
ALTER TABLE claims ADD COLUMN wait_ms   INTEGER NOT NULL DEFAULT 0;    -- a duration: promised, until the last victim has left
ALTER TABLE claims ADD COLUMN pin       TEXT    NOT NULL DEFAULT '';   -- ReqNodeList that priod wrote into the job; '' none, or taken back
ALTER TABLE claims ADD COLUMN resv      TEXT    NOT NULL DEFAULT '';   -- reservation over the nodes while the place is made; '' none, or deleted
ALTER TABLE claims ADD COLUMN resv_ms   INTEGER NOT NULL DEFAULT 0;    -- it was created
ALTER TABLE claims ADD COLUMN room_ms   INTEGER NOT NULL DEFAULT 0;    -- the last victim had left
ALTER TABLE claims ADD COLUMN ended_ms  INTEGER NOT NULL DEFAULT 0;    -- started (Slurm's own start time) or released
CREATE INDEX claims_open ON claims (claim) WHERE ended_ms = 0;

ALTER TABLE evictions ADD COLUMN raw_id      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evictions ADD COLUMN unsaved_ms  INTEGER NOT NULL DEFAULT 0;  -- a duration: work at risk when recorded
ALTER TABLE evictions ADD COLUMN restart_ms  INTEGER NOT NULL DEFAULT 0;  -- a duration: what starting again is taken to cost
ALTER TABLE evictions ADD COLUMN how         TEXT    NOT NULL DEFAULT ''; -- it left: exited, finished, forced, requeued, ended, forgotten; '' while it is there
ALTER TABLE evictions ADD COLUMN exit_code   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evictions ADD COLUMN exit_signal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evictions ADD COLUMN tries       INTEGER NOT NULL DEFAULT 0;  -- of the command of this state, so far without an answer
ALTER TABLE evictions ADD COLUMN restored_ms INTEGER NOT NULL DEFAULT 0;

-- +goose Down
DROP INDEX claims_open;
ALTER TABLE claims DROP COLUMN raw_id;
ALTER TABLE claims DROP COLUMN gpus;
ALTER TABLE claims DROP COLUMN shares;
ALTER TABLE claims DROP COLUMN wait_ms;
ALTER TABLE claims DROP COLUMN pin;
ALTER TABLE claims DROP COLUMN resv;
ALTER TABLE claims DROP COLUMN resv_ms;
ALTER TABLE claims DROP COLUMN room_ms;
ALTER TABLE claims DROP COLUMN ended_ms;
ALTER TABLE evictions DROP COLUMN raw_id;
ALTER TABLE evictions DROP COLUMN unsaved_ms;
ALTER TABLE evictions DROP COLUMN restart_ms;
ALTER TABLE evictions DROP COLUMN how;
ALTER TABLE evictions DROP COLUMN exit_code;
ALTER TABLE evictions DROP COLUMN exit_signal;
ALTER TABLE evictions DROP COLUMN tries;
ALTER TABLE evictions DROP COLUMN restored_ms;
