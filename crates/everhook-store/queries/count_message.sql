-- Count the next stored messages of a range of applications, up to a limit, and return the last of them. Index: the
-- primary key.
with page as materialized (
    select application, id
    from everhook.message
    where environment = :environment
        and (application, id) > (:above_application, :above)
        and application <= :below
    order by application, id
    limit :limit
)
select counted.messages, last.application, last.id
from (
    select count(*) as messages
    from page
) as counted
    left join (
        select application, id
        from page
        order by application desc, id desc
        limit 1
    ) as last on true;
