-- Delete the lane group of a deleted application or queue. Index: the primary key.
delete from everhook.lane_group
where environment = :environment
    and id = :id;
