-- End an attempt whose task stays in the table, pending or dead. Index: the primary key, never task_owner. Fenced by
-- holder and epoch: a holder that lost its task matches no row.
-- A counted task may keep its place in the lane: then its due time and its limit group stay.
-- Differs: one row at a time; a separate statement logs the attempt.
update task
set state = ?6,
    owner = null,
    deadline = null,
    limit_group = case when ?10 then limit_group end,
    due_at = case when ?10 and limit_group is not null then due_at else coalesce(?7, due_at) end,
    tries = ?8,
    crashes = ?9
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 1
    and +owner = ?4
    and epoch = ?5
returning due_at;
