-- Prune a closed session that holds no task. Indexes: the primary key, task_owner.
-- Differs: one row at a time, selected by `list_expired_session`.
delete from session
where id = ?1
    and closed_at is not null
    and not exists (select 1 from task where task.state = 1 and task.owner = ?1);
