-- The due time of the first pending task of a lane, of any priority. Index: task_ready.
-- No twin: SQLite has the due time in the lane.
select min(head.due_at) as due_at
from unnest((:priorities::smallint[])) as level (priority)
    cross join lateral (
        select task.due_at
        from everhook.task
        where task.environment = wanted.environment
            and task.lane = wanted.id
            and task.priority = level.priority
            and {from}
            and task.state = 0
        order by task.due_at
        limit 1
    ) as head
