-- List an application's messages in a range of ids, filtered, up to the bytes of a page. Index: the primary key.
-- Differs: `jsonb` tests the members of a JSON array. The page is cut here, before rows are sent; `octet_length` does
-- not decompress a payload.
select environment, {Message}
from (
    select
        listed.*,
        sum(octet_length(payload)) over (
            order by id :order
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select environment, {Message}
        {include message_window}
            and (:channel::text is null or channels::jsonb ? :channel)
            and (:tag::text is null or tags::jsonb ? :tag)
            and (:event_types::text[] is null or event_type = any (:event_types))
            and (:text::bytea is null or position(:text in payload) > 0)
        order by id :order
        limit :limit
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= :bytes_max
order by id :order
;
