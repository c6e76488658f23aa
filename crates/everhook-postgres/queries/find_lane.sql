-- What an append has to know of lanes. Index: the primary key.
-- Differs: many rows at once.
select lane.id, lane.state, lane.waiting, lane.hold_until, lane.environment
from unnest($1::int[], $2::bytea[]) as wanted (environment, id)
    join everhook.lane on lane.environment = any (array[wanted.environment])
        and lane.id = wanted.id;
