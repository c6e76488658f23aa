-- Add or change the lane group of an application or a queue. Index: the primary key.
insert into everhook.lane_group as known (environment, id, version, state, limit_max, lane_limit_max, rate_us, pushes)
values (:environment, :id, everhook.now_us(), :state, :limit_max, :lane_limit_max, :rate_us, :pushes)
on conflict (environment, id) do update
set version = known.version + 1,
    state = excluded.state,
    limit_max = excluded.limit_max,
    lane_limit_max = excluded.lane_limit_max,
    rate_us = excluded.rate_us,
    pushes = excluded.pushes;
