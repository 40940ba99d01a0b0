-- What priod saw, what it decided and what it wrote.
--
-- Every column that ends in _ms and is a point in time is UTC, in milliseconds
-- since 1970; 0 means never or not set. Text from users is stored as it came.
-- The database needs auto_vacuum=incremental, which store.Open sets before this runs.

-- +goose Up

-- One row for each job, or record of an array, from its first sighting until it
-- leaves the queue. Slurm uses job ids again, so other tables name the row.
CREATE TABLE jobs (
  job             INTEGER PRIMARY KEY, -- priod's own number
  id              INTEGER NOT NULL,    -- Slurm's JobID or ArrayJobID
  task            INTEGER NOT NULL,    -- array task; -1: a plain job or an unsplit array
  first_submit_ms INTEGER NOT NULL,    -- SubmitTime at the first sighting; a requeue resets Slurm's
  seen_ms         INTEGER NOT NULL,    -- first sighting
  changed_ms      INTEGER NOT NULL,    -- when the columns below were last written
  left_ms         INTEGER NOT NULL,    -- first poll without it; 0: in the queue
  raw_id          INTEGER NOT NULL,
  tasks           TEXT    NOT NULL,
  task_count      INTEGER NOT NULL,
  het_leader      INTEGER NOT NULL,
  het_offset      INTEGER NOT NULL,
  user            TEXT    NOT NULL,
  account         TEXT    NOT NULL,
  partition       TEXT    NOT NULL,
  qos             TEXT    NOT NULL,
  reservation     TEXT    NOT NULL,
  state           TEXT    NOT NULL,    -- as cluster.State says it
  reason          TEXT    NOT NULL,
  priority        INTEGER NOT NULL,    -- at changed_ms; a change of it alone is not written
  nice            INTEGER NOT NULL,
  site_factor     INTEGER NOT NULL,
  site_factor_known INTEGER NOT NULL,
  restarts        INTEGER NOT NULL,
  nodes           INTEGER NOT NULL,
  cpus            INTEGER NOT NULL,
  mem_mb          INTEGER NOT NULL,
  gpus            INTEGER NOT NULL,
  gpu_type        TEXT    NOT NULL,
  features        TEXT    NOT NULL,
  prefer          TEXT    NOT NULL,
  node_list       TEXT    NOT NULL,
  time_limit_ms   INTEGER NOT NULL,    -- -1: unlimited
  submit_ms       INTEGER NOT NULL,
  eligible_ms     INTEGER NOT NULL,
  start_ms        INTEGER NOT NULL,    -- 0 while pending: Slurm's estimates are not kept
  dependency      INTEGER NOT NULL,
  tag             TEXT    NOT NULL,    -- its own text; '' when it does not count
  tag_error       TEXT    NOT NULL
) STRICT;
CREATE INDEX jobs_by_id ON jobs (id, task, job);
CREATE INDEX jobs_by_left ON jobs (left_ms);

