-- List the ids of an application's messages in a range, in the order of acceptance. Index: the primary key.
select id
from everhook.message
where environment = :environment
    and application = :application
    and id > :above
    and id < :below
order by id
limit :limit;
