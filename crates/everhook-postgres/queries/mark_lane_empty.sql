-- Say of lanes that nothing waits in them, where nobody is just adding to them; `recompute_lane_due` then corrects it. Index: the primary key.
-- Differs: the full lock waits out nobody: a lane that someone touches stays ready and is looked at again. It has to be had before the
-- statement begins that looks for what waits, or a task that commits in between would be missed; and it has to be the first that the
-- transaction does to the lane after its own lock: who touches the lane by an older snapshot gets past a write that is not exclusive, and
-- would see what was before.
with free as materialized (
    select lane.environment, lane.id
    from unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
    for update of lane skip locked
)
update everhook.lane
set next_due = 9223372036854775807,
    floor = 9223372036854775807
from free
where lane.environment = any (array[free.environment])
    and lane.id = free.id;
