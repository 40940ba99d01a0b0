-- What people ask for.

-- name: LatestJob :one
SELECT * FROM jobs WHERE id = ? AND task = ? ORDER BY job DESC LIMIT 1;

-- name: TasksOf :many
-- Tasks with a record of their own, latest first.
SELECT task FROM jobs WHERE id = sqlc.arg(id) ORDER BY job DESC LIMIT sqlc.arg(most);

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
