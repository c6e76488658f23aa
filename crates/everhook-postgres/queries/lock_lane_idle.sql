-- Lock lanes that `list_expired_lane` has found, if still nothing waits in them, against everyone who might add to them. Index: the primary key.
-- No twin: SQLite has one writer.
select lane.environment, lane.id
from unnest(:idle)
    join everhook.lane on lane.environment = any (array[idle.environment])
        and lane.id = idle.id
where lane.next_due = 9223372036854775807
for update of lane skip locked;
