-- Tell caches that an endpoint of the application changes. Index: the primary key.
update lane_group
set version = version + 1
where environment = :environment
    and id = :id;
