-- Log an attempt of a job, once per task and epoch. Index: the primary key.
-- No twin: PostgreSQL does it inside its statements that settle.
insert into job_attempt (
    environment, job, task, epoch, id, session, class, end_state, status, note, started_at, duration_us
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
on conflict (environment, job, task, epoch) do nothing;
