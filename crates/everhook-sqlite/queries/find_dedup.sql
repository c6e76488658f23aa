-- Find the object that holds a dedup key. Index: the primary key.
select object, body
from dedup
where environment = :environment
    and scope = :scope
    and hash = :hash;
