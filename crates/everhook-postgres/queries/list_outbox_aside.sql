-- List rows that were set aside, by id, up to the bytes of a page. Index: the primary key.
-- Differs: the values that made a row unreadable are shown as far as possible. Long texts and lists are cut, nested
-- lists are flattened, and times are limited to the supported years.
select id, (extract(epoch from made_at) * 1000000)::bigint,
    (extract(epoch from clock_timestamp() - made_at) * 1000000)::bigint,
    left(environment, 300), left(application, 300), left(event_type, 300), left(payload, 1048576), left(event_id, 300),
    case
        when pg_column_size(channels) <= 65536
            then array(select coalesce(left(entry, 300), '') from unnest(channels) as entry limit 20)
    end,
    case
        when pg_column_size(tags) <= 65536 then array(select coalesce(left(entry, 300), '') from unnest(tags) as entry limit 20)
    end,
    case
        when deliver_at is not null
            then (extract(epoch from least(greatest(deliver_at, '1970-01-01Z'), '9999-01-01Z')) * 1000000)::bigint
    end,
    left(once_key, 300), once_phase,
    (extract(epoch from set_aside_at) * 1000000)::bigint, error
from (
    select
        listed.*,
        sum(octet_length(left(payload, 1048576))) over (order by id rows between unbounded preceding and 1 preceding) as bytes_before
    from (
        select *
        from everhook.outbox_aside
        where id > :after
        order by id
        limit :limit
    ) as listed
) as sized
    cross join lateral (select least(greatest(created_at, '1970-01-01Z'), '9999-01-01Z')) as made (made_at)
where coalesce(bytes_before, 0) <= :bytes_max
order by id;
