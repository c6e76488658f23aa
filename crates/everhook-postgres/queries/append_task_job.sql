-- Write the tasks of jobs, pending, that nobody has tried.
-- Differs: many rows at once.
insert into everhook.task (
    environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, state, timeout_us, handler, batch
)
select environment, subject, id, lane, 1, 0, priority, due_at, 0, 0, 0, false, 0, timeout_us, handler, batch
from unnest(
    $1::int[], $2::bytea[], $3::bytea[], $4::bytea[], $5::smallint[], $6::bigint[], $7::bigint[], $8::int[], $9::bytea[]
) as fresh (environment, subject, id, lane, priority, due_at, timeout_us, handler, batch);
