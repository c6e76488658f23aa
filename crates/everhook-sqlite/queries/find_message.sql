-- Find a message of an application. Index: the primary key.
select {Message}
from message
where environment = :environment
    and application = :application
    and id = :id;
