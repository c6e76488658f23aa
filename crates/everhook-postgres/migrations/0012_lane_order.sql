-- A total order of ready lanes, so that a lease can go on where the last one stopped. Additive: the index serves every
-- statement of an older binary, too.

drop index everhook.lane_ready;

create index lane_ready on everhook.lane (feed, ready_at, environment, id)
where ready_at < 9223372036854775807;
