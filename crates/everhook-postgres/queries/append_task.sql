-- Write tasks that nobody has tried: leased ones with their owner, pending ones without.
-- Differs: many rows at once.
insert into everhook.task
    (environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state)
select environment, subject, id, lane, kind, "trigger", priority, due_at, 0, 0, epoch, owner, false, state
from unnest(
    $1::int[], $2::bytea[], $3::bytea[], $4::bytea[], $5::smallint[], $6::smallint[], $7::smallint[], $8::bigint[], $9::int[], $10::bytea[],
    $11::smallint[]
) as fresh (environment, subject, id, lane, kind, "trigger", priority, due_at, epoch, owner, state);
