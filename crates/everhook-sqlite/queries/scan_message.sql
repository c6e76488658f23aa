-- Find the last id that one search of messages reads; none if the list ends before. Index: the primary key.
select id
from message
where environment = ?1
    and application = ?2
    and id > ?3
    and id < ?4
order by id asc
limit 1 offset ?5;
