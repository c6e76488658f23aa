-- Erase the payload of a message. Index: the primary key.
update message
set payload = null
where environment = :environment
    and application = :application
    and id = :id;
