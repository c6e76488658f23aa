-- The next queue between two names that was configured, or has or had a job. Indexes: the primary key of queue, lane_queue.
-- Differs: one at a time, so that a queue with many lanes is stepped over at once.
select name
from (
    select name
    from (
        select name
        from queue
        where environment = ?1
            and name > ?2
            and name < ?3
        order by name asc
        limit 1
    )
    union all
    select name
    from (
        select queue as name
        from lane
        where environment = ?1
            and queue > ?2
            and queue < ?3
        order by queue asc
        limit 1
    )
)
order by name asc
limit 1;
