-- Schedules between two names, until they have the bytes of a page. Index: the primary key.
-- Differs: the rows are sized here, before they are sent, each with how many there were.
select environment, id, name, spec, starts, paused, next, queued, look_at, created_at, updated_at, revision, last_job, listed_rows
from (
    select
        listed.*,
        count(*) over () as listed_rows,
        sum(octet_length(starts)) over (
            order by name asc
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select environment, id, name, spec, starts, paused, next, queued, look_at, created_at, updated_at, revision, last_job
        from everhook.schedule
        where environment = $1
            and name > $2
            and name < $3
        order by name asc
        limit $4
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= $5
order by name asc
;
