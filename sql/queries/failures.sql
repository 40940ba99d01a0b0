-- Runs that failed.

-- name: PutFailure :exec
INSERT INTO failures (failure, id, task, at_ms, class, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (failure) DO UPDATE SET
  id = excluded.id, task = excluded.task, at_ms = excluded.at_ms, class = excluded.class, body = excluded.body;

-- name: PutDrained :exec
INSERT INTO drained (node, at_ms, class) VALUES (?, ?, ?) ON CONFLICT (node, at_ms) DO NOTHING;

-- name: LastFailure :one
-- The last number given, 0 for none.
SELECT CAST(coalesce(max(failure), 0) AS INTEGER) AS failure FROM failures;

-- name: FailuresSince :many
SELECT body FROM failures WHERE at_ms >= sqlc.arg(since_ms) ORDER BY failure;

-- name: FailuresOfJob :many
-- The latest ones of a job, or of any task of an array, last first.
SELECT body FROM failures WHERE id = sqlc.arg(id) AND (task = sqlc.arg(task) OR sqlc.arg(task) = -1)
ORDER BY failure DESC LIMIT sqlc.arg(most);

-- name: DrainedSince :many
SELECT * FROM drained WHERE at_ms >= sqlc.arg(since_ms) ORDER BY at_ms;

-- name: PruneFailures :execrows
DELETE FROM failures WHERE failure IN (
  SELECT f.failure FROM failures AS f WHERE f.at_ms < sqlc.arg(before_ms) ORDER BY f.failure LIMIT sqlc.arg(most)
);

-- name: PruneDrained :execrows
DELETE FROM drained WHERE (node, at_ms) IN (
  SELECT d.node, d.at_ms FROM drained AS d WHERE d.at_ms < sqlc.arg(before_ms) LIMIT sqlc.arg(most)
);

-- name: CountNodes :one
SELECT count(*) FROM nodes;
