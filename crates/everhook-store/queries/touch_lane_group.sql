-- Invalidate cached endpoints of an application, and lock it against other changes. Index: the primary key.
update everhook.lane_group
set version = version + 1
where environment = :environment
    and id = :id;
