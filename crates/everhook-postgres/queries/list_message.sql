-- An application's messages between two ids, filtered, until they have the bytes of a page. Index: the primary key.
-- Differs: `jsonb` for what a JSON array contains. The rows are sized here, before they are sent; a payload is not unpacked for that.
select environment, application, id, event_type, event_id, channels, tags, payload, created_at, rest
from (
    select
        listed.*,
        sum(octet_length(payload)) over (
            order by id asc
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select environment, application, id, event_type, event_id, channels, tags, payload, created_at, rest
        from everhook.message
        where environment = $1
            and application = $2
            and id > $3
            and id < $4
            and created_at < $5
            and created_at >= $6
            and ($7::text is null or channels::jsonb ? $7)
            and ($8::text is null or tags::jsonb ? $8)
            and ($9::text[] is null or event_type = any ($9))
        order by id asc
        limit $10
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= $11
order by id asc
;
