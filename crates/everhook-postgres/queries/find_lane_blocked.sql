-- Find the lanes in which a dead delivery comes before the first pending one. Indexes: task_dead, task_ready.
-- Differs: many lanes at once.
select wanted.n
from unnest(:wanted, n)
    cross join lateral (
        select task.due_at, task.id
        from everhook.task
        where task.environment = wanted.environment
            and task.lane = wanted.id
            and task.priority = :priority
            and task.state = 0
        order by task.due_at, task.id
        limit 1
    ) as head
where exists (
    select
    from everhook.task as dead
    where dead.environment = wanted.environment
        and dead.lane = wanted.id
        and dead.state = 2
        and (dead.due_at, dead.id) < (head.due_at, head.id)
);
