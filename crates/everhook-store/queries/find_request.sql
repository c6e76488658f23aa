-- Find the request that holds a key. Index: the primary key.
select body, status, answer
from everhook.request
where environment = :environment
    and hash = :hash;
