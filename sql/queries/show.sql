-- What people ask for.

-- name: LatestJob :one
SELECT * FROM jobs WHERE id = ? AND task = ? ORDER BY job DESC LIMIT 1;

-- name: TasksOf :many
-- Tasks of an array with a record of their own, latest first.
SELECT task, user, state, left_ms FROM jobs WHERE id = sqlc.arg(id) AND task >= 0 ORDER BY job DESC;

-- name: ComponentOf :one
-- A component of a heterogeneous job.
SELECT id, task FROM jobs WHERE het_leader = ? AND het_offset = ? ORDER BY job DESC LIMIT 1;

-- name: DecisionsOfJob :many
SELECT * FROM decisions WHERE job = sqlc.arg(job) ORDER BY decision DESC LIMIT sqlc.arg(most);

-- name: WritesOfJob :many
SELECT * FROM writes WHERE job = sqlc.arg(job) ORDER BY write DESC LIMIT sqlc.arg(most);

-- name: IntervalsOfJob :many
SELECT * FROM intervals WHERE job = sqlc.arg(job) ORDER BY start_ms DESC LIMIT sqlc.arg(most);

-- name: HistoryOf :one
SELECT * FROM history WHERE id = ? AND task = ?;

-- name: RecentCycles :many
SELECT * FROM cycles ORDER BY cycle DESC LIMIT sqlc.arg(most);

-- name: RecentWrites :many
SELECT j.id, j.task AS job_task, j.user, sqlc.embed(w) FROM writes AS w JOIN jobs AS j ON j.job = w.job
ORDER BY w.write DESC LIMIT sqlc.arg(most);

-- name: RecentEvictions :many
-- Open evictions, and the latest others, each with the jobs on both sides.
SELECT v.id AS victim_id, v.task AS victim_task, v.user AS victim_user, v.account AS victim_account, v.tag AS victim_tag,
  t.id AS te_id, t.task AS te_task, t.user AS te_user, t.account AS te_account, sqlc.embed(e), sqlc.embed(c)
FROM evictions AS e JOIN claims AS c ON c.claim = e.claim JOIN jobs AS v ON v.job = e.job JOIN jobs AS t ON t.job = c.job
ORDER BY e.ended_ms = 0 DESC, e.eviction DESC LIMIT sqlc.arg(most);

-- name: EvictionsOfJob :many
-- Those of the job's own runs, and those on its behalf; of an array, -1, those of its tasks.
SELECT v.id AS victim_id, v.task AS victim_task, v.user AS victim_user, v.account AS victim_account, v.tag AS victim_tag,
  t.id AS te_id, t.task AS te_task, t.user AS te_user, t.account AS te_account, sqlc.embed(e), sqlc.embed(c)
FROM evictions AS e JOIN claims AS c ON c.claim = e.claim JOIN jobs AS v ON v.job = e.job JOIN jobs AS t ON t.job = c.job
WHERE v.id = sqlc.arg(id) AND (v.task = sqlc.arg(task) OR sqlc.arg(task) = -1)
  OR t.id = sqlc.arg(id) AND (t.task = sqlc.arg(task) OR sqlc.arg(task) = -1)
ORDER BY e.eviction DESC LIMIT sqlc.arg(most);

-- name: JobsSince :many
-- GPU jobs submitted since a time, each with its stays on GPUs summed up.
SELECT j.job, j.id, j.task, j.task_count, j.tag, j.first_submit_ms, j.eligible_ms, j.left_ms,
  CAST(coalesce((SELECT s.since_ms FROM decisions AS s WHERE s.job = j.job AND s.since_ms > 0 ORDER BY s.decision LIMIT 1), 0) AS INTEGER) AS since_ms,
  CAST(coalesce(min(i.start_ms), 0) AS INTEGER) AS start_ms, CAST(coalesce(max(i.end_ms), 0) AS INTEGER) AS end_ms,
  CAST(coalesce(max(i.start_ms), 0) AS INTEGER) AS last_ms,
  CAST(coalesce(sum(i.end_ms - i.start_ms), 0) AS INTEGER) AS ran_ms, CAST(coalesce(min(i.class), '') AS TEXT) AS class,
  j.user, j.account, j.gpus, j.time_limit_ms, CAST(coalesce(d.why, '') AS TEXT) AS why, CAST(coalesce(d.detail, '') AS TEXT) AS detail, CAST(coalesce(d.choices, '') AS TEXT) AS choices
FROM jobs AS j LEFT JOIN intervals AS i ON i.job = j.job
  LEFT JOIN decisions AS d ON d.decision = (SELECT max(x.decision) FROM decisions AS x WHERE x.job = j.job)
WHERE j.first_submit_ms >= sqlc.arg(since_ms) AND j.gpus > 0
GROUP BY j.job ORDER BY j.job;

-- name: EvictionsSince :many
-- Those recorded since a time, first to last, each with the jobs on both sides.
SELECT v.id AS victim_id, v.task AS victim_task, v.user AS victim_user, v.account AS victim_account, v.tag AS victim_tag,
  t.id AS te_id, t.task AS te_task, t.user AS te_user, t.account AS te_account, sqlc.embed(e), sqlc.embed(c)
FROM evictions AS e JOIN claims AS c ON c.claim = e.claim JOIN jobs AS v ON v.job = e.job JOIN jobs AS t ON t.job = c.job
WHERE e.recorded_ms >= sqlc.arg(since_ms)
ORDER BY e.eviction;

-- name: RankedBefore :many
-- How many waiting jobs of each class priod ranks, and how many of them above a value.
SELECT d.class, count(*) AS jobs, count(CASE WHEN d.value > CAST(sqlc.arg(value) AS INTEGER) THEN 1 END) AS ahead
FROM jobs AS j JOIN decisions AS d ON d.decision = (SELECT max(x.decision) FROM decisions AS x WHERE x.job = j.job)
WHERE j.left_ms = 0 AND j.state = 'pending' AND d.ranked != 0
GROUP BY d.class;

-- name: SizeWrites :many
-- The sizes that priod wrote since a time, the first of each job first.
SELECT j.id, j.task AS job_task, sqlc.embed(w) FROM writes AS w JOIN jobs AS j ON j.job = w.job
WHERE w.lever = 'Size' AND w.status = 'applied' AND w.at_ms >= sqlc.arg(since_ms) ORDER BY w.write;
