-- Remove an event type for good. Index: the primary key.
delete from everhook.event_type
where environment = :environment
    and name = :name;
