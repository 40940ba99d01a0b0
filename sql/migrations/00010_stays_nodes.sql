-- Where runs were: nodes are compared by them.

-- +goose Up
ALTER TABLE stays ADD COLUMN node_list TEXT NOT NULL DEFAULT ''; -- compact host list; '': not known
UPDATE lessons SET read_ms = 0; -- the daemon reads accounting once more, and fills it in

-- +goose Down
ALTER TABLE stays DROP COLUMN node_list;
