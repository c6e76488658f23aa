-- The next rows of an outbox in a customer's file, oldest first, up to a number of rows and of bytes. Index: the primary key.
-- Differs: nothing is locked, so that the customer's own writes do not wait.
select id, created_at, cast(unixepoch('subsec') * 1000000 as integer) - created_at, environment, application, event_type, payload,
    event_id, channels, tags, deliver_at, once_key, once_phase
from (
    select *, sum(octet_length(payload)) over (order by id) - octet_length(payload) as bytes_before
    from (
        select *
        from everhook_outbox
        order by id
        limit ?1
    )
)
where bytes_before < ?2
order by id;
