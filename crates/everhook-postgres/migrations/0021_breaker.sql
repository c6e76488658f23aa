-- The circuit breaker of a lane: a number that only the core reads, positive unless the breaker is closed. Additive: an
-- older binary ignores breakers, and cannot read the reason of a lane that holds for one.
alter table everhook.lane
add column breaker bigint not null default 0;

-- For the count of breakers that are not closed.
create index lane_breaker on everhook.lane (environment, id)
where breaker > 0;
