-- Stop the lane group of a queue. Index: the primary key.
-- No twin: PostgreSQL writes it in `stop_queue`.
update lane_group
set state = 2,
    version = version + 1
where environment = :environment
    and id = :id;
