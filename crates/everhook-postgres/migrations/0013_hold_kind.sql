-- Why a lane holds: a pause of its receiver (0), or its rate limit (1). Additive: an older binary holds lanes without it,
-- and its holds count as pauses or keep the last kind, which only changes the shown reason.
alter table everhook.lane
add column hold_kind smallint not null default 0;
