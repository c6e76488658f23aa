-- List the counts of all nodes in the spans of one length, newest first. Index: the primary key.
select start, source, counts
from everhook.traffic
where environment = :environment
    and span = :span
    and start >= :since
order by start desc
limit :limit;
