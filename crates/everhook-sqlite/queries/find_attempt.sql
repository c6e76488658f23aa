-- Find one attempt of a message. Index: the primary key, over the few attempts of a message.
select
    attempt.id, attempt.subject, attempt.endpoint, attempt.epoch, attempt.class, attempt.end_state, attempt."trigger", attempt.url,
    attempt.status, attempt.reply, attempt.started_at, attempt.duration_us, attempt.exchange
from attempt
where attempt.environment = ?1
    and attempt.subject = ?2
    and attempt.id = ?3;
