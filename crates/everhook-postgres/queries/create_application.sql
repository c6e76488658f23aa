-- Add an application, unless its uid is taken.
insert into everhook.application
    (environment, id, uid, name, throttle_rate, metadata, created_at, updated_at, revision)
select $1, $2, $3, $4, $5, $6, clock.now, clock.now, 1
from (select everhook.now_us() as now) as clock
on conflict do nothing
returning id, uid, name, throttle_rate, metadata, created_at, updated_at, revision;
