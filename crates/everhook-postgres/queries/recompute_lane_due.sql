-- Set the due time and floor of lanes that `mark_lane_empty` has just emptied; its second half. Indexes: the primary
-- key of lane, task_ready.
-- The floor becomes the due time of the earliest pending task of any priority. The lane is due at that time, or at its
-- turn if it has one. A closing lane is due at once. A lane without tasks stays at "never".
-- Differs: a separate statement, because its snapshot must be newer than the locks. A lane that could not be locked is
-- not at "never", since only the holder of a lane's lock can set it; the condition on `next_due` leaves it alone.
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
