-- Write the tasks of new jobs as pending.
-- Differs: many rows at once.
insert into everhook.task (
    environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, state, timeout_us, kind_hash, batch
)
select environment, subject, id, lane, 1, 0, priority, due_at, 0, 0, 0, false, 0, timeout_us, kind_hash, batch
from unnest(:fresh);
