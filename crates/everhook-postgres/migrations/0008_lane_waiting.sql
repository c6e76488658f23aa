-- New deliveries wait for a slot in it: what comes later must not overtake them.
alter table everhook.lane add column waiting boolean not null default false;

-- No pending task is due before the floor: a lease begins to look there, and not at entries that an old snapshot keeps from being removed.
-- It counts only while `next_due` is what it was written with: binaries that do not know of it change that alone. Never above `next_due`.
alter table everhook.lane
    add column floor bigint not null default 0,
    add column floor_of bigint not null default 0;
