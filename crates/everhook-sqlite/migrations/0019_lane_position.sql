-- The last position that an ordered lane has given to a delivery. Additive: an older binary orders by the clock alone.
alter table lane
add column last_position integer not null default 0;
