-- A message's attempts between two ids, to all or to one endpoint, filtered. Index: the primary key.
-- Differs: `jsonb` for what a JSON array contains.
select
    attempt.id, attempt.subject, attempt.endpoint, attempt.epoch, attempt.class, attempt.end_state, attempt."trigger", attempt.url,
    attempt.status, attempt.reply, attempt.started_at, attempt.duration_us
from everhook.attempt
where attempt.environment = $1
    and attempt.subject = $2
    and ($15::bytea is null or attempt.endpoint = $15)
    and attempt.id > $3
    and attempt.id < $4
    and ($5::boolean is null or (attempt.class = 0) = $5)
    and attempt.status >= $6
    and attempt.status < $7
    and attempt.started_at < $8
    and attempt.started_at >= $9
    and (
        ($10::text is null and $11::text is null and $12::text[] is null)
        or exists (
            select 1
            from everhook.message
            where message.environment = $1
                and message.application = $13
                and message.id = attempt.subject
                and ($10::text is null or message.channels::jsonb ? $10)
                and ($11::text is null or message.tags::jsonb ? $11)
                and ($12::text[] is null or message.event_type = any ($12))
        )
    )
order by attempt.id asc
limit $14;
