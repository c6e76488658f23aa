-- Write a new task: pending without an owner, or already leased.
-- Differs: one row at a time.
insert into task (
    environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, ?9, ?10, 0, ?11);
