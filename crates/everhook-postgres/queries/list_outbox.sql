-- List the next rows of an outbox, oldest first, up to a number of rows and bytes. Index: the primary key. A row that
-- the relay could not decode has a flaw, and its content is not read. Rows that another transaction has locked are
-- skipped.
-- Differs: the rows are locked although there is one relay, so that an operator who edits a row does not block it.
-- Lists may be nested, contain nulls, and be much larger than their stored form; times may be infinite. Oversized
-- values are therefore detected before they are decompressed.
with next as materialized (
    select id, created_at, deliver_at,
        case when is_small then channels end as channels,
        case when is_small then tags end as tags,
        octet_length(payload)::bigint + octet_length(application) + octet_length(event_type)
            + coalesce(octet_length(environment), 0) + coalesce(octet_length(event_id), 0) + coalesce(octet_length(once_key), 0)
            + case
                when is_small then coalesce(octet_length(array_send(channels)), 0) + coalesce(octet_length(array_send(tags)), 0)
                else :row_bytes_max + coalesce(pg_column_size(channels), 0) + coalesce(pg_column_size(tags), 0)
            end as bytes
    from everhook.outbox
        cross join lateral (
            select coalesce(pg_column_size(channels), 0) + coalesce(pg_column_size(tags), 0) <= 65536
        ) as lists (is_small)
    order by id
    limit :rows_max
    for update of outbox skip locked
), sized as (
    select id, sum(bytes) over (order by id) - bytes as bytes_before,
        case
            when bytes > :row_bytes_max then format('the row is larger than the %s bytes that are relayed', :row_bytes_max)
            when created_at not between '1970-01-01Z' and '9999-01-01Z' then 'created_at must be from 1970 to 9998'
            when deliver_at not between '1970-01-01Z' and '9999-01-01Z' then 'deliverAt must be from 1970 to 9998'
            when array_ndims(channels) > 1 then 'channels must be a plain list'
            when array_ndims(tags) > 1 then 'tags must be a plain list'
            when array_position(channels, null) is not null then 'channels must not hold nulls'
            when array_position(tags, null) is not null then 'tags must not hold nulls'
        end as flaw
    from next
)
select sized.id, sized.flaw, (extract(epoch from outbox.created_at) * 1000000)::bigint,
    (extract(epoch from clock_timestamp() - outbox.created_at) * 1000000)::bigint,
    outbox.environment, outbox.application, outbox.event_type, outbox.payload, outbox.event_id, outbox.channels, outbox.tags,
    (extract(epoch from outbox.deliver_at) * 1000000)::bigint, outbox.once_key, outbox.once_phase
from sized
    left join everhook.outbox on outbox.id = any (array[sized.id]) and sized.flaw is null
where sized.bytes_before < :bytes_max
order by sized.id;
