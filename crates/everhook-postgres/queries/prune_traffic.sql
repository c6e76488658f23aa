-- Prune counts of traffic in the spans of one length. Index: traffic_start.
-- Differs: many rows at once.
delete from everhook.traffic
where ctid = any (array(
    select ctid
    from everhook.traffic
    where span = :span
        and start < :before
    order by start
    limit :limit
    for update skip locked
));
