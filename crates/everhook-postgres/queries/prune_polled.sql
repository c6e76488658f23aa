-- Prune entries of pollers by their age in whole days. Index: polled_day.
-- Differs: many rows at once.
delete from everhook.polled
where ctid = any (array(
    select ctid
    from everhook.polled
    where due_at / 86400000000 < :before / 86400000000
    order by due_at / 86400000000
    limit :limit
));
