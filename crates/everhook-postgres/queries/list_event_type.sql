-- Event types between two names, until they have the bytes of a page. Index: the primary key.
-- Differs: the rows are sized here, before they are sent.
select {EventType}
from (
    select
        listed.*,
        sum(octet_length(description) + coalesce(octet_length(schemas), 0)) over (
            order by name :order
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select {EventType}
        from everhook.event_type
        where environment = :environment
            and name > :above
            and name < :below
            and (not archived or :archived)
        order by name :order
        limit :limit
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= :bytes_max
order by name :order
;
