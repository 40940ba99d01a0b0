-- Times without work of jobs on GPUs.

-- name: PutSpell :exec
INSERT INTO idle_spells (id, task, start_ms, found_ms, at_ms, ended, body) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id, task, start_ms, found_ms) DO UPDATE SET at_ms = excluded.at_ms, ended = excluded.ended, body = excluded.body;

-- name: SpellsSince :many
-- Those that ended since then, or had not, the first found first.
SELECT body FROM idle_spells WHERE at_ms >= sqlc.arg(since_ms) OR ended = 0 ORDER BY found_ms, id, task;

-- name: SpellsOfJob :many
-- The latest ones of a job, or of any task of an array, last first.
SELECT body FROM idle_spells WHERE id = sqlc.arg(id) AND (task = sqlc.arg(task) OR sqlc.arg(task) = -1) AND found_ms > 0
ORDER BY found_ms DESC LIMIT sqlc.arg(most);

-- name: OpenSpells :many
SELECT id, task, body FROM idle_spells WHERE ended = 0 AND found_ms > 0;

-- name: PruneSpells :execrows
DELETE FROM idle_spells WHERE (id, task, start_ms, found_ms) IN (
  SELECT s.id, s.task, s.start_ms, s.found_ms FROM idle_spells AS s WHERE s.at_ms < sqlc.arg(before_ms) AND s.ended = 1 LIMIT sqlc.arg(most)
);
