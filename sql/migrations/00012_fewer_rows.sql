-- Fewer and shorter rows: what the last decision about a job tells of it needs no row in
-- history, the parts of a wait stand in its own row, and of a share only what differs from type
-- to type.
-- Units as in the first migration.

-- +goose Up
ALTER TABLE decisions ADD COLUMN counted TEXT NOT NULL DEFAULT ''; -- te or be, as the job was last ranked; '': never

-- The parts of a wait, first to last, one cause each; together they are the wait: a JSON array
-- of [from_ms, until_ms (0: it holds), cause, what, words, plan.FitsNow or null].
ALTER TABLE waits ADD COLUMN spans TEXT NOT NULL DEFAULT '[]';
UPDATE waits SET spans = (
  SELECT coalesce(json_group_array(json_array(s.from_ms, s.until_ms, s.cause, s.what, s.words, json(nullif(s.fits, '')))), '[]')
  FROM (
    SELECT * FROM wait_spans AS a WHERE a.id = waits.id AND a.task = waits.task AND a.submit_ms = waits.submit_ms ORDER BY a.from_ms
  ) AS s
);
DROP TABLE wait_spans;

-- shares.types: a JSON array of [GPU type, speed, source, within_factor, runs, time_fraction or
-- null, received_fraction, received_s, promised_s, owed_s, run_s or null].
UPDATE shares SET types = (
  SELECT json_group_array(json_array(
    t.value ->> 'gpu_type', coalesce(t.value ->> 'speed', 0), coalesce(t.value ->> 'source', ''), coalesce(t.value ->> 'within_factor', 0),
    coalesce(t.value ->> 'runs', 0), t.value ->> 'time_fraction', coalesce(t.value ->> 'received_fraction', 0), coalesce(t.value ->> 'received_s', 0),
    coalesce(t.value ->> 'promised_s', 0), coalesce(t.value ->> 'owed_s', 0), t.value ->> 'run_s'
  )) FROM json_each(shares.types) AS t
);

-- +goose Down
UPDATE shares SET types = (
  SELECT json_group_array(json_object(
    'gpu_type', t.value ->> 0, 'speed', t.value ->> 1, 'source', t.value ->> 2, 'within_factor', t.value ->> 3, 'runs', t.value ->> 4,
    'time_fraction', t.value ->> 5, 'received_fraction', t.value ->> 6, 'received_s', t.value ->> 7, 'promised_s', t.value ->> 8,
    'owed_s', t.value ->> 9, 'run_s', t.value ->> 10
  )) FROM json_each(shares.types) AS t
);
CREATE TABLE wait_spans (
  id        INTEGER NOT NULL,
  task      INTEGER NOT NULL,
  submit_ms INTEGER NOT NULL,
  from_ms   INTEGER NOT NULL,
  until_ms  INTEGER NOT NULL,
  cause     TEXT    NOT NULL,
  what      TEXT    NOT NULL,
  words     TEXT    NOT NULL,
  fits      TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (id, task, submit_ms, from_ms),
  FOREIGN KEY (id, task, submit_ms) REFERENCES waits (id, task, submit_ms) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO wait_spans
SELECT w.id, w.task, w.submit_ms, s.value ->> 0, s.value ->> 1, s.value ->> 2, s.value ->> 3, s.value ->> 4, coalesce(s.value -> 5, '')
FROM waits AS w, json_each(w.spans) AS s;
ALTER TABLE waits DROP COLUMN spans;
INSERT INTO history
SELECT j.id, j.task, d.since_ms, d.counted, '', 0, 0, 0, 0, 0
FROM jobs AS j JOIN decisions AS d ON d.decision = (SELECT max(x.decision) FROM decisions AS x WHERE x.job = j.job) WHERE j.left_ms = 0
ON CONFLICT (id, task) DO NOTHING;
ALTER TABLE decisions DROP COLUMN counted;
