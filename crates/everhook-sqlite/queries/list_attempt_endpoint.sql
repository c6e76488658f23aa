-- List attempts to one endpoint in a range of ids, filtered. Index: attempt_endpoint.
-- Differs: `json_each` tests the members of a JSON array.
select
    attempt.id, attempt.subject, attempt.endpoint, attempt.epoch, attempt.class, attempt.end_state, attempt."trigger", attempt.url,
    attempt.status, attempt.reply, attempt.started_at, attempt.duration_us, attempt.exchange
from attempt
where attempt.environment = ?1
    and attempt.endpoint = ?2
    and attempt.id > ?3
    and attempt.id < ?4
    and (?5 is null or (attempt.class = 0) = ?5)
    and attempt.status >= ?6
    and attempt.status < ?7
    and attempt.started_at < ?8
    and attempt.started_at >= ?9
    and (
        (?10 is null and ?11 is null and ?12 is null)
        or exists (
            select 1
            from message
            where message.environment = ?1
                and message.application = ?13
                and message.id = attempt.subject
                and (?10 is null or exists (select 1 from json_each(message.channels) where json_each.value = ?10))
                and (?11 is null or exists (select 1 from json_each(message.tags) where json_each.value = ?11))
                and (?12 is null or message.event_type in (select json_each.value from json_each(?12)))
        )
    )
order by attempt.id asc
limit ?14;
