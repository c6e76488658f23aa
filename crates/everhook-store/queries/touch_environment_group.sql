-- Invalidate the cached endpoints of all applications of an environment. Index: the primary key.
update everhook.lane_group
set version = version + 1
where environment = :environment;
