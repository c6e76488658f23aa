-- The version of a lane group, to know whether the cached endpoints of its application still hold. Index: the primary key.
select version
from lane_group
where environment = :environment
    and id = :id;
