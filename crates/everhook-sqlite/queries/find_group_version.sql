-- Find the version of a lane group, which shows whether cached endpoints are current. Index: the primary key.
select version
from lane_group
where environment = :environment
    and id = :id;
