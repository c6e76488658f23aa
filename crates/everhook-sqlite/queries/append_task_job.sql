-- Write the task of a new job as pending.
-- Differs: one row at a time.
insert into task (
    environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, state,
    timeout_us, kind_hash, batch
)
values (
    :environment, :subject, :id, :lane, :kind, :trigger, :priority, :due_at, 0, 0, 0, 0, 0,
    :timeout_us, :kind_hash, :batch
);
