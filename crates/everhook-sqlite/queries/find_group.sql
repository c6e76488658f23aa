-- Read the lane group of a queue for a lease. Index: the primary key. A queue without configuration has no group.
-- No twin: PostgreSQL reads many groups at once, with `next_group`.
select {LaneGroup}
from lane_group
where environment = :environment
    and id = :id;
