-- Lock the lanes of an append that takes permits of rate limits, and find their state. Index: the primary key. The
-- append locks all its lanes, in key order: `lower_lane_due` may lock any of them later, and settlements lock lanes in
-- this order, too.
-- No twin: SQLite has one writer.
select {lane: LaneRow}
from unnest(:wanted)
    join everhook.lane on lane.environment = any (array[wanted.environment])
        and lane.id = wanted.id
order by wanted.environment, wanted.id
for no key update of lane;
