-- Find out whether a task is open for a message or job with an id in a range. Index: the primary key, in each
-- environment.
-- No twin: SQLite has no partitions.
select 1
from (select id from everhook.environment union all select 0) as environment
    cross join lateral (
        select 1
        from everhook.task
        where task.environment = environment.id
            and task.subject >= :low
            and task.subject < :high
        limit 1
    ) as open
limit 1;
