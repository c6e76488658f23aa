-- End the holds of lanes if they are of the wanted kinds, and hold ordered lanes for a retry (4). Index: the primary
-- key.
-- The lock waits for a lease that has counted an ended delivery as leased and is about to hold the lane. A condition on
-- the hold without the lock would not wait, and the lane would hold for its full time.
-- Differs: many lanes at once, locked in key order. Lanes that are written later in the same transaction are locked
-- here without a kind.
with clock as materialized (
    select everhook.now_us() as now
),
ended as materialized (
    select lane.environment, lane.id, lane.hold_kind,
        case when lane.hold_kind between wanted.first_kind and wanted.last_kind then 0 else lane.hold_until end as hold_until,
        case when wanted.retry_us > 0 then clock.now + wanted.retry_us else 0 end as retry_at
    from clock
        cross join {include locked_lane}
)
update everhook.lane
set hold_until = greatest(ended.hold_until, ended.retry_at),
    hold_kind = case when ended.retry_at > ended.hold_until then 4 when ended.hold_until = 0 then 0 else ended.hold_kind end
from ended
where lane.environment = any (array[ended.environment])
    and lane.id = ended.id
    and lane.hold_until <> greatest(ended.hold_until, ended.retry_at);
