-- The next rows of an outbox, oldest first, up to a number of rows and of bytes. Rows that someone else has locked are left for later.
-- Index: the primary key.
-- Differs: the rows are locked, though whoever relays is alone: an operator at work on a row holds up nobody.
with next as materialized (
    select id, octet_length(payload) as bytes
    from everhook.outbox
    order by id
    limit $1
    for update skip locked
), sized as (
    select id, sum(bytes) over (order by id) - bytes as bytes_before
    from next
)
select outbox.id, (extract(epoch from outbox.created_at) * 1000000)::bigint,
    (extract(epoch from clock_timestamp() - outbox.created_at) * 1000000)::bigint,
    outbox.environment, outbox.application, outbox.event_type, outbox.payload, outbox.event_id, outbox.channels, outbox.tags,
    (extract(epoch from outbox.deliver_at) * 1000000)::bigint, outbox.once_key, outbox.once_phase
from sized
    join everhook.outbox on outbox.id = any (array[sized.id])
where sized.bytes_before < $2
order by outbox.id;
