-- Find the last id that one search of messages reads; none if the list ends before. Index: the primary key.
select id
from everhook.message
where environment = :environment
    and application = :application
    and id > :above
    and id < :below
order by id :order
limit 1 offset :skipped;
