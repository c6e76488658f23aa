-- Count leased tasks of limited queues and endpoints in a range of lanes, up to the limit. Index: task_limit_group.
-- Differs: many rows at once. A separate statement, because its snapshot must be newer than the lock on the queue's
-- group. Otherwise it would miss the tasks of the lease that held the lock before.
select wanted.n, (
    select count(*)
    from (
        select 1
        from everhook.task
        where task.state = 1
            and task.limit_group = wanted.limit_group
            and task.environment = wanted.environment
            and task.lane >= wanted.low
            and task.lane <= wanted.high
        limit wanted.most
    ) as leased
)
from unnest(:wanted, n);
