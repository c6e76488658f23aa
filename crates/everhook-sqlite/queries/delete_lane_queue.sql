-- Delete some lanes of a queue. Indexes: lane_queue, the primary key.
-- No twin: PostgreSQL locks them with `lock_lane_queue` and deletes them with `prune_lane`. Here the caller has just
-- counted that no lane has a job, and there is one writer.
delete from lane
where environment = :environment
    and id in (
        select id
        from lane
        where environment = :environment
            and queue = :queue
        limit :limit
    );
