-- Write new tasks: leased ones with their owner, pending ones without.
-- Differs: many rows at once.
insert into everhook.task
    (environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state)
select environment, subject, id, lane, kind, "trigger", priority, due_at, 0, 0, epoch, owner, false, state
from unnest(:fresh);
