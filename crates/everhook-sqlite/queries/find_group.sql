-- What a lease has to know of a queue. A queue without configuration has no group. Index: the primary key.
-- No twin: PostgreSQL reads many groups at once, by `next_group`.
select {LaneGroup}
from lane_group
where environment = :environment
    and id = :id;
