-- Delete a lane of a queue without pending or dead tasks. Indexes: the primary key, task_ready, task_dead. The caller
-- has checked that none of its tasks is leased.
-- Differs: one row at a time, selected by `list_expired_lane`.
delete from lane
where environment = :environment
    and id = :id
    and queue is not null
    and next_due = 9223372036854775807
    and not exists (select 1 from task where task.environment = :environment and task.lane = :id and task.state = 0)
    and not exists (select 1 from task where task.environment = :environment and task.lane = :id and task.state = 2);
