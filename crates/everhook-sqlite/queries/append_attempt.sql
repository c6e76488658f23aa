-- Log an attempt; its key makes a second one of the same tenure impossible. Index: the primary key.
-- Differs: one row at a time.
insert into attempt (
    environment, subject, task, epoch, id, endpoint, class, end_state, "trigger", url, status, reply, started_at,
    duration_us
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
on conflict (environment, subject, task, epoch) do nothing;
