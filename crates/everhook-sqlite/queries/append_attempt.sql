-- Log an attempt, once per task and epoch. Index: the primary key.
-- No twin: PostgreSQL logs attempts inside the statements that settle.
insert into attempt (
    kind, environment, subject, task, epoch, id, session, endpoint, class, end_state, "trigger", url, status, reply, started_at,
    duration_us, exchange
)
values (
    :kind, :environment, :subject, :task, :epoch, :id, :session, :endpoint, :class, :end_state, :trigger, :url, :status, :reply,
    :started_at, :duration_us, :exchange
)
on conflict (environment, subject, task, epoch) do nothing;
