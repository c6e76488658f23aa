-- Invalidate cached endpoints of an application. Index: the primary key.
update lane_group
set version = version + 1
where environment = :environment
    and id = :id;
