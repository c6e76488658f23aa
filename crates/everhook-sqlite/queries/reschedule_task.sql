-- Reschedule a pending or dead task, possibly with fresh tries; the caller updates its lane. Index: the primary key.
-- A pending or dead task with a limit group is a delivery of an ordered lane, which keeps its place. A redriven task
-- with a key waits until `promote_task` makes it due.
-- Differs: one row at a time.
update task
set state = 0,
    due_at = case
        when order_key is not null and :is_fresh then 9223372036854775807
        when order_key is not null or limit_group is null then :due_at
        else due_at
    end,
    tries = case when :is_fresh then 0 else tries end,
    crashes = case when :is_fresh then 0 else crashes end,
    cancel = case when :is_fresh then 0 else cancel end
where environment = :environment
    and subject = :subject
    and id = :id
    and state <> 1;
