-- Prune expired answers of requests. Index: request_expires. The time is a parameter, so that the scan ends at the
-- first later row.
-- Differs: many rows at once.
delete from everhook.request
where ctid = any (array(
    select ctid
    from everhook.request
    where expires_at <= :now
    order by expires_at
    limit :limit
    for update skip locked
));
