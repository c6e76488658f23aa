-- End an attempt whose task stays in the table, pending or dead. Index: the primary key, never task_owner. Fenced by
-- holder and epoch: a holder that lost its task matches no row.
-- A counted task may keep its place in the lane: then its due time and its limit group stay.
-- Differs: one row at a time; a separate statement logs the attempt.
update task
set state = :state,
    owner = null,
    deadline = null,
    limit_group = case when :is_in_place then limit_group end,
    due_at = case when :is_in_place and limit_group is not null then due_at else coalesce(:due_at, due_at) end,
    tries = :tries,
    crashes = :crashes
where environment = :environment
    and subject = :subject
    and id = :id
    and state = 1
    and +owner = :owner
    and epoch = :epoch
returning due_at;
