-- An application's messages in a range of ids and times. Index: the primary key.
from everhook.message
where environment = :environment
    and application = :application
    and id > :above
    and id < :below
    and created_at < :before
    and created_at >= :after
