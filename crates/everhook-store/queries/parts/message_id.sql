-- The ids of an application's messages in a range. Index: the primary key.
select message.id
from everhook.message
where message.environment = :environment
    and message.application = {application}
    and message.id > :above
    and message.id < :below
order by message.id :order
