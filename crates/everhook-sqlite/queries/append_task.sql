-- Write a new task: pending without an owner, or already leased.
-- Differs: one row at a time.
insert into task (
    environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state
)
values (:environment, :subject, :id, :lane, :kind, :trigger, :priority, :due_at, 0, 0, :epoch, :owner, 0, :state);
