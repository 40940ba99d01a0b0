-- The tables as they were at a moment: temporary views, which stand before the tables of the same names, so that every query of queries/
-- answers of then. :at is the moment. Not kept, and so empty: what History held, the allocation, check's findings, expected ends; an
-- expected start is the first that was said.

CREATE TEMP VIEW jobs AS
SELECT j.job, j.id, j.task, j.first_submit_ms, j.seen_ms, min(j.changed_ms, :at) AS changed_ms, iif(j.left_ms > :at, 0, j.left_ms) AS left_ms, j.raw_id,
  coalesce(c.tasks, j.tasks) AS tasks, coalesce(c.task_count, j.task_count) AS task_count, j.het_leader, j.het_offset, j.user, j.account,
  coalesce(c.partition, j.partition) AS partition, j.qos, j.reservation, coalesce(c.state, j.state) AS state, coalesce(c.reason, j.reason) AS reason,
  coalesce(c.priority, j.priority) AS priority, coalesce(c.nice, j.nice) AS nice, coalesce(c.site_factor, j.site_factor) AS site_factor,
  coalesce(c.site_factor_known, j.site_factor_known) AS site_factor_known, coalesce(c.restarts, j.restarts) AS restarts, j.nodes,
  coalesce(c.cpus, j.cpus) AS cpus, coalesce(c.mem_mb, j.mem_mb) AS mem_mb, j.gpus, coalesce(c.gpu_type, j.gpu_type) AS gpu_type,
  coalesce(c.features, j.features) AS features, j.prefer, coalesce(c.node_list, j.node_list) AS node_list,
  coalesce(c.time_limit_ms, j.time_limit_ms) AS time_limit_ms, coalesce(c.submit_ms, j.submit_ms) AS submit_ms,
  coalesce(c.eligible_ms, j.eligible_ms) AS eligible_ms, coalesce(c.start_ms, j.start_ms) AS start_ms, j.dependency, j.tag, j.tag_error
FROM main.jobs AS j LEFT JOIN main.job_changes AS c ON c.job = j.job
  AND c.until_ms = (SELECT min(x.until_ms) FROM main.job_changes AS x WHERE x.job = j.job AND x.until_ms > :at)
WHERE j.seen_ms <= :at;

CREATE TEMP VIEW nodes AS
SELECT n.name, min(n.changed_ms, :at) AS changed_ms, coalesce(c.usable, n.usable) AS usable, coalesce(c.state, n.state) AS state,
  coalesce(c.features, n.features) AS features, n.gpu_type, coalesce(c.gpus, n.gpus) AS gpus, coalesce(c.gpus_used, n.gpus_used) AS gpus_used,
  coalesce(c.cpus, n.cpus) AS cpus, coalesce(c.cpus_used, n.cpus_used) AS cpus_used, coalesce(c.mem_mb, n.mem_mb) AS mem_mb,
  coalesce(c.mem_used_mb, n.mem_used_mb) AS mem_used_mb, n.mixed_types, n.partitions
FROM main.nodes AS n LEFT JOIN main.node_changes AS c ON c.name = n.name
  AND c.until_ms = (SELECT min(x.until_ms) FROM main.node_changes AS x WHERE x.name = n.name AND x.until_ms > :at)
WHERE coalesce(c.since_ms, n.changed_ms) <= :at;

CREATE TEMP VIEW intervals AS
SELECT job, start_ms, min(end_ms, :at) AS end_ms, iif(end_ms >= :at, 1, running) AS running, iif(end_ms >= :at, 0, closed) AS closed, gpu_type, gpus, user, account,
  class, restarts, charge
FROM main.intervals WHERE start_ms <= :at;

CREATE TEMP VIEW cycles AS
SELECT cycle, at_ms, min(until_ms, :at) AS until_ms, polls, cluster, mode, band_lo, band_hi, band_step, span, jobs, pending, running, nodes, ranked, te, actions,
  renumbered, hold, notes, journal
FROM main.cycles WHERE at_ms <= :at;

