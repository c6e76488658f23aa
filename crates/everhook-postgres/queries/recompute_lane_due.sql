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
        {include first_due; from = task.due_at >= wanted.floor}
    ) as first
where lane.environment = any (array[wanted.environment])
    and lane.id = wanted.id
    and lane.next_due = 9223372036854775807
    and coalesce(wanted.turn_at, first.due_at) is not null;
