-- List the next rows of an outbox in a customer's file, oldest first, up to a number of rows and bytes. Index: the
-- primary key. A row that the relay could not decode has a flaw, and its content is not read.
-- Differs: nothing is locked, so that the customer's own writes do not wait.
with next as materialized (
    select id, created_at, deliver_at,
        octet_length(payload) + octet_length(application) + octet_length(event_type) + coalesce(octet_length(environment), 0)
            + coalesce(octet_length(event_id), 0) + coalesce(octet_length(once_key), 0) + coalesce(octet_length(channels), 0)
            + coalesce(octet_length(tags), 0) as bytes
    from everhook_outbox
    order by id
    limit ?1
), sized as (
    select id, sum(bytes) over (order by id) - bytes as bytes_before,
        case
            when bytes > ?3 then format('the row is larger than the %d bytes that are relayed', ?3)
            when created_at not between 0 and 253370764800000000 then 'created_at must be from 1970 to 9998'
            when deliver_at not between 0 and 253370764800000000 then 'deliverAt must be from 1970 to 9998'
        end as flaw
    from next
)
select sized.id, whole.created_at, cast(unixepoch('subsec') * 1000000 as integer) - whole.created_at, environment, application,
    event_type, payload, event_id, channels, tags, whole.deliver_at, once_key, once_phase, flaw
from sized
    left join everhook_outbox as whole on whole.id = sized.id and flaw is null
where bytes_before < ?2
order by sized.id;
