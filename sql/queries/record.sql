-- What one cycle writes.

-- name: PutJob :exec
INSERT INTO jobs (
  job, id, task, first_submit_ms, seen_ms, changed_ms, left_ms, raw_id, tasks, task_count, het_leader, het_offset,
  user, account, partition, qos, reservation, state, reason, priority, nice, site_factor, site_factor_known, restarts,
  nodes, cpus, mem_mb, gpus, gpu_type, features, prefer, node_list, time_limit_ms, submit_ms, eligible_ms, start_ms,
  dependency, tag, tag_error
) VALUES (
  sqlc.arg(job), sqlc.arg(id), sqlc.arg(task), sqlc.arg(submit_ms), sqlc.arg(at_ms), sqlc.arg(at_ms), sqlc.arg(left_ms),
  sqlc.arg(raw_id), sqlc.arg(tasks), sqlc.arg(task_count), sqlc.arg(het_leader), sqlc.arg(het_offset), sqlc.arg(user),
  sqlc.arg(account), sqlc.arg(partition), sqlc.arg(qos), sqlc.arg(reservation), sqlc.arg(state), sqlc.arg(reason),
  sqlc.arg(priority), sqlc.arg(nice), sqlc.arg(site_factor), sqlc.arg(site_factor_known), sqlc.arg(restarts),
  sqlc.arg(nodes), sqlc.arg(cpus), sqlc.arg(mem_mb), sqlc.arg(gpus), sqlc.arg(gpu_type), sqlc.arg(features),
  sqlc.arg(prefer), sqlc.arg(node_list), sqlc.arg(time_limit_ms), sqlc.arg(submit_ms), sqlc.arg(eligible_ms),
  sqlc.arg(start_ms), sqlc.arg(dependency), sqlc.arg(tag), sqlc.arg(tag_error)
)
ON CONFLICT (job) DO UPDATE SET
  changed_ms = excluded.changed_ms, left_ms = excluded.left_ms, raw_id = excluded.raw_id, tasks = excluded.tasks,
  task_count = excluded.task_count, het_leader = excluded.het_leader, het_offset = excluded.het_offset,
  user = excluded.user, account = excluded.account, partition = excluded.partition, qos = excluded.qos,
  reservation = excluded.reservation, state = excluded.state, reason = excluded.reason, priority = excluded.priority,
  nice = excluded.nice, site_factor = excluded.site_factor, site_factor_known = excluded.site_factor_known,
  restarts = excluded.restarts, nodes = excluded.nodes, cpus = excluded.cpus, mem_mb = excluded.mem_mb,
  gpus = excluded.gpus, gpu_type = excluded.gpu_type, features = excluded.features, prefer = excluded.prefer,
  node_list = excluded.node_list, time_limit_ms = excluded.time_limit_ms, submit_ms = excluded.submit_ms,
  eligible_ms = excluded.eligible_ms, start_ms = excluded.start_ms, dependency = excluded.dependency,
  tag = excluded.tag, tag_error = excluded.tag_error;

-- name: JobLeft :exec
-- No job leaves before it started, though a clock that was set back may say so.
UPDATE jobs SET left_ms = max(CAST(sqlc.arg(at_ms) AS INTEGER), start_ms) WHERE job = sqlc.arg(job);

-- name: PutNode :exec
INSERT INTO nodes (
  name, changed_ms, usable, state, features, gpu_type, gpus, gpus_used, cpus, cpus_used, mem_mb, mem_used_mb, mixed_types, partitions
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
  changed_ms = excluded.changed_ms, usable = excluded.usable, state = excluded.state, features = excluded.features,
  gpu_type = excluded.gpu_type, gpus = excluded.gpus, gpus_used = excluded.gpus_used, cpus = excluded.cpus,
  cpus_used = excluded.cpus_used, mem_mb = excluded.mem_mb, mem_used_mb = excluded.mem_used_mb,
  mixed_types = excluded.mixed_types, partitions = excluded.partitions;

-- name: DropNode :exec
DELETE FROM nodes WHERE name = ?;

-- name: PutInterval :exec
INSERT INTO intervals (job, start_ms, end_ms, running, closed, gpu_type, gpus, user, account, class, restarts, charge)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job, start_ms) DO UPDATE SET
  end_ms = excluded.end_ms, running = excluded.running, closed = excluded.closed, gpus = excluded.gpus,
  gpu_type = excluded.gpu_type, user = excluded.user, account = excluded.account, class = excluded.class,
  restarts = excluded.restarts, charge = excluded.charge;

-- name: JobOfRun :one
-- The row of the job that had this id when the run started.
SELECT job FROM jobs
WHERE id = sqlc.arg(id) AND task = sqlc.arg(task) AND user = sqlc.arg(user)
  AND first_submit_ms <= sqlc.arg(start_ms) AND (left_ms = 0 OR left_ms >= sqlc.arg(start_ms))
ORDER BY job DESC LIMIT 1;

-- name: FormerJob :one
-- The latest row of a user's job of this id, as long as it did not start again more often.
SELECT job FROM jobs
WHERE id = sqlc.arg(id) AND task = sqlc.arg(task) AND user = sqlc.arg(user) AND restarts <= sqlc.arg(restarts)
ORDER BY job DESC LIMIT 1;

