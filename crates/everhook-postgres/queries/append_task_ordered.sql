-- Write new deliveries of lanes that `take_position` has locked. `back` is the number of positions after a delivery's
-- own. Index: the primary key of lane. The position is the due time of a delivery without a key. One with a key waits
-- until `promote_task` makes it due.
-- Differs: many rows at once.
insert into everhook.task (
    environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state, order_key,
    order_position, order_blocks
)
select fresh.environment, fresh.subject, fresh.id, fresh.lane, fresh.kind, fresh."trigger", fresh.priority,
    case
        when fresh.order_key is null then greatest(fresh.due_at, lane.last_position - fresh.back)
        else 9223372036854775807
    end,
    0, 0, 0, null, false, 0, fresh.order_key,
    case when fresh.order_key is not null then lane.last_position - fresh.back end, fresh.order_blocks
from unnest(:fresh)
    join everhook.lane on lane.environment = any (array[fresh.environment])
        and lane.id = fresh.lane;
