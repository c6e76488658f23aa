-- Second half of `mark_lane_empty`: where to look for the next task of a drained lane, of whatever priority, and when: as soon as it is
-- due, or when it is the lane's turn, if it has one; in a closing lane, at once. Indexes: the primary key of lane, task_ready.
-- Differs: a statement of its own, because it needs a snapshot that is younger than the locks. What could not be locked is not at
-- "never", because only the holder of a lane's lock could have moved it there.
update everhook.lane
set next_due = case lane.state when 2 then 0 else coalesce(wanted.turn_at, first.due_at) end,
    floor = case lane.state when 2 then 0 else least(wanted.turn_at, first.due_at) end
from unnest(:wanted)
    cross join lateral (
        select min(head.due_at) as due_at
        from unnest((:priorities::smallint[])) as level (priority)
            cross join lateral (
                select task.due_at
                from everhook.task
                where task.environment = wanted.environment
                    and task.lane = wanted.id
                    and task.priority = level.priority
                    and task.due_at >= wanted.floor
                    and task.state = 0
                order by task.due_at
                limit 1
            ) as head
    ) as first
where lane.environment = any (array[wanted.environment])
    and lane.id = wanted.id
    and lane.next_due = 9223372036854775807
    and coalesce(wanted.turn_at, first.due_at) is not null;
