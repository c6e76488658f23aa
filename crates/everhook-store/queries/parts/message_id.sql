-- The ids of an application's messages in a range. Index: the primary key.
select id
from everhook.message
where environment = :environment
    and application = :application
    and id > :above
    and id < :below
order by id :order
