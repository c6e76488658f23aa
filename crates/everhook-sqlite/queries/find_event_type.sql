-- An event type, archived or not. Index: the primary key.
select
    {EventType}
from event_type
where environment = :environment
    and name = :name;
