-- The last position that an ordered lane has given to a delivery. Additive: an older binary orders by the clock alone.
alter table everhook.lane
add column last_position bigint not null default 0;
