-- Lock idle lanes that `list_expired_lane` found, if they are still empty. Index: the primary key. The full lock keeps
-- out transactions that would add a task.
-- No twin: SQLite has one writer.
select lane.environment, lane.id
from unnest(:idle)
    join everhook.lane on lane.environment = any (array[idle.environment])
        and lane.id = idle.id
where lane.next_due = 9223372036854775807
for update of lane skip locked;
