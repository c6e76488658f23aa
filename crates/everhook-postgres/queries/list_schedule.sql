-- Schedules between two names, until they have the bytes of a page. Index: the primary key.
-- Differs: the rows are sized here, before they are sent, each with how many there were.
select {ScheduleRow}, listed_rows
from (
    select
        listed.*,
        count(*) over () as listed_rows,
        sum(octet_length(starts)) over (
            order by name :order
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select {ScheduleRow}
        from everhook.schedule
        where environment = :environment
            and name > :above
            and name < :below
        order by name :order
        limit :limit
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= :bytes_max
order by name :order
;
