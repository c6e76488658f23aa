-- Find the object that holds a dedup key. Index: the primary key.
select object, body
from dedup
where environment = ?1
    and scope = ?2
    and hash = ?3;
