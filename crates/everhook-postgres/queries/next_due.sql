-- Find the due time of the next task of lanes whose due tasks are all leased. Index: task_ready.
-- No twin: SQLite writes it into the lane at once. Here every version of a lane row costs its later readers, see
-- `scan_cursor`.
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
