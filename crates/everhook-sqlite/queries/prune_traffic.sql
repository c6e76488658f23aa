-- Prune the counts of one node in one span. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_traffic`.
delete from traffic
where environment = ?1
    and span = ?2
    and start = ?3
    and source = ?4;
