-- The circuit breaker of a lane: a number that only the core reads, positive unless the breaker is closed. Additive: an
-- older binary ignores breakers, and cannot read the reason of a lane that holds for one.
alter table lane add column breaker integer not null default 0;

-- For the count of breakers that are not closed.
create index lane_breaker on lane (environment, id)
where breaker > 0;
