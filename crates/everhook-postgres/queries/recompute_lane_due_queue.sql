-- As `recompute_lane_due`, for the lane of a queue, whose tasks have any priority. Indexes: the primary key of lane, task_ready.
-- Differs: as in `recompute_lane_due`.
update everhook.lane
set next_due = first.due_at
from unnest(:wanted)
    cross join lateral (
        select min(head.due_at) as due_at
        from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
            cross join lateral (
                select task.due_at
                from everhook.task
                where task.environment = wanted.environment
                    and task.lane = wanted.id
                    and task.priority = level.priority
                    and task.state = 0
                order by task.due_at
                limit 1
            ) as head
    ) as first
where lane.environment = any (array[wanted.environment])
    and lane.id = wanted.id
    and lane.next_due = 9223372036854775807
    and first.due_at is not null;
