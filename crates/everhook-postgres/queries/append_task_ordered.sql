-- Write new deliveries of lanes that `take_position` has locked. `back` is the number of positions after a delivery's own.
-- Index: the primary key of lane.
-- No twin: SQLite takes one position at a time, and writes the task with `append_task`.
insert into everhook.task
    (environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state)
select fresh.environment, fresh.subject, fresh.id, fresh.lane, fresh.kind, fresh."trigger", fresh.priority,
    greatest(fresh.due_at, lane.last_position - fresh.back), 0, 0, 0, null, false, 0
from unnest(:fresh)
    join everhook.lane on lane.environment = any (array[fresh.environment])
        and lane.id = fresh.lane;
