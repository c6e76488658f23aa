-- Prune consumers that were not used for a long time. Index: poll_consumer_used.
-- Differs: many rows at once.
delete from everhook.poll_consumer
where ctid = any (array(
    select ctid
    from everhook.poll_consumer
    where used_at < :before
    order by used_at
    limit :limit
));
