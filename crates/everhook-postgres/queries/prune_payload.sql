-- Erase payloads that are due, and forget their due times. A message may be gone already. Indexes: the primary keys.
-- The time is a parameter: a clock in the condition would keep the index from ending the scan at the first later row.
-- The locked rows are deleted by their place, because a join could scan the table: they are never updated.
-- Differs: many rows at once; skips rows that another node erases at this moment.
with due as materialized (
    select ctid as place, environment, application, message
    from everhook.payload_expiry
    where due_at <= :now
    order by due_at
    limit :limit
    for update skip locked
),
erased as (
    update everhook.message
    set payload = null
    from due
    where message.environment = any (array[due.environment])
        and message.application = due.application
        and message.id = due.message
)
delete from everhook.payload_expiry
where ctid = any (array(select place from due));
