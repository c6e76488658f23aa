-- List the messages of a poller in a range of positions, filtered. Indexes: polled_position, the primary key of
-- message.
-- Differs: `json_each` tests the members of a JSON array; the reader stops at the bytes of a page.
select polled.position, {message: Message}
from polled
    join message on message.environment = :environment
        and message.application = :application
        and message.id = polled.message
where polled.environment = :environment
    and polled.endpoint = :endpoint
    and polled.position > :after
    and polled.position <= :until
    and (:channel is null or exists (select 1 from json_each(message.channels) where json_each.value = :channel))
    and (:event_type is null or message.event_type = :event_type)
order by polled.position
limit :limit;
