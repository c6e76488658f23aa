-- End the holds of lanes at their concurrency limits, because some of their deliveries have ended. Index: the primary
-- key.
-- The lock waits for a lease that has counted these deliveries as leased and is about to hold the lane. A condition on
-- the hold without the lock would not wait, and the lane would hold for its full time.
-- Differs: many lanes at once, locked in key order. `is_freed` is false for lanes that are written later in the same
-- transaction.
with ended as materialized (
    select lane.environment, lane.id, wanted.is_freed and lane.hold_kind = 2 as is_over
    from unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
    order by wanted.environment, wanted.id
    for no key update of lane
)
update everhook.lane
set hold_until = 0,
    hold_kind = 0
from ended
where lane.environment = any (array[ended.environment])
    and lane.id = ended.id
    and ended.is_over;
