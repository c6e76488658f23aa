-- Forget some lanes of a queue. Indexes: lane_queue, the primary key.
-- No twin: PostgreSQL locks them first (`lock_lane_queue`) and removes them with `prune_lane`. Here the caller has just counted that no job is
-- in any of them, and there is one writer.
delete from lane
where environment = ?1
    and id in (
        select id
        from lane
        where environment = ?1
            and queue = ?2
        limit ?3
    );
