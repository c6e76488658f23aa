-- The order of deliveries by a key of the payload. A delivery that waits for an earlier one with its key is never due.
-- Additive: an older binary ignores it. Do not order by a key before all replicas have been upgraded.
alter table task
add column order_key integer;
alter table task
add column order_position integer;
alter table task
add column order_blocks integer;

-- For each key: those that were due at some time come first, then those that wait, in order.
create index task_order on task (environment, lane, order_key, due_at, order_position)
where order_key is not null;
