-- What a starting priod reads back.

-- name: LastCycle :one
SELECT * FROM cycles ORDER BY cycle DESC LIMIT 1;

-- name: LastKeys :one
SELECT
  CAST((SELECT coalesce(max(job), 0) FROM jobs) AS INTEGER) AS job,
  CAST((SELECT coalesce(max(cycle), 0) FROM cycles) AS INTEGER) AS cycle,
  CAST((SELECT coalesce(max(write), 0) FROM writes) AS INTEGER) AS write,
  CAST(coalesce((SELECT c.until_ms FROM cycles AS c ORDER BY c.cycle DESC LIMIT 1), 0) AS INTEGER) AS until_ms;

-- name: JobsInQueue :many
SELECT * FROM jobs WHERE left_ms = 0 ORDER BY job;

-- name: DecisionsInQueue :many
SELECT d.* FROM jobs AS j
JOIN decisions AS d ON d.decision = (SELECT max(x.decision) FROM decisions AS x WHERE x.job = j.job)
WHERE j.left_ms = 0 ORDER BY j.job;

-- name: AllHistory :many
SELECT * FROM history;

-- name: AllNodes :many
SELECT * FROM nodes ORDER BY name;

-- name: OpenIntervals :many
SELECT j.id, j.task, sqlc.embed(i) FROM intervals AS i JOIN jobs AS j ON j.job = i.job
WHERE i.closed = 0 ORDER BY i.job;

-- name: ClosedIntervals :many
SELECT j.id, j.task, sqlc.embed(i) FROM intervals AS i JOIN jobs AS j ON j.job = i.job
WHERE i.closed = 1 AND i.end_ms > sqlc.arg(since_ms) ORDER BY i.end_ms;

-- name: PlannedWrites :many
SELECT j.id, j.task AS job_task, sqlc.embed(w) FROM writes AS w JOIN jobs AS j ON j.job = w.job
WHERE w.status = 'planned' ORDER BY w.write;

-- name: RequestWrites :many
-- What was written into the requests of jobs in the queue, the earliest first.
SELECT j.id, j.task AS job_task, sqlc.embed(w) FROM writes AS w JOIN jobs AS j ON j.job = w.job
WHERE j.left_ms = 0 AND w.lever NOT IN ('SiteFactor', 'Nice', 'Priority', 'release') ORDER BY w.write;

-- name: LastEvictionKeys :one
SELECT
  CAST((SELECT coalesce(max(claim), 0) FROM claims) AS INTEGER) AS claim,
  CAST((SELECT coalesce(max(eviction), 0) FROM evictions) AS INTEGER) AS eviction;

-- name: ClaimsAfter :many
-- Open claims, those whose job still names its place or whose victims are not back, and
-- those that ended after a time.
SELECT j.id, j.task, j.user, sqlc.embed(c) FROM claims AS c JOIN jobs AS j ON j.job = c.job
WHERE c.ended_ms = 0 OR c.pin <> '' OR c.resv <> '' OR c.ended_ms > sqlc.arg(since_ms)
OR c.claim IN (SELECT e.claim FROM evictions AS e WHERE e.ended_ms = 0) ORDER BY c.claim;

-- name: EvictionsAfter :many
-- Open evictions, and those that ended after a time.
SELECT j.id, j.task, j.user, sqlc.embed(e) FROM evictions AS e JOIN jobs AS j ON j.job = e.job
WHERE e.ended_ms = 0 OR e.ended_ms > sqlc.arg(since_ms) ORDER BY e.eviction;

-- name: TimesEvicted :many
-- How often each job in the queue, or evicted after a time, was told to leave.
SELECT j.id, j.task, count(*) AS times FROM evictions AS e JOIN jobs AS j ON j.job = e.job
WHERE e.signalled_ms > 0 AND (j.left_ms = 0 OR EXISTS (
  SELECT 1 FROM evictions AS o WHERE o.job = e.job AND (o.ended_ms = 0 OR o.ended_ms > sqlc.arg(since_ms))
))
GROUP BY j.job;

-- name: EvictionTurn :one
-- The last turn of a file that the database has.
SELECT turn FROM eviction_turns WHERE journal = sqlc.arg(journal);
