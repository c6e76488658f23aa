-- End an attempt whose task stays in the table, pending or dead. Index: the primary key, never task_owner. Fenced by
-- holder and epoch: a holder that lost its task matches no row.
-- Differs: one row at a time; a separate statement logs the attempt.
update task
set state = ?6,
    owner = null,
    deadline = null,
    limit_group = null,
    due_at = coalesce(?7, due_at),
    tries = ?8,
    crashes = ?9
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 1
    and +owner = ?4
    and epoch = ?5;
