-- An application's messages between two ids, filtered, until they have the bytes of a page. Index: the primary key.
-- Differs: `jsonb` for what a JSON array contains. The rows are sized here, before they are sent; a payload is not unpacked for that.
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
        from everhook.message
        where environment = :environment
            and application = :application
            and id > :above
            and id < :below
            and created_at < :before
            and created_at >= :after
            and (:channel::text is null or channels::jsonb ? :channel)
            and (:tag::text is null or tags::jsonb ? :tag)
            and (:event_types::text[] is null or event_type = any (:event_types))
        order by id :order
        limit :limit
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= :bytes_max
order by id :order
;
