-- Erase due payloads, and delete their due times. A message may already be pruned. Indexes: the primary keys. The time
-- is a parameter: a clock function in the condition would keep the index scan from ending at the first later row. The
-- locked rows are deleted by ctid, because a join could scan the table; such rows are never updated.
-- Differs: many rows at once; skips rows that another node is erasing.
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
