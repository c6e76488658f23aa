-- When the next task of lanes is due that have given all that was. Index: task_ready.
-- No twin: SQLite writes it down in the lane at once; here every write of a lane costs who reads it later, see `scan_cursor`.
select wanted.n, first.due_at
from unnest(:wanted, n)
    cross join lateral (
        select min(head.due_at) as due_at
        from unnest((:priorities::smallint[])) as level (priority)
            cross join lateral (
                select task.due_at
                from everhook.task
                where task.environment = wanted.environment
                    and task.lane = wanted.id
                    and task.priority = level.priority
                    and task.due_at > :after
                    and task.state = 0
                order by task.due_at
                limit 1
            ) as head
    ) as first
where first.due_at is not null;
