-- Why jobs waited.

-- name: PutWait :exec
INSERT INTO waits (id, task, submit_ms, until_ms, ended, user, account, partition, gpu_type, gpus, tasks, pool, pool_gpus, room_ms, torn_ms, spans) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id, task, submit_ms) DO UPDATE SET
  until_ms = excluded.until_ms, ended = excluded.ended, user = excluded.user, account = excluded.account,
  partition = excluded.partition, gpu_type = excluded.gpu_type, gpus = excluded.gpus, tasks = excluded.tasks, pool = excluded.pool, pool_gpus = excluded.pool_gpus,
  room_ms = excluded.room_ms, torn_ms = excluded.torn_ms, spans = excluded.spans;

-- name: OpenWaits :many
SELECT * FROM waits WHERE until_ms = 0 ORDER BY id, task, submit_ms;

-- name: LastLook :one
SELECT CAST(coalesce(max(until_ms), 0) AS INTEGER) AS at_ms FROM cycles;

-- name: WaitsOfJob :many
SELECT * FROM waits WHERE id = ? AND task = ? AND submit_ms >= sqlc.arg(since_ms) ORDER BY submit_ms DESC LIMIT sqlc.arg(most);

-- name: WaitsSince :many
-- Waits within a time, by job and cause; a wait that went on counts up to now.
-- Lengths are of each task, times tasks.
SELECT x.user, x.account, x.partition, x.gpu_type, x.gpus, CAST(x.cause AS TEXT) AS cause, CAST(x.what AS TEXT) AS what,
  CAST(sum(x.tasks * (CASE WHEN x.until_ms = 0 THEN CAST(sqlc.arg(now_ms) AS INTEGER) ELSE x.until_ms END - max(x.from_ms, CAST(sqlc.arg(since_ms) AS INTEGER)))) AS INTEGER) AS wait_ms
FROM (
  SELECT w.user, w.account, w.partition, w.gpu_type, w.gpus, w.tasks, s.value ->> 0 AS from_ms, s.value ->> 1 AS until_ms, s.value ->> 2 AS cause, s.value ->> 3 AS what
  FROM waits AS w, json_each(w.spans) AS s
  WHERE (w.until_ms = 0 OR w.until_ms > sqlc.arg(since_ms)) AND w.ended != 'split'
) AS x
WHERE x.until_ms = 0 OR x.until_ms > sqlc.arg(since_ms)
GROUP BY x.user, x.account, x.partition, x.gpu_type, x.gpus, x.cause, x.what;

-- name: WaitersSince :many
-- How many jobs waited within a time, and how many of them have started.
SELECT w.user, w.account, w.partition, w.gpu_type, w.gpus, CAST(sum(w.tasks) AS INTEGER) AS jobs,
  CAST(sum(CASE WHEN w.ended = 'started' THEN w.tasks ELSE 0 END) AS INTEGER) AS started
FROM waits AS w WHERE (w.until_ms = 0 OR w.until_ms > sqlc.arg(since_ms)) AND w.ended != 'split'
GROUP BY w.user, w.account, w.partition, w.gpu_type, w.gpus;

-- name: RunsSince :many
-- Jobs that started within a time, with their runs and what of their waits was fragmentation.
SELECT w.id, w.task, w.until_ms AS start_ms, w.room_ms, w.torn_ms, w.user, w.pool, w.pool_gpus, i.gpus, i.end_ms
FROM waits AS w JOIN jobs AS j ON j.id = w.id AND j.task = w.task JOIN intervals AS i ON i.job = j.job AND i.start_ms = w.until_ms
WHERE w.until_ms > sqlc.arg(since_ms) AND w.ended = 'started' AND w.pool != '' AND i.gpus > 0;

-- name: PruneWaits :execrows
DELETE FROM waits WHERE (id, task, submit_ms) IN (
  SELECT w.id, w.task, w.submit_ms FROM waits AS w WHERE w.until_ms > 0 AND w.until_ms < sqlc.arg(before_ms) LIMIT sqlc.arg(most)
);
