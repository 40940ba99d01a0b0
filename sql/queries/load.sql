-- What a starting priod reads back.

-- name: LastCycle :one
SELECT * FROM cycles ORDER BY cycle DESC LIMIT 1;

-- name: LastKeys :one
SELECT
  CAST((SELECT coalesce(max(job), 0) FROM jobs) AS INTEGER) AS job,
  CAST((SELECT coalesce(max(cycle), 0) FROM cycles) AS INTEGER) AS cycle,
  CAST((SELECT coalesce(max(write), 0) FROM writes) AS INTEGER) AS write,
  CAST(coalesce((SELECT c.until_ms FROM cycles AS c ORDER BY c.cycle DESC LIMIT 1), 0) AS INTEGER) AS until_ms,
  CAST(coalesce((SELECT c.journal FROM cycles AS c ORDER BY c.cycle DESC LIMIT 1), 0) AS INTEGER) AS journal,
  CAST(coalesce((SELECT c.polls FROM cycles AS c ORDER BY c.cycle DESC LIMIT 1), 0) AS INTEGER) AS polls;

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

-- name: LastEvictionKeys :one
SELECT
  CAST((SELECT coalesce(max(claim), 0) FROM claims) AS INTEGER) AS claim,
  CAST((SELECT coalesce(max(eviction), 0) FROM evictions) AS INTEGER) AS eviction;

-- name: FirstCycle :one
SELECT at_ms FROM cycles ORDER BY cycle LIMIT 1;
