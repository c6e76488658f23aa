-- An application's messages between two ids, filtered. Index: the primary key.
-- Differs: `jsonb` for what a JSON array contains.
select
    message.environment, message.application, message.id, message.event_type, message.event_id, message.channels, message.tags,
    message.payload, message.created_at
from everhook.message
where environment = $1
    and application = $2
    and id > $3
    and id < $4
    and created_at < $5
    and created_at > $6
    and ($7::text is null or channels::jsonb ? $7)
    and ($8::text is null or tags::jsonb ? $8)
    and ($9::text[] is null or event_type = any ($9))
order by id asc
limit $10;
