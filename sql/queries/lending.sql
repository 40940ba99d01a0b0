-- What became of guaranteed shares.

-- name: AddShareHour :exec
-- Adds to the sums of an hour.
INSERT INTO share_hours (hour_ms, account, accounts, gpus, entitled_s, within_s, lent_s, wanted_s, borrowed_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (hour_ms, account) DO UPDATE SET
  accounts = (SELECT json_group_array(value) FROM (SELECT value FROM json_each(share_hours.accounts) UNION SELECT value FROM json_each(excluded.accounts))),
  gpus = excluded.gpus, entitled_s = entitled_s + excluded.entitled_s, within_s = within_s + excluded.within_s,
  lent_s = lent_s + excluded.lent_s, wanted_s = wanted_s + excluded.wanted_s, borrowed_s = borrowed_s + excluded.borrowed_s;

-- name: ShareHoursSince :many
SELECT * FROM share_hours WHERE hour_ms >= sqlc.arg(since_ms) ORDER BY hour_ms, account;

-- name: DropOpenReturns :exec
DELETE FROM share_returns WHERE until_ms = 0;

-- name: PutReturn :exec
INSERT OR REPLACE INTO share_returns (id, task, since_ms, until_ms, started, tasks, account, user, gpus, promise_ms, why) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: ReturnsSince :many
-- Those that ended since a time, and those that have not ended.
SELECT * FROM share_returns WHERE until_ms = 0 OR until_ms >= sqlc.arg(since_ms) ORDER BY since_ms, id, task;

-- name: OpenReturns :many
SELECT * FROM share_returns WHERE until_ms = 0 ORDER BY since_ms, id, task;
