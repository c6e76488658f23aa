-- One attempt of a message. Index: the primary key, by its beginning.
select
    attempt.id, attempt.subject, attempt.endpoint, attempt.epoch, attempt.class, attempt.end_state, attempt."trigger", attempt.url,
    attempt.status, attempt.reply, attempt.started_at, attempt.duration_us
from everhook.attempt
where attempt.environment = $1
    and attempt.subject = $2
    and attempt.id = $3;