-- The nodes as they are now.
CREATE TABLE nodes (
  name        TEXT    PRIMARY KEY,
  changed_ms  INTEGER NOT NULL,
  usable      INTEGER NOT NULL,
  state       TEXT    NOT NULL,
  features    TEXT    NOT NULL, -- comma-separated
  gpu_type    TEXT    NOT NULL,
  gpus        INTEGER NOT NULL,
  gpus_used   INTEGER NOT NULL,
  cpus        INTEGER NOT NULL,
  cpus_used   INTEGER NOT NULL,
  mem_mb      INTEGER NOT NULL,
  mem_used_mb INTEGER NOT NULL,
  mixed_types INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each stay of a job on GPUs of one type.
CREATE TABLE intervals (
  job      INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
  start_ms INTEGER NOT NULL,
  end_ms   INTEGER NOT NULL, -- last seen running; while running, the last cycle's until_ms if later
  running  INTEGER NOT NULL, -- 0 while suspended and once closed
  closed   INTEGER NOT NULL,
  gpu_type TEXT    NOT NULL,
  gpus     INTEGER NOT NULL,
  user     TEXT    NOT NULL,
  account  TEXT    NOT NULL,
  class    TEXT    NOT NULL, -- te or be, as it counted when it started
  restarts INTEGER NOT NULL,
  PRIMARY KEY (job, start_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX intervals_by_end ON intervals (closed, end_ms);

-- One row for each cycle in which something changed, and for the quiet cycles
-- that followed it.
CREATE TABLE cycles (
  cycle      INTEGER PRIMARY KEY,
  at_ms      INTEGER NOT NULL, -- first poll of the row
  until_ms   INTEGER NOT NULL, -- last poll of the row
  polls      INTEGER NOT NULL, -- cycles that the row stands for
  cluster    TEXT    NOT NULL,
  mode       TEXT    NOT NULL, -- the lever in use
  band_lo    INTEGER NOT NULL,
  band_hi    INTEGER NOT NULL,
  band_step  INTEGER NOT NULL,
  span       INTEGER NOT NULL, -- largest difference that Slurm's own factors make
  jobs       INTEGER NOT NULL,
  pending    INTEGER NOT NULL,
  running    INTEGER NOT NULL,
  nodes      INTEGER NOT NULL,
  ranked     INTEGER NOT NULL,
  te         INTEGER NOT NULL, -- ranked jobs that count as TE
  actions    INTEGER NOT NULL, -- writes in the plan
  renumbered INTEGER NOT NULL, -- writes beyond the fewest possible
  hold       TEXT    NOT NULL, -- why nothing was written; '' when the actions followed
  notes      TEXT    NOT NULL  -- JSON array of strings
) STRICT;

-- A row when a decision about a job changes; its last row is what holds.
CREATE TABLE decisions (
  decision     INTEGER PRIMARY KEY,
  job          INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
  cycle        INTEGER NOT NULL,
  at_ms        INTEGER NOT NULL,
  class        TEXT    NOT NULL,
  ranked       INTEGER NOT NULL,
  value        INTEGER NOT NULL,
  own_priority INTEGER NOT NULL, -- at at_ms
  why          TEXT    NOT NULL,
  detail       TEXT    NOT NULL,
  since_ms     INTEGER NOT NULL,
  unmoved      TEXT    NOT NULL
) STRICT;
CREATE INDEX decisions_by_job ON decisions (job, decision);

-- A row for each write, before it goes to Slurm.
CREATE TABLE writes (
  write     INTEGER PRIMARY KEY,
  job       INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
  cycle     INTEGER NOT NULL,
  at_ms     INTEGER NOT NULL,
  tasks     TEXT    NOT NULL,
  part      INTEGER NOT NULL, -- tasks are only some of the record's
  lever     TEXT    NOT NULL,
  before    TEXT    NOT NULL,
  after     TEXT    NOT NULL,
  user_nice TEXT    NOT NULL,
  reason    TEXT    NOT NULL,
  status    TEXT    NOT NULL, -- planned until the outcome is known
  message   TEXT    NOT NULL
) STRICT;
CREATE INDEX writes_by_job ON writes (job, write);
CREATE INDEX writes_planned ON writes (write) WHERE status = 'planned';

-- What cluster.History holds of the jobs in the queue. Rows go when it forgets
-- the job, so an id that Slurm uses again meets nothing of its namesake.
CREATE TABLE history (
  id                INTEGER NOT NULL,
  task              INTEGER NOT NULL,
  first_eligible_ms INTEGER NOT NULL,
  counted           TEXT    NOT NULL, -- '': never ranked
  lever             TEXT    NOT NULL, -- '': never written
  value             INTEGER NOT NULL,
  tried             INTEGER NOT NULL,
  original          INTEGER NOT NULL,
  written_ms        INTEGER NOT NULL,
  reverts           INTEGER NOT NULL,
  PRIMARY KEY (id, task)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE history;
DROP TABLE writes;
DROP TABLE decisions;
DROP TABLE cycles;
DROP TABLE intervals;
DROP TABLE nodes;
DROP TABLE jobs;
