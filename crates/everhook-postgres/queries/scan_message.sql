-- How far one search of messages looks: the id of the last row, none if the list ends before. Index: the primary key.
select id
from everhook.message
where environment = :environment
    and application = :application
    and id > :above
    and id < :below
order by id :order
limit 1 offset :skipped;
