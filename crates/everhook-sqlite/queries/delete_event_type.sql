-- Remove an event type for good. Index: the primary key.
delete from event_type
where environment = :environment
    and name = :name;
