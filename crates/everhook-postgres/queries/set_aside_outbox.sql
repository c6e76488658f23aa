-- Move rows that cannot be relayed aside, each with its error. Index: the primary key.
-- Differs: many rows at once, moved by one statement.
with bad as (
    delete from everhook.outbox
    using unnest(:judged)
    where outbox.id = any (array[judged.id])
    returning outbox.*, judged.error
)
insert into everhook.outbox_aside
    (id, created_at, deliver_at, once_phase, environment, application, event_type, payload, event_id, channels, tags, once_key, error)
select id, created_at, deliver_at, once_phase, environment, application, event_type, payload, event_id, channels, tags, once_key, error
from bad
{include outbox_aside};
