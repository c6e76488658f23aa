-- Count leased tasks of limited queues, up to what may be leased: of all lanes between two. Index: task_limit_group.
-- Differs: many rows at once. A statement of its own, because its snapshot has to be younger than the lock of the queue.
select wanted.n, (
    select count(*)
    from (
        select 1
        from everhook.task
        where task.state = 1
            and task.limit_group = wanted.limit_group
            and task.lane >= wanted.low
            and task.lane <= wanted.high
        limit wanted.most
    ) as leased
)
from unnest(:wanted, n);