-- name: PutHistory :exec
INSERT INTO history (id, task, first_eligible_ms, counted, lever, value, tried, original, written_ms, reverts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id, task) DO UPDATE SET
  first_eligible_ms = excluded.first_eligible_ms, counted = excluded.counted, lever = excluded.lever,
  value = excluded.value, tried = excluded.tried, original = excluded.original, written_ms = excluded.written_ms,
  reverts = excluded.reverts;

-- name: DropHistory :exec
DELETE FROM history WHERE id = ? AND task = ?;

-- name: AddCycle :exec
INSERT INTO cycles (
  cycle, at_ms, until_ms, polls, cluster, mode, band_lo, band_hi, band_step, span, jobs, pending, running, nodes,
  ranked, te, actions, renumbered, hold, notes, journal
) VALUES (
  sqlc.arg(cycle), sqlc.arg(at_ms), sqlc.arg(at_ms), 1, sqlc.arg(cluster), sqlc.arg(mode), sqlc.arg(band_lo),
  sqlc.arg(band_hi), sqlc.arg(band_step), sqlc.arg(span), sqlc.arg(jobs), sqlc.arg(pending), sqlc.arg(running),
  sqlc.arg(nodes), sqlc.arg(ranked), sqlc.arg(te), sqlc.arg(actions), sqlc.arg(renumbered), sqlc.arg(hold),
  sqlc.arg(notes), sqlc.arg(journal)
);

-- name: ExtendCycle :exec
UPDATE cycles SET until_ms = sqlc.arg(until_ms), polls = polls + 1, journal = sqlc.arg(journal) WHERE cycle = sqlc.arg(cycle);

-- name: ExtendCycles :exec
-- Cycles that were left out would have been as the one before.
UPDATE cycles SET until_ms = max(until_ms, coalesce((SELECT n.at_ms FROM cycles AS n WHERE n.cycle > cycles.cycle ORDER BY n.cycle LIMIT 1), 0));

-- name: AddDecision :exec
INSERT INTO decisions (job, cycle, at_ms, class, ranked, value, own_priority, why, detail, since_ms, unmoved, steer, choices, counted)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: AddWrite :exec
INSERT INTO writes (write, job, cycle, at_ms, tasks, part, lever, before, after, user_nice, reason, status, message)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'planned', '');

-- name: EndWrite :exec
UPDATE writes SET status = ?, message = ? WHERE write = ?;

-- name: DoubtWrites :exec
-- Writes that were planned and whose outcome was not recorded may have happened.
UPDATE writes SET status = 'unknown', message = sqlc.arg(message) WHERE status = 'planned';

-- name: AddClaim :exec
INSERT INTO claims (
  claim, job, cycle, state, reason, node_list, at_ms, changed_ms, raw_id, gpus, shares, wait_ms, pin, resv, resv_ms,
  room_ms, ended_ms, purpose
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: UpdateClaim :execrows
UPDATE claims SET
  state = sqlc.arg(state), reason = sqlc.arg(reason), changed_ms = sqlc.arg(changed_ms), pin = sqlc.arg(pin),
  resv = sqlc.arg(resv), resv_ms = sqlc.arg(resv_ms), room_ms = sqlc.arg(room_ms), ended_ms = sqlc.arg(ended_ms),
  shares = sqlc.arg(shares)
WHERE claim = sqlc.arg(claim);

-- name: AddEviction :exec
INSERT INTO evictions (
  eviction, claim, job, start_ms, restarts, gpus, signal, grace_ms, eligible_ms, cost_promised, cost_paid, state, reason,
  recorded_ms, signalled_ms, left_ms, requeued_ms, ended_ms, raw_id, unsaved_ms, restart_ms, how, exit_code, exit_signal,
  tries, restored_ms
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: UpdateEviction :execrows
UPDATE evictions SET
  state = sqlc.arg(state), reason = sqlc.arg(reason), cost_paid = sqlc.arg(cost_paid), how = sqlc.arg(how),
  exit_code = sqlc.arg(exit_code), exit_signal = sqlc.arg(exit_signal), tries = sqlc.arg(tries),
  signalled_ms = sqlc.arg(signalled_ms), left_ms = sqlc.arg(left_ms), requeued_ms = sqlc.arg(requeued_ms),
  restored_ms = sqlc.arg(restored_ms), ended_ms = sqlc.arg(ended_ms)
WHERE eviction = sqlc.arg(eviction);

-- What a host's database said of the present ends when it takes over from another host,
-- whose priod has acted meanwhile.

-- name: VoidJobs :exec
UPDATE jobs SET left_ms = max((SELECT coalesce(max(until_ms), 1) FROM cycles), start_ms, 1) WHERE left_ms = 0;

-- name: VoidHistory :exec
DELETE FROM history;

-- name: VoidIntervals :exec
-- A run that goes on is seen again, one that ended is in accounting.
DELETE FROM intervals WHERE closed = 0;

-- name: DropEvictionsFrom :exec
-- Those of claims that the journal tells anew.
DELETE FROM evictions WHERE claim >= sqlc.arg(claim);

-- name: DropClaimsFrom :exec
DELETE FROM claims WHERE claim >= sqlc.arg(claim);

-- name: VoidEvictions :exec
UPDATE evictions SET ended_ms = max(recorded_ms, signalled_ms, left_ms, requeued_ms, restored_ms) WHERE ended_ms = 0;

-- name: VoidClaims :exec
UPDATE claims SET ended_ms = CASE WHEN ended_ms = 0 THEN max(at_ms, changed_ms) ELSE ended_ms END, pin = '', resv = ''
WHERE ended_ms = 0 OR pin <> '' OR resv <> '';
