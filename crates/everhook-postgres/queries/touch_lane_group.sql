-- Tell caches that an endpoint of the application changes, and keep others from changing it until then. Index: the primary key.
update everhook.lane_group
set version = version + 1
where environment = :environment
    and id = :id;
