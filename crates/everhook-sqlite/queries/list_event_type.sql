-- Event types between two names. Index: the primary key.
select
    {EventType}
from event_type
where environment = :environment
    and name > :above
    and name < :below
    and (not archived or :archived)
order by name :order
limit :limit;
