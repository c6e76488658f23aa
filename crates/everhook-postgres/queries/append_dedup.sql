-- Take dedup keys for objects; an expired key can be taken again. Returns the keys that were taken. Index: the primary
-- key.
-- Differs: many rows at once, in key order, so that two batches that share keys wait for each other instead of
-- deadlocking.
with clock as materialized (
    select everhook.now_us() as now
)
insert into everhook.dedup as held (environment, scope, hash, object, body, expires_at)
select wanted.environment, wanted.scope, wanted.hash, wanted.object, wanted.body, clock.now + wanted.kept_us
from clock
    cross join unnest(:wanted)
on conflict (environment, scope, hash) do update
set object = excluded.object,
    body = excluded.body,
    expires_at = excluded.expires_at
where held.expires_at <= (select now from clock)
returning held.environment, held.scope, held.hash;
