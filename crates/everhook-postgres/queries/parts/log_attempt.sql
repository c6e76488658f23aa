-- Insert the attempts of settled tasks.
-- No twin: SQLite settles one task at a time, and appends its attempt with a statement of its own.
insert into everhook.attempt (
    kind, environment, subject, task, epoch, id, session, endpoint, class, end_state, "trigger", url, status, reply, started_at,
    duration_us, exchange
)
select
    kind, environment, subject, task, epoch, attempt, session, endpoint, class, end_state, "trigger", url, status, reply, started_at,
    duration_us, exchange
