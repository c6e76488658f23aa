-- Count waiting and set-aside rows of an outbox up to a bound, and return the age of the oldest. Index: the primary
-- keys.
select (select count(*) from (select from everhook.outbox order by id limit :counted_max) as counted),
    (
        select (extract(epoch from clock_timestamp() - least(greatest(created_at, '1970-01-01Z'), '9999-01-01Z')) * 1000000)::bigint
        from everhook.outbox
        order by id
        limit 1
    ),
    (select count(*) from (select from everhook.outbox_aside order by id limit :counted_max) as counted);
