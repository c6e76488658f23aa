-- Write messages.
-- Differs: many rows at once.
insert into everhook.message
    (environment, application, id, event_type, event_id, channels, tags, payload, created_at, rest)
select environment, application, id, event_type, event_id, channels, tags, payload, $9, rest
from unnest($1::int[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $10::text[])
    as fresh (environment, application, id, event_type, event_id, channels, tags, payload, rest);
