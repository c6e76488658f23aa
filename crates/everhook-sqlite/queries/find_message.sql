-- Find a message of an application. Index: the primary key.
select id, event_type, event_id, channels, tags, payload, created_at, rest
from message
where environment = ?1
    and application = ?2
    and id = ?3;
