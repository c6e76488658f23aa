-- Find the state of lanes that an append needs. Index: the primary key.
-- Differs: many rows at once.
select {lane: LaneRow}
from unnest(:wanted)
    join everhook.lane on lane.environment = any (array[wanted.environment])
        and lane.id = wanted.id;
