-- Count waiting and set-aside rows of an outbox up to a bound, and return the age of the oldest. Index: the primary
-- keys.
select (select count(*) from (select 1 from everhook_outbox order by id limit :counted_max)),
    (
        select cast(unixepoch('subsec') * 1000000 as integer) - min(max(created_at, 0), 253370764800000000)
        from everhook_outbox
        order by id
        limit 1
    ),
    (select count(*) from (select 1 from everhook_outbox_aside order by id limit :counted_max));
