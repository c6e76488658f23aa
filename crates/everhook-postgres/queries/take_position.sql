-- Take positions at the end of ordered lanes, and lock them. Index: the primary key. A position is later than all
-- earlier ones, whatever the clock says: a clock that was set back moves no message before another one.
-- Other deliveries, such as those of a replay, take positions only where the lane is ahead of the clock.
-- Differs: many lanes at once, locked in key order. The statement that writes the tasks reads the positions: its
-- snapshot is newer than the locks.
with clock as materialized (
    select everhook.now_us() as now
),
locked as materialized (
    select lane.environment, lane.id, lane.last_position, wanted.taken, wanted.is_ordered
    from {include locked_lane}
)
update everhook.lane
set last_position = greatest(locked.last_position, clock.now - 1) + locked.taken
from clock
    cross join locked
where lane.environment = any (array[locked.environment])
    and lane.id = locked.id
    and (locked.is_ordered or locked.last_position >= clock.now);
