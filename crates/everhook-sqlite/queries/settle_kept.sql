-- End an attempt whose task stays in the table, pending or dead, fenced by holder and epoch. Index: the primary key, never task_owner.
-- Differs: one row at a time; the attempt is a statement of its own.
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