CREATE TEMP VIEW decisions AS SELECT * FROM main.decisions WHERE at_ms <= :at;
CREATE TEMP VIEW writes AS SELECT * FROM main.writes WHERE at_ms <= :at;
CREATE TEMP VIEW history AS SELECT * FROM main.history WHERE 0;
CREATE TEMP VIEW shares AS SELECT * FROM main.shares WHERE 0;
CREATE TEMP VIEW ends AS SELECT * FROM main.ends WHERE 0;
CREATE TEMP VIEW findings AS SELECT * FROM main.findings WHERE 0;
CREATE TEMP VIEW promises AS SELECT * FROM main.promises WHERE at_ms <= :at;
CREATE TEMP VIEW starts AS
SELECT job, at_ms, limits_ms AS start_ms, median_ms, p90_ms, median_ms AS least_ms, median_ms AS most_ms, 0 AS run_ms FROM main.promises WHERE at_ms <= :at;
CREATE TEMP VIEW stays AS SELECT * FROM main.stays WHERE end_ms <= :at;
CREATE TEMP VIEW samples AS SELECT * FROM main.samples WHERE at_ms <= :at;
CREATE TEMP VIEW failures AS SELECT * FROM main.failures WHERE at_ms <= :at;
CREATE TEMP VIEW drained AS SELECT * FROM main.drained WHERE at_ms <= :at;
CREATE TEMP VIEW share_hours AS SELECT * FROM main.share_hours WHERE hour_ms <= :at;
CREATE TEMP VIEW share_returns AS
SELECT id, task, since_ms, iif(until_ms > :at, 0, until_ms) AS until_ms, iif(until_ms > :at, 0, started) AS started, tasks, account, user, gpus, promise_ms,
  iif(until_ms > :at, '', why) AS why
FROM main.share_returns WHERE since_ms <= :at;

CREATE TEMP VIEW claims AS
SELECT claim, job, cycle, CASE WHEN ended_ms BETWEEN 1 AND :at THEN state WHEN room_ms BETWEEN 1 AND :at THEN 'holding' ELSE 'planned' END AS state, iif(ended_ms BETWEEN 1 AND :at, reason, '') AS reason, node_list, at_ms,
  min(changed_ms, :at) AS changed_ms, raw_id, gpus, shares, wait_ms, pin, resv, iif(resv_ms > :at, 0, resv_ms) AS resv_ms, iif(room_ms > :at, 0, room_ms) AS room_ms,
  iif(ended_ms > :at, 0, ended_ms) AS ended_ms, purpose
FROM main.claims WHERE at_ms <= :at;

CREATE TEMP VIEW evictions AS
SELECT eviction, claim, job, start_ms, restarts, gpus, signal, grace_ms, eligible_ms, cost_promised, iif(left_ms BETWEEN 1 AND :at, cost_paid, 0.0) AS cost_paid,
  CASE WHEN ended_ms BETWEEN 1 AND :at THEN state WHEN restored_ms BETWEEN 1 AND :at THEN 'restored' WHEN requeued_ms BETWEEN 1 AND :at THEN 'requeued'
    WHEN left_ms BETWEEN 1 AND :at THEN 'left' WHEN signalled_ms BETWEEN 1 AND :at THEN 'signalled' ELSE 'recorded' END AS state,
  iif(ended_ms BETWEEN 1 AND :at, reason, '') AS reason, recorded_ms, iif(signalled_ms > :at, 0, signalled_ms) AS signalled_ms, iif(left_ms > :at, 0, left_ms) AS left_ms,
  iif(requeued_ms > :at, 0, requeued_ms) AS requeued_ms, iif(ended_ms > :at, 0, ended_ms) AS ended_ms, raw_id, unsaved_ms, restart_ms,
  iif(left_ms BETWEEN 1 AND :at, how, '') AS how, iif(left_ms BETWEEN 1 AND :at, exit_code, 0) AS exit_code, iif(left_ms BETWEEN 1 AND :at, exit_signal, 0) AS exit_signal,
  0 AS tries, iif(restored_ms > :at, 0, restored_ms) AS restored_ms
FROM main.evictions WHERE recorded_ms <= :at;

CREATE TEMP VIEW waits AS
SELECT id, task, submit_ms, iif(until_ms >= :at, 0, until_ms) AS until_ms, iif(until_ms >= :at, '', ended) AS ended, user, account, partition,
  iif(until_ms BETWEEN 1 AND :at - 1, gpu_type, coalesce((SELECT j.gpu_type FROM temp.jobs AS j WHERE j.id = w.id AND j.task = w.task ORDER BY j.job DESC LIMIT 1), gpu_type)) AS gpu_type,
  gpus, tasks,
  iif(until_ms >= :at, '', pool) AS pool, iif(until_ms >= :at, 0, pool_gpus) AS pool_gpus, room_ms, torn_ms,
  iif(until_ms BETWEEN 1 AND :at - 1, spans, spans_at(spans, :at)) AS spans -- spans_at: store/moment.go
FROM main.waits AS w WHERE submit_ms <= :at;
