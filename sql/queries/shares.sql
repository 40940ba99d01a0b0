-- What allocation and speeds need.

-- name: PutShare :exec
INSERT INTO shares (job, cycle, at_ms, given_ms, since_ms, priority, types, notes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job) DO UPDATE SET
  cycle = excluded.cycle, at_ms = excluded.at_ms, given_ms = excluded.given_ms, since_ms = excluded.since_ms,
  priority = excluded.priority, types = excluded.types, notes = excluded.notes;

-- name: DropShare :exec
DELETE FROM shares WHERE job = ?;

-- name: ShareOfJob :one
SELECT * FROM shares WHERE job = ?;

-- name: SharesInQueue :many
SELECT j.id, j.task, j.user, j.submit_ms, j.first_submit_ms, sqlc.embed(s)
FROM shares AS s JOIN jobs AS j ON j.job = s.job WHERE j.left_ms = 0 ORDER BY s.job;

-- name: SharedInQueue :many
-- The rows of the jobs in the queue that have a share.
SELECT s.job FROM shares AS s JOIN jobs AS j ON j.job = s.job WHERE j.left_ms = 0;

-- name: IntervalsOfShares :many
-- The stays on GPUs of the jobs in the queue that have a share.
SELECT j.id, j.task, sqlc.embed(i) FROM shares AS s JOIN jobs AS j ON j.job = s.job JOIN intervals AS i ON i.job = j.job
WHERE j.left_ms = 0 ORDER BY i.job, i.start_ms;

-- name: PutStay :exec
INSERT INTO stays (raw_id, start_ms, end_ms, state, gpu_type, gpus, user, name, tag, steps, node_list, limit_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (raw_id, start_ms) DO UPDATE SET
  end_ms = excluded.end_ms, state = excluded.state, gpu_type = excluded.gpu_type, gpus = excluded.gpus,
  user = excluded.user, name = excluded.name, tag = excluded.tag, steps = excluded.steps,
  node_list = excluded.node_list, limit_s = excluded.limit_s;

-- name: AllStays :many
SELECT * FROM stays WHERE end_ms >= sqlc.arg(since_ms) ORDER BY raw_id, start_ms;

-- name: LatestStays :many
-- The last runs that ended, of one user or ('') of all.
SELECT * FROM stays WHERE sqlc.arg(user) = '' OR user = sqlc.arg(user) ORDER BY end_ms DESC LIMIT sqlc.arg(most);

-- name: PruneStays :execrows
DELETE FROM stays WHERE (raw_id, start_ms) IN (
  SELECT s.raw_id, s.start_ms FROM stays AS s WHERE s.end_ms < sqlc.arg(before_ms) LIMIT sqlc.arg(most)
);

-- name: LastLesson :one
SELECT * FROM lessons WHERE lesson = 1;

-- name: PutLesson :exec
INSERT INTO lessons (lesson, read_ms, at_ms, runs, body) VALUES (1, 0, ?, ?, ?)
ON CONFLICT (lesson) DO UPDATE SET at_ms = excluded.at_ms, runs = excluded.runs, body = excluded.body;

-- name: ReadUntil :exec
INSERT INTO lessons (lesson, read_ms, at_ms, runs, body) VALUES (1, ?, 0, 0, '')
ON CONFLICT (lesson) DO UPDATE SET read_ms = excluded.read_ms;

-- name: DropPrograms :exec
DELETE FROM lesson_programs;

-- name: AddProgram :exec
INSERT INTO lesson_programs (workload, user, name, gpus, unit, body) VALUES (?, ?, ?, ?, ?, ?);

-- name: AllPrograms :many
SELECT * FROM lesson_programs;

-- name: ProgramOf :many
SELECT * FROM lesson_programs WHERE workload = ? AND user = ? AND name = ? AND gpus = ?;

-- name: TypesGivenSince :many
-- Completed runs that ended since a time, of jobs that were given a GPU type, with the speeds that it was given by. A job that
-- left the queue and came back has several rows of jobs; its last one comes last.
SELECT s.raw_id, s.user, s.name, s.tag, s.gpus, s.gpu_type, s.start_ms, s.end_ms, h.types, d.choices
FROM stays AS s JOIN jobs AS j ON j.raw_id = s.raw_id AND j.user = s.user JOIN shares AS h ON h.job = j.job
  JOIN decisions AS d ON d.decision = (SELECT max(x.decision) FROM decisions AS x WHERE x.job = j.job)
WHERE s.end_ms >= sqlc.arg(since_ms) AND s.state = 'COMPLETED' AND s.gpu_type != '' AND d.choices LIKE '%"gpu_type":"%'
ORDER BY s.end_ms, s.raw_id, s.start_ms, j.job;
