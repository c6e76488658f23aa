-- List the counts of all nodes in the spans of one length, newest first. Index: the primary key, in its whole order,
-- so that the index for retention, which holds all environments, is never cheaper.
select start, source, counts
from everhook.traffic
where environment = :environment
    and span = :span
    and start >= :since
order by start desc, source desc
limit :limit;
