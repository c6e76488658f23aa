-- Delete a lane of a queue without pending or dead tasks. Indexes: the primary key, task_ready, task_dead. The caller
-- has checked that none of its tasks is leased.
-- Differs: one row at a time, selected by `list_expired_lane`.
delete from lane
where environment = ?1
    and id = ?2
    and queue is not null
    and next_due = 9223372036854775807
    and not exists (select 1 from task where task.environment = ?1 and task.lane = ?2 and task.state = 0)
    and not exists (select 1 from task where task.environment = ?1 and task.lane = ?2 and task.state = 2);
