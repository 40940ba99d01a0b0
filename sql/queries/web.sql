-- What the pages show beside what people ask for by verbs.

-- name: PendingPage :many
-- Some of the waiting jobs in the order of their priorities, of one user or ('') of all.
SELECT * FROM jobs WHERE job IN (
  SELECT q.job FROM jobs AS q
  WHERE q.left_ms = 0 AND q.state = 'pending' AND (CAST(sqlc.arg(user) AS TEXT) = '' OR q.user = CAST(sqlc.arg(user) AS TEXT))
  ORDER BY q.priority DESC, q.id, q.task LIMIT sqlc.arg(most) OFFSET sqlc.arg(skip)
) ORDER BY priority DESC, id, task;

-- name: CountPending :one
SELECT count(*) FROM jobs
WHERE left_ms = 0 AND state = 'pending' AND (CAST(sqlc.arg(user) AS TEXT) = '' OR user = CAST(sqlc.arg(user) AS TEXT));

-- name: LastDecision :one
SELECT * FROM decisions WHERE job = ? ORDER BY decision DESC LIMIT 1;

-- name: Holders :many
-- The jobs that hold nodes.
SELECT id, task, user, account, gpus, node_list, start_ms, time_limit_ms, tag FROM jobs
WHERE left_ms = 0 AND state != 'pending' AND node_list != '' ORDER BY job;

-- name: StaysOverlapping :many
-- The stays on GPUs that had not ended at a time.
SELECT i.gpu_type, i.gpus, i.start_ms, i.end_ms, i.closed FROM intervals AS i
WHERE i.closed = 0 OR i.closed = 1 AND i.end_ms > sqlc.arg(since_ms);

-- name: FirstStarts :many
-- The first runs that began since a time, with when their jobs were submitted.
SELECT i.class, i.start_ms, j.first_submit_ms FROM intervals AS i JOIN jobs AS j ON j.job = i.job
WHERE i.start_ms > sqlc.arg(since_ms) AND i.restarts = 0;

-- name: WritesByTime :many
SELECT CAST(at_ms / CAST(sqlc.arg(bin_ms) AS INTEGER) AS INTEGER) AS bin, count(*) AS writes FROM writes
WHERE at_ms > sqlc.arg(since_ms) GROUP BY bin ORDER BY bin;

-- name: EvictionsByTime :many
SELECT CAST(recorded_ms / CAST(sqlc.arg(bin_ms) AS INTEGER) AS INTEGER) AS bin, count(*) AS evictions FROM evictions
WHERE recorded_ms > sqlc.arg(since_ms) GROUP BY bin ORDER BY bin;

-- name: SharesPage :many
-- Some of the jobs that the allocation counts, those that are owed most first.
SELECT j.id, j.task, j.user, j.account, sqlc.embed(s)
FROM shares AS s JOIN jobs AS j ON j.job = s.job WHERE j.left_ms = 0 ORDER BY s.priority DESC, s.job LIMIT sqlc.arg(most) OFFSET sqlc.arg(skip);

-- name: CountShares :one
SELECT count(*) FROM shares AS s JOIN jobs AS j ON j.job = s.job WHERE j.left_ms = 0;

-- name: DropFindings :exec
DELETE FROM findings;

-- name: AddFinding :exec
INSERT INTO findings (finding, at_ms, level, name, words, fix) VALUES (?, ?, ?, ?, ?, ?);

-- name: AllFindings :many
SELECT * FROM findings ORDER BY finding;

-- name: PutStart :exec
INSERT OR REPLACE INTO starts (job, at_ms, start_ms, median_ms, p90_ms, least_ms, most_ms) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: AddPromise :exec
INSERT OR IGNORE INTO promises (job, at_ms, limits_ms, median_ms, p90_ms, raw_ms) VALUES (?, ?, ?, ?, ?, ?);

-- name: PromisesSince :many
-- What was first said of jobs since a time, and when each started, in whole seconds; by accounting where its run was too short for a cycle to see; 0: not yet.
SELECT p.at_ms, p.limits_ms, p.median_ms, p.p90_ms, p.raw_ms, j.id, j.task, j.user, j.account, j.partition, j.gpus, j.left_ms,
  CAST(coalesce((SELECT min(i.start_ms) FROM intervals AS i WHERE i.job = p.job AND i.start_ms > p.at_ms - 1000),
    (SELECT min(s.start_ms) FROM stays AS s WHERE s.raw_id = j.raw_id AND s.user = j.user AND s.start_ms > p.at_ms - 1000), 0) AS INTEGER) AS began_ms
FROM promises AS p JOIN jobs AS j ON j.job = p.job WHERE p.at_ms >= sqlc.arg(since_ms) ORDER BY p.at_ms, p.job;

-- name: DropStart :exec
DELETE FROM starts WHERE job = ?;

-- name: AllStarts :many
SELECT * FROM starts;

-- name: StartOf :one
SELECT * FROM starts WHERE job = ?;

-- name: HeldCycles :many
-- Since when and until when rows of cycles stand, and whether nothing was written in them.
SELECT at_ms, until_ms, CAST(hold != '' AS INTEGER) AS held FROM cycles WHERE until_ms >= sqlc.arg(since_ms) ORDER BY at_ms, cycle;
