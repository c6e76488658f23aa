-- List resources in a range of names, up to a state and the bytes of a page. Indexes: resource_name, the primary key.
-- Schedules are listed with their states.
-- Differs: the page is cut here, before rows are sent. Each row has the number of rows before the cut.
select {ResourceRow}, {FiringRow}, listed_rows
from (
    select
        listed.*,
        count(*) over () as listed_rows,
        sum(octet_length(spec) + octet_length(info)) over (
            order by name :order
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        {include resource_named}
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= :bytes_max
order by name :order
;
