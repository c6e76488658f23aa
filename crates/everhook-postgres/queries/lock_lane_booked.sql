-- Lock the lanes of an append that takes permits of rate limits, and find their state. Index: the primary key. The
-- append locks all its lanes, in key order: `lower_lane_due` may lock any of them later, and settlements lock lanes in
-- this order, too.
-- No twin: SQLite has one writer.
select {lane: LaneRow}
from {include locked_lane};
