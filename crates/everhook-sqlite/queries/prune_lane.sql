-- Forget a lane of a queue in which nothing waits and nothing is dead; the caller knows that nothing of it is leased. Indexes: the primary
-- key, task_ready, task_dead.
-- Differs: one row at a time, chosen by `list_expired_lane`.
delete from lane
where environment = ?1
    and id = ?2
    and queue is not null
    and next_due = 9223372036854775807
    and not exists (select 1 from task where task.environment = ?1 and task.lane = ?2 and task.state = 0)
    and not exists (select 1 from task where task.environment = ?1 and task.lane = ?2 and task.state = 2);
