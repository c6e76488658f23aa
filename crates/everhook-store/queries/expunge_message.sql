-- Erase the payload of a message. Index: the primary key.
update everhook.message
set payload = null
where environment = :environment
    and application = :application
    and id = :id;
