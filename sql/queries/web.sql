-- What the pages show beside what people ask for by verbs.

-- name: PendingPage :many
-- Some of the waiting jobs in the order of their priorities, of one user or ('') of all.
SELECT * FROM jobs WHERE job IN (
  SELECT q.job FROM jobs AS q
  WHERE q.left_ms = 0 AND q.state = 'pending' AND (CAST(sqlc.arg(user) AS TEXT) = '' OR q.user = CAST(sqlc.arg(user) AS TEXT))
  ORDER BY q.priority DESC, q.id, q.task LIMIT sqlc.arg(most) OFFSET sqlc.arg(skip)
) ORDER BY priority DESC, id, task;

-- name: PendingRow :one
SELECT * FROM jobs WHERE job = ?;

-- name: PendingKeys :many
-- By what the queue is filtered: of each waiting job, in the order of their priorities.
SELECT j.job, j.user, j.account, j.partition, j.gpu_type, j.gpus,
  CAST(coalesce((SELECT iif(d.ranked, d.class, '-') FROM decisions AS d WHERE d.job = j.job ORDER BY d.decision DESC LIMIT 1), '-') AS TEXT) AS class,
  CAST(coalesce((SELECT json_extract(w.spans, '$[#-1][2]') FROM waits AS w WHERE w.id = j.id AND w.task = j.task AND w.until_ms = 0 ORDER BY w.submit_ms DESC LIMIT 1), '') AS TEXT) AS cause,
  CAST(coalesce(s.median_ms, 0) AS INTEGER) AS median_ms
FROM jobs AS j LEFT JOIN starts AS s ON s.job = j.job
WHERE j.left_ms = 0 AND j.state = 'pending' ORDER BY j.priority DESC, j.id, j.task;

-- name: CountPending :one
SELECT count(*) FROM jobs
WHERE left_ms = 0 AND state = 'pending' AND (CAST(sqlc.arg(user) AS TEXT) = '' OR user = CAST(sqlc.arg(user) AS TEXT));

-- name: LastDecision :one
SELECT * FROM decisions WHERE job = ? ORDER BY decision DESC LIMIT 1;

-- name: Holders :many
-- The jobs that hold nodes, with the class of their run, when it is expected to end, and the limit that priod last wrote for a reason; '' and 0: not known.
SELECT j.id, j.task, j.user, j.account, j.partition, j.gpus, j.gpu_type, j.node_list, j.start_ms, j.time_limit_ms, j.tag,
  CAST(coalesce((SELECT i.class FROM intervals AS i WHERE i.job = j.job AND i.closed = 0 ORDER BY i.start_ms DESC LIMIT 1), '') AS TEXT) AS class,
  CAST(coalesce(e.median_ms, 0) AS INTEGER) AS median_ms, CAST(coalesce(e.p90_ms, 0) AS INTEGER) AS p90_ms,
  CAST(coalesce((SELECT iif(w.reason = sqlc.arg(reason), w.after, '') FROM writes AS w WHERE w.job = j.job AND w.lever = 'TimeLimit' ORDER BY w.write DESC LIMIT 1), '') AS TEXT) AS written_limit
FROM jobs AS j LEFT JOIN ends AS e ON e.job = j.job
WHERE j.left_ms = 0 AND j.state != 'pending' AND j.node_list != '' ORDER BY j.job;

-- name: StaysOverlapping :many
-- The stays on GPUs that had not ended at a time.
SELECT i.gpu_type, i.gpus, i.user, i.account, i.class, i.start_ms, i.end_ms, i.closed FROM intervals AS i
WHERE i.gpus > 0 AND (i.closed = 0 OR i.closed = 1 AND i.end_ms > sqlc.arg(since_ms));

-- name: FirstStarts :many
-- The first runs that began since a time, with since when their jobs could have.
SELECT i.class, i.start_ms, i.user, i.account, j.first_submit_ms, j.eligible_ms,
  CAST(coalesce((SELECT s.since_ms FROM decisions AS s WHERE s.job = j.job AND s.since_ms > 0 ORDER BY s.decision LIMIT 1), 0) AS INTEGER) AS since_ms
FROM intervals AS i JOIN jobs AS j ON j.job = i.job
WHERE i.start_ms > sqlc.arg(since_ms) AND i.restarts = 0 AND i.gpus > 0;

-- name: WritesByTime :many
SELECT CAST(at_ms / CAST(sqlc.arg(bin_ms) AS INTEGER) AS INTEGER) AS bin, count(*) AS writes FROM writes
WHERE at_ms > sqlc.arg(since_ms) GROUP BY bin ORDER BY bin;

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
INSERT OR REPLACE INTO starts (job, at_ms, start_ms, median_ms, p90_ms, least_ms, most_ms, run_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: AllEnds :many
SELECT * FROM ends;

-- name: PutEnd :exec
INSERT OR REPLACE INTO ends (job, median_ms, p90_ms) VALUES (?, ?, ?);

-- name: DropEnd :exec
DELETE FROM ends WHERE job = ?;

-- name: AddSample :exec
INSERT OR REPLACE INTO samples (at_ms, gpus, gpus_used, gpus_stranded, running, waiting_te, waiting_be, took_ms, causes, slow, reservations,
  gpus_down, gpus_reserved, gpus_idle)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: SamplesSince :many
SELECT * FROM samples WHERE at_ms >= sqlc.arg(since_ms) ORDER BY at_ms;

-- name: LastSample :one
SELECT * FROM samples ORDER BY at_ms DESC LIMIT 1;

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
