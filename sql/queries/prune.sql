-- Retention, in small batches. Each takes the cut-off in ms and the batch's size.

-- name: PruneJobs :execrows
-- Decisions, writes and intervals go with their job, and claims with their evictions:
-- a job stays as long as an eviction of it, or for it, is open.
DELETE FROM jobs WHERE job IN (
  SELECT j.job FROM jobs AS j WHERE j.left_ms > 0 AND j.left_ms < sqlc.arg(before_ms)
  AND j.job NOT IN (
    SELECT e.job FROM evictions AS e WHERE e.ended_ms = 0
    UNION ALL SELECT c.job FROM evictions AS o JOIN claims AS c ON c.claim = o.claim WHERE o.ended_ms = 0
  )
  LIMIT sqlc.arg(most)
);

-- name: PruneIntervals :execrows
DELETE FROM intervals WHERE (job, start_ms) IN (
  SELECT i.job, i.start_ms FROM intervals AS i WHERE i.closed = 1 AND i.end_ms < sqlc.arg(before_ms)
  LIMIT sqlc.arg(most)
);

-- name: PruneWrites :execrows
DELETE FROM writes WHERE write IN (
  SELECT w.write FROM writes AS w WHERE w.at_ms < sqlc.arg(before_ms) ORDER BY w.write LIMIT sqlc.arg(most)
);

-- name: OldDecisions :many
-- Old decisions after the one given, oldest first, and whether a later one replaced it.
SELECT d.decision, EXISTS (SELECT 1 FROM decisions AS x WHERE x.job = d.job AND x.decision > d.decision) AS replaced
FROM decisions AS d WHERE d.decision > sqlc.arg(after) AND d.at_ms < sqlc.arg(before_ms)
ORDER BY d.decision LIMIT sqlc.arg(most);

-- name: DropDecision :exec
DELETE FROM decisions WHERE decision = ?;

-- name: PruneCycles :execrows
DELETE FROM cycles WHERE cycle IN (
  SELECT c.cycle FROM cycles AS c
  WHERE c.until_ms < sqlc.arg(before_ms) AND c.cycle < (SELECT max(m.cycle) FROM cycles AS m)
  ORDER BY c.cycle LIMIT sqlc.arg(most)
);

-- name: PruneSamples :execrows
DELETE FROM samples WHERE at_ms IN (
  SELECT s.at_ms FROM samples AS s WHERE s.at_ms < sqlc.arg(before_ms) ORDER BY s.at_ms LIMIT sqlc.arg(most)
);

-- name: PruneShareHours :execrows
DELETE FROM share_hours WHERE (hour_ms, account) IN (
  SELECT s.hour_ms, s.account FROM share_hours AS s WHERE s.hour_ms < sqlc.arg(before_ms) ORDER BY s.hour_ms LIMIT sqlc.arg(most)
);

-- name: PruneReturns :execrows
DELETE FROM share_returns WHERE (id, task, since_ms) IN (
  SELECT r.id, r.task, r.since_ms FROM share_returns AS r WHERE r.until_ms > 0 AND r.until_ms < sqlc.arg(before_ms) LIMIT sqlc.arg(most)
);

-- name: PruneJobChanges :execrows
-- Of jobs in the queue; those of others go with their job.
DELETE FROM job_changes WHERE (job, until_ms) IN (
  SELECT c.job, c.until_ms FROM jobs AS j JOIN job_changes AS c ON c.job = j.job AND c.until_ms < sqlc.arg(before_ms) WHERE j.left_ms = 0 LIMIT sqlc.arg(most)
);

-- name: PruneNodeChanges :execrows
DELETE FROM node_changes WHERE (name, until_ms) IN (
  SELECT c.name, c.until_ms FROM nodes AS n JOIN node_changes AS c ON c.name = n.name AND c.until_ms < sqlc.arg(before_ms) LIMIT sqlc.arg(most)
);
