-- Count what waits, up to a bound, and tell since when the lane that waits longest is ready. Indexes: task_ready, task_dead, lane_ready.
-- Differs: the indexes are named, because nothing but their predicates speaks for them; the clock is the caller's.
select
    (select count(*) from (select 1 from task indexed by task_ready where state = 0 limit ?1)),
    (select count(*) from (select 1 from task indexed by task_dead where state = 2 limit ?1)),
    coalesce(
        (
            select ?2 - ready_at
            from lane
            where ready_at < 9223372036854775807
            order by ready_at
            limit 1
        ),
        0
    );
