-- List the messages of a poller in a range of positions, filtered, up to the bytes of a page. Indexes: polled_position,
-- the primary key of message.
-- Differs: `jsonb` tests the members of a JSON array. The page is cut here, before rows are sent. The lateral select
-- with its limit leaves one way to join: a lookup by key for each row.
select sized.position, sized.matches, {sized: Message}
from (
    select
        listed.*,
        count(*) over () as matches,
        sum(octet_length(payload)) over (
            order by position
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select polled.position, {message: Message}
        from everhook.polled
            cross join lateral (
                select {message: Message}
                from everhook.message
                where message.environment = polled.environment
                    and message.application = :application
                    and message.id = polled.message
                limit 1
            ) as message
        where polled.environment = :environment
            and polled.endpoint = :endpoint
            and polled.position > :after
            and polled.position <= :until
            and (:channel::text is null or message.channels::jsonb ? :channel)
            and (:event_type::text is null or message.event_type = :event_type)
        order by polled.position
        limit :limit
    ) as listed
) as sized
where coalesce(sized.bytes_before, 0) <= :bytes_max
order by sized.position;
