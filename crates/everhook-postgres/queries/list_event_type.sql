-- Event types between two names, until they have the bytes of a page. Index: the primary key.
-- Differs: the rows are sized here, before they are sent.
select name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision
from (
    select
        listed.*,
        sum(octet_length(description) + coalesce(octet_length(schemas), 0)) over (
            order by name asc
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision
        from everhook.event_type
        where environment = $1
            and name > $2
            and name < $3
            and (not archived or $4)
        order by name asc
        limit $5
    ) as listed
) as sized
where coalesce(bytes_before, 0) <= $6
order by name asc
;
