-- Find the next queue in a range of names that is configured, or has or had a job. Indexes: resource_name, lane_queue.
-- Differs: one queue at a time, so that the index skips all lanes of a queue at once.
select name
from (
    select name
    from (
        select name
        from resource
        where environment = :environment
            and kind = 3
            and parent = x''
            and name > :above
            and name < :below
            and deleted_at is null
        order by name :order
        limit 1
    )
    union all
    select name
    from (
        select queue as name
        from lane
        where environment = :environment
            and queue > :above
            and queue < :below
        order by queue :order
        limit 1
    )
)
order by name :order
limit 1;
